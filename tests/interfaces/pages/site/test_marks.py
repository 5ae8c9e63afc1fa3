"""The mark of a part of a Markdown text: where it stands, and that it changes nothing else of what is shown."""

import re

import pytest

from backstory.interfaces.pages.site.markdown import Target, render_markdown
from tests.injections import FIELDS, HTML, LINE_ENDS, LINKS, MARKDOWN

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
