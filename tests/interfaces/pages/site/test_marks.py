"""The mark of a part of a Markdown text: where it stands, and that it changes nothing else of what is shown."""

import html
import random
import re

import pytest

from backstory.interfaces.pages.site.markdown import Target, render_markdown
from tests.injections import FIELDS, HTML, LINE_ENDS, LINKS, MARKDOWN
from tests.long_tests import some

TEXT = """# Night *train*

Book **both beds** of the [sleeper](https://example.org/a-sleeper), R&amp;D pays \\* `code`.
It leaves
at nine.

- soup
- bread

| day | fare |
| --- | --- |
| May | 40 |

```py
if a < b:
    board()
```
"""


def render(text: str, start: int, end: int) -> str:
    return str(render_markdown(text, lambda address, _: Target(address), marked=(start, end)))


def drop_languages(shown: str) -> str:
    """Drop the language of a block of code, which a marked one does not name."""
    return re.sub(r"<code[^>]*>", "<code>", shown)


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ("both beds", ["both beds"]),
        ("Book **both beds** of", ["Book <strong>both beds</strong> of"]),
        ("beds** of", ["beds", " of"]),
        (
            "the [sleeper](https://example.org/a-sleeper), R",
            ['the <a href="https://example.org/a-sleeper" rel="noreferrer noopener">sleeper</a>, R'],
        ),
        ("R&amp;D pays \\*", ["R&amp;D pays *"]),
        ("`code`", ["<code>code</code>"]),
        ("ode`.", ["ode", "."]),
        ("leaves\nat nine.\n\n- soup\n", ["leaves\nat nine.", "soup"]),
        ("| May | 40 |", ["May", "40"]),
        ("a < b:\n    board", ["a &lt; b:\n    board"]),
        ("https://example.org", []),
    ],
)
def test_what_is_shown_of_a_part_is_marked(part: str, shown: list[str]) -> None:
    start = TEXT.index(part)
    marked = render(TEXT, start, start + len(part))
    assert re.findall(r"<mark>(.*?)</mark>", marked, re.DOTALL) == shown


@pytest.mark.parametrize(
    ("text", "part", "shown"),
    [
        (
            "Rooms &ndash; the north wing &ndash; need a roof. The plan – as told – is old.",
            "The plan – as told",
            ["The plan – as told"],
        ),
        ('Rooms &quot;north&quot; and south. We said "no".', '"no"', ["&quot;no&quot;"]),
        ("| n | n |\n| - | - |\n| [#41](http://x/41) | 41 |", "[#41](http://x/41)", ["#41"]),
        ("| n | n |\n| - | - |\n| [#41](http://x/41) | 41 |", "| 41 |", ["41"]),
        ("> | a |\n> | - |\n> | > \\| a |", "\\| a |", ["| a"]),
        ("[the](http://x/the) ![the](the.png) the end", "the end", ["the end"]),
        ("# # a # #\n\na", "a # #", ["a #"]),
        ("> one\n  and one\n> one", "one\n> one", ["one\none"]),
        ("*a **a*** a", "a*** a", ["a", " a"]),
        ("a\n\n[a]: http://a\n[b]: http://a\na [a] [b]", "a [a] [b]", ["a a b"]),
    ],
)
def test_no_words_are_marked_in_place_of_the_same_ones_elsewhere(
    text: str, part: str, shown: list[str]
) -> None:
    start = text.rindex(part)
    marked = render(text, start, start + len(part))
    found = re.findall(r"<mark>(.*?)</mark>", marked, re.DOTALL)
    assert [re.sub("<.*?>", "", each) for each in found] == shown


def test_nothing_is_marked_where_the_parser_moves_lines() -> None:
    assert "<mark>" not in render("\u00a0\nthe plan\nthe plan", 2, 10)


WORDS = ("the", "a", "at", "e", "north", "41", "no")
SPELT = (
    ("&ndash;", "–"), ("&quot;", '"'), ("&#116;", "t"), ("&amp;", "&"), ("\\*", "*"), ("\\[", "["), ("&lt;", "<"),
)  # fmt: skip
"""What Markdown spells by more than one character, with what is shown of it."""
Atoms = list[tuple[str, str]]
"""Parts of a text that are marked as a whole, each with what is shown of it."""


