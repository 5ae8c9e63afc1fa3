"""Markdown files: what is read of them, and what is said of a broken one."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents import front_matter
from backstory.ingest.documents.formats.texts import MARKDOWN, UNREADABLE_DRAFT
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.text.encoding import find_encoding
from tests.errors import raises
from tests.long_tests import some

READER = MARKDOWN


def read(text: str) -> ParsedDocument:
    document = READER.read(text.encode(), "a/post.md")
    assert document is not None
    return document


YAML_POST = """\
---
title: "One year: the numbers"
slug: one-year
date: 2024-08-18 10:00:00 +0200
tags: [solar, energy, 2024, solar, null]
kind: note
tenant: team
draft: true
layout: {name: wide}
---

# A heading

Text.
"""

TOML_POST = """\
+++
title = "One year: the numbers"
slug = "one-year"
date = 2024-08-18T10:00:00+02:00
tags = ["solar", "energy", 2024, "solar"]
kind = "note"
tenant = "team"
draft = true
[layout]
name = "wide"
+++

# A heading

Text.
"""


@pytest.mark.parametrize("post", [YAML_POST, TOML_POST])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_yaml_and_toml_front_matter_are_read(post: str, newline: str, mark: str) -> None:
    assert READER.read((mark + post.replace("\n", newline)).encode(), "post.md") == ParsedDocument(
        text="\n# A heading\n\nText.\n",
        title="One year: the numbers",
        slug="one-year",
        published_at=datetime(2024, 8, 18, 8, tzinfo=UTC),
        tags=("solar", "energy", "2024"),
        kind="note",
        tenant="team",
        is_draft=True,
    )


@pytest.mark.parametrize(
    ("front", "moment"),
    [
        ("---\ndate: 2024-08-18\n---\n", datetime(2024, 8, 18)),
        ('---\ndate: "2024-08-18T10:00"\n---\n', datetime(2024, 8, 18, 10)),
        ("---\ndate: 2024-08-18T10:00:00-03:00\n...\n", datetime(2024, 8, 18, 13, tzinfo=UTC)),
        ("---\ndate:\n---\n", None),
        ("+++\ndate = 2024-08-18\n+++\n", datetime(2024, 8, 18)),
        ("+++\ndate = 2024-08-18T10:00:00\n+++\n", datetime(2024, 8, 18, 10)),
        ('+++\ndate = "2024-08-18"\n+++\n', datetime(2024, 8, 18)),
    ],
)
def test_dates_of_the_front_matter_are_utc_if_they_state_a_zone(front: str, moment: datetime | None) -> None:
    assert read(front + "Text").published_at == moment


@pytest.mark.parametrize(
    ("field", "tags"),
    [
        ("tags: one, two,, one", ("one", "two")),
        ("tags: one two  one", ("one", "two")),
        ("tags: machine learning, solar", ("machine learning", "solar")),
        ("tags: '#one #house/garden'", ("one", "house/garden")),
        ('tags: ["#one", house/garden, "#"]', ("one", "house/garden")),
        ("Tag: one", ("one",)),
        ("tags: solar", ("solar",)),
        ("tags:\n  - a\n  - b c", ("a", "b c")),
        ("tags:", ()),
        ("other: 1", ()),
    ],
)
def test_tags_are_a_list_or_a_text_with_commas_or_blanks(field: str, tags: tuple[str, ...]) -> None:
    assert read(f"---\n{field}\n---\nText").tags == tags


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: Given\n---\n# Heading\n", "Given"),
        ("---\ntitle: 007\n---\n# Heading\n", "007"),
        ("---\ntitle: Yes\n---\n# Heading\n", "Yes"),
        ("---\ntitle: >\n  Over two\n  lines\n---\nText\n", "Over two lines"),
        ("---\ntitle:\n---\nText\n\n## Heading ##\n", "Heading"),
        ("Underlined\n=====\n\nText\n", "Underlined"),
        ("```\n# comment\n```\n\n# Heading\n", "Heading"),
        ("#\n\n# Heading\n", "Heading"),
        ("Text only\n", None),
    ],
)
def test_the_title_is_of_the_front_matter_else_the_first_heading(text: str, title: str | None) -> None:
    assert read(text).title == title


@pytest.mark.parametrize(
    "text",
    [
        "Text",
        "---\n\nA rule above.\n\n---\n\nAnd below.\n",
        "---\nA rule, never closed.\n",
        "--- x\ntitle: a\n---\n",
        "\n---\na: b\n---\n",
    ],
)
def test_without_front_matter_the_whole_file_is_the_text(text: str) -> None:
    assert read(text) == ParsedDocument(text=text)


def test_a_line_of_hyphens_in_the_text_stays() -> None:
    assert read("---\ntitle: A\n---\nOne\n\n---\n\nTwo\n").text == "One\n\n---\n\nTwo\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("---\ntitle: a: b\n---\nText", "not valid YAML: mapping values are not allowed here"),
        ("---\nslug: a\ntags: [a\n---\nText", "not valid YAML"),
        ("---\na: \x07\n---\nText", "not valid YAML"),
        ("---\ntitle: a\ntitle: b\n---\nText", "has title twice; remove one"),
        ("---\n- a\n---\nText", "must be lines such as `title: Text`"),
        ("---\njust words\n---\nText", "must be lines such as `title: Text`"),
        ("---\ntitle: a\n\nText", "not closed; add a line ---"),
        ("+++\ntitle = 'a'\n\nText", "not closed; add a line +++"),
        ("+++\n\ntitle = a\n+++\nText", "not valid TOML"),
        ("+++\ntitle = 'a'\ntitle = 'b'\n+++\nText", "not valid TOML"),
        ("---\nslug: a\ndate: 2024-02-30\n---\nText", "date '2024-02-30' is not a date; write it as"),
        ("---\ndate: soon\n---\nText", "date 'soon' is not a date"),
        ("---\ndate: [2024-02-03]\n---\nText", "date must be one text"),
        ("+++\nslug = 'a'\ndate = 2024-02-30\n+++\nText", "Invalid date"),
        ("+++\nslug = 'a'\ndate = 'soon'\n+++\nText", "date 'soon' is not a date"),
        ("+++\ndate = 10:00:00\n+++\nText", "is not a date"),
        ("---\ntitle: {a: b}\n---\nText", "title must be one text"),
        ("---\ntags: {a: b}\n---\nText", "tags must be a list of texts"),
        ("---\ntags: [a, [b]]\n---\nText", "tags must be a list of texts"),
        ("---\ntags: &x [*x]\n---\nText", "tags must be a list of texts"),
        ('---\ntitle: "\\ud800"\n---\nText', "title holds half a surrogate pair"),
        ("---\na: " + "[" * 5000 + "\n---\nText", "nested too deeply"),
        ("+++\na = " + "[" * 5000 + "\n+++\nText", "nested too deeply"),
        ('{"title": "a",\n"date": soon}\nText', "not valid JSON: Expecting value"),
        ('{"title": "a",\n"slug": "b",\n"date": "soon"}\nText', "date 'soon' is not a date"),
        ('{"title": "a",\n"title": "b"}\nText', "has title twice"),
        ('{"title": "a"} Text', "text follows the front matter"),
        ('{"a": ' + "[" * 100_000 + "\nText", "nested too deeply"),
        ('{"title": "\\ud800"}\nText', "title holds half a surrogate pair"),
        ("---\ntitle: a\n---\n \n\n", "no text after the front matter; write some, or remove the file"),
        ("", "no text"),
    ],
)  # fmt: skip
def test_a_broken_file_says_why(text: str, words: str) -> None:
    with pytest.raises(ReadError) as caught:
        read(text)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line"), [(b"one\ntwo \xff\n", 2), ("one\ntwo \u00e9\n".encode() + b"three \xe9", 3)]
)
def test_a_file_with_a_line_that_is_not_utf8_is_named_with_the_line(content: bytes, line: int) -> None:
    with raises(ReadError, "not_utf8", line):
        READER.read(content, "post.md")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Der Frost hat das Bewässerungsrohr geknackt, und die Tür klemmt.", "cp1252"),
        ("Mráz rozbil trubku na zalévání zahrady a dveře se už nedají zavřít.", "cp1250"),
        ("Мороз повредил трубу для полива, и дверь больше не закрывается.", "cp1251"),
        ("Frost: \u00e9t\u00e9", "utf-16"),
        ("Frost and the elbow", "utf-16-le"),
        ("Frost: \u00e9t\u00e9", "utf-8-sig"),
    ],
)
def test_a_file_is_read_in_the_encoding_that_its_bytes_tell(text: str, encoding: str) -> None:
    content = f"---\ntitle: A title\n---\n\n{text}\n".encode(encoding)
    parsed = READER.read(content, "post.md")
    assert parsed is not None
    assert (parsed.title, parsed.text) == ("A title", f"\n{text}\n")
    assert find_encoding(content) == encoding.removesuffix("-sig")


@pytest.mark.parametrize(
    "content",
    [b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj", bytes(range(1, 32)) + "tête à tête".encode("latin-1")],
)
def test_bytes_that_are_no_text_are_not_read_in_a_guessed_encoding(content: bytes) -> None:
    with raises(ReadError, "binary_file"):
        READER.read(content, "post.md")


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("About #garden and #house/garden, and #garden again.", ("garden", "house/garden")),
        ("#first\n\n- a #second\n\n> #third\n\n## Heading #fourth\n", ("first", "second", "third", "fourth")),
        ("#año #日本 #a-b_c #2024-plan", ("año", "日本", "a-b_c", "2024-plan")),
        ("# Heading\n\n#1 of #2024, C#, a#b, ##x, &#39;, https://example.org/#part", ()),
        ("`#code` and\n\n```\n#fenced\n```\n\n    #indented\n\n[x](#part) <a href='x' title=' #html'>", ()),
    ],
)
def test_tags_in_the_text_are_read_where_it_is_running_text(text: str, tags: tuple[str, ...]) -> None:
    assert read(text).tags == tags


def test_tags_in_the_text_follow_those_of_the_front_matter() -> None:
    assert read("---\ntags: [b, a]\n---\n#a #c").tags == ("b", "a", "c")


@pytest.mark.parametrize(
    "front",
    [
        "---\ndraft: true\n---\n", '---\ndraft: "true"\n---\n', "---\nDraft: Yes\n---\n", "---\nisDraft: on\n---\n",
        "---\npublished: false\n---\n", "---\npublished: 'no'\n---\n", "---\npublish: false\n---\n",
        "---\nstatus: Draft\n---\n", "+++\ndraft = true\n+++\n", '+++\ndraft = "true"\n+++\n',
        '{\n"draft": true\n}\n', '{"published": false}\n', "---\ndraft: true\ndate: not yet\n---\n",
    ],
)  # fmt: skip
def test_a_draft_is_read_only_where_drafts_are_wanted(front: str) -> None:
    if "not yet" in front:
        with raises(ReadError, UNREADABLE_DRAFT):
            read(f"{front}Text")
    else:
        assert read(f"{front}Text").is_draft


@pytest.mark.parametrize(
    "front",
    ["draft: false", 'draft: "false"', "draft:", "draft: ''", "published: true", "published: 2024-05-01",
     "published: 1984", "publish: yes", "status: evergreen", "status: [draft, x]", "drafts: true"],
)  # fmt: skip
def test_other_documents_are_no_drafts(front: str) -> None:
    assert not read(f"---\n{front}\n---\nText").is_draft


@pytest.mark.parametrize(
    ("front", "name"),
    [("---\na: b\ndraft: perhaps\n---\n", "draft"), ("---\nisDraft: [true]\n---\n", "isDraft")],
)
def test_a_draft_that_is_neither_true_nor_false_is_an_error(front: str, name: str) -> None:
    with raises(ReadError, "invalid_field", name):
        read(f"{front}Text")


PRECEDENCE = (
    *front_matter.PUBLICATION_FIELDS, "published", *front_matter.CREATION_FIELDS,
)  # fmt: skip
SPELLINGS = (
    str,
    str.lower,
    str.upper,
    lambda name: re.sub(r"([A-Z])", r"_\1", name).lower(),
    lambda name: re.sub(r"([A-Z])", r" \1", name).lower(),
)


@given(
    names=st.lists(st.sampled_from(PRECEDENCE), min_size=1, unique=True),
    spell=st.sampled_from(SPELLINGS),
    updated=st.none() | st.sampled_from(front_matter.UPDATE_FIELDS),
)
def test_of_several_dates_the_first_in_the_stated_order_counts(
    names: list[str], spell: Callable[[str], str], updated: str | None
) -> None:
    lines = [f"{spell(name)}: 2024-01-{PRECEDENCE.index(name) + 1:02}" for name in names]
    lines += [f"{spell(updated)}: 2023-01-01"] if updated else []
    document = read("---\n{}\n---\nText".format("\n".join(lines)))
    assert document.published_at == datetime(2024, 1, min(map(PRECEDENCE.index, names)) + 1)
    assert document.change.moment is None


@given(st.sampled_from(front_matter.UPDATE_FIELDS), st.sampled_from(SPELLINGS))
def test_a_date_of_change_is_kept_apart(name: str, spell: Callable[[str], str]) -> None:
    document = read(f"---\n{spell(name)}: 2023-01-02\n---\nText")
    assert document.published_at is None
    assert document.change.moment == datetime(2023, 1, 2)


@pytest.mark.parametrize("name", sorted({*PRECEDENCE, *front_matter.UPDATE_FIELDS} - {"published"}))
def test_a_field_that_holds_no_date_is_named(name: str) -> None:
    with raises(ReadError, "invalid_field", name):
        read(f"---\ntitle: A\n{name}: soon\n---\nText")


def test_json_front_matter_is_read() -> None:
    post = '{\n  "title": "One year",\n  "date": "2024-08-18",\n  "tags": ["a", 1],\n  "x": {"title": null}\n}\n\n# H\n'
    assert read(post) == ParsedDocument(
        text="\n# H\n", title="One year", published_at=datetime(2024, 8, 18), tags=("a", "1")
    )


@pytest.mark.parametrize(
    "text", ["{% include x %}\nText", "{: .class}\nText", "{{< figure >}}\n", "{\nText\n}\n", "{"]
)
def test_other_braces_are_text(text: str) -> None:
    assert read(text).text == text


MARKS = [
    "---",
    "+++",
    "{",
    '"a": 1,',
    '"b": true',
    "}",
    "draft: x",
    "...",
    "title: a",
    "date: 2024-01-01",
    "a: &x 1",
    "b: *x",
    "- c",
    "t = 'a'",
    "# h",
    "",
]
LINES = st.lists(st.sampled_from(MARKS) | st.text(max_size=12), max_size=8)


@settings(deadline=None, max_examples=some(150))
@example("---\na: &x 1\nb: &x 2\n---\nText")
@given(
    st.builds(lambda mark, lines: "\n".join([mark, *lines]), st.sampled_from(["---", "+++", "{", ""]), LINES)
)
def test_any_file_is_read_or_refused(text: str) -> None:
    content = text.encode("utf-8", "surrogatepass")
    outcome = read_or_refuse(content)
    if isinstance(outcome, ReadError):
        assert str(outcome)
    else:
        assert outcome.text.strip()
        assert text.replace("\r\n", "\n").replace("\r", "\n").endswith(outcome.text)
        assert read_or_refuse(content) == outcome


def read_or_refuse(content: bytes) -> ParsedDocument | ReadError:
    try:
        document = READER.read(content, "post.md")
    except ReadError as error:
        return error
    assert document is not None
    return document