def write_words(chance: random.Random, depth: int = 0) -> Atoms:
    atoms: Atoms = []
    for _ in range(chance.randint(1, 5)):
        word = [(letter, letter) for letter in chance.choice(WORDS)]
        kind = chance.randrange(8)
        if kind == 0 and depth < 2:
            around = chance.choice((("*", "*"), ("**", "**"), ("~~", "~~"), ("[", "](http://x/the-41)")))
            atoms += [
                (around[0], ""),
                *word,
                (" ", " "),
                *write_words(chance, depth + 2),
                *word,
                (around[1], ""),
            ]
        elif kind == 1:
            atoms += [("`", ""), *word, (" ", " "), *word, ("`", "")]
        elif kind == 2:
            atoms += [*word, chance.choice(SPELT), *word]
        elif kind == 3:
            atoms += [("<", ""), *((letter, letter) for letter in "http://x/"), *word, (">", "")]
        else:
            atoms += word
        atoms.append((" ", " "))
    return atoms[:-1]


def write_text(chance: random.Random) -> Atoms:
    atoms: Atoms = []
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(7)
        if kind == 0:
            atoms += [("## ", ""), *write_words(chance), (" ##", "")]
        elif kind == 1:
            atoms += [("| ", ""), ("n", "n"), (" | ", ""), ("n", "n"), (" |\n| - | - |\n", "")]
            for _ in range(2):
                atoms += [("| ", ""), *write_words(chance), (" | ", ""), *write_words(chance), (" |\n", "")]
        elif kind == 2:
            atoms += [("> - ", ""), *write_words(chance), ("\n>   ", " "), *write_words(chance)]
        elif kind == 3:
            letters = "".join(spelt for spelt, _ in write_words(chance))
            atoms += [("```the\n", ""), *((letter, letter) for letter in letters), ("\n```", "")]
        else:
            atoms += [*write_words(chance), ("\n", " "), *write_words(chance)]
        atoms.append(("\n\n", ""))
    return atoms


def read_marks(shown: str) -> list[tuple[str, bool]]:
    """List the letters that are shown, each with whether it is marked."""
    letters, is_marked = [], False
    for piece in re.findall(r"<[^>]*>|&#?\w+;|.", shown, re.DOTALL):
        if piece in ("<mark>", "</mark>"):
            is_marked = piece == "<mark>"
        elif not piece.startswith("<"):
            letters.append((html.unescape(piece), is_marked))
    return [(letter, is_marked) for letter, is_marked in letters if letter.strip()]


def test_each_letter_of_a_part_is_marked_and_no_other_one() -> None:
    chance = random.Random(41)
    for _ in range(some(900)):
        atoms = write_text(chance)
        text = "".join(spelt for spelt, _ in atoms)
        start = chance.randrange(len(text))
        end = min(len(text), start + chance.randint(1, 60))
        expected, place = [], 0
        for spelt, shown in atoms:
            is_marked = place < end and start < place + len(spelt)
            expected += [(letter, is_marked) for letter in shown if letter.strip()]
            place += len(spelt)
        assert read_marks(render(text, start, end)) == expected, (text, text[start:end])


def test_a_mark_changes_nothing_else() -> None:
    for text in (TEXT, *MARKDOWN, *FIELDS, *HTML, *LINKS, *LINE_ENDS):
        whole = f"Before.\n\n{text}\n\nAfter."
        plain = drop_languages(render(whole, 0, 0))
        for start in range(0, len(whole), max(1, len(whole) // 9)):
            marked = drop_languages(render(whole, start, start + 9))
            assert re.sub("</?mark>", "", marked) == plain, text
            # No mark lies across the border of another element.
            for inner in re.findall("<mark>(.*?)</mark>", marked, re.DOTALL):
                assert inner.count("<") == 2 * inner.count("</"), text
