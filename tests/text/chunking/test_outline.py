from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from backstory.text.chunking.outline import outline_markdown


def paragraphs(text: str) -> list[str]:
    return [text[start:end] for start, end in outline_markdown(text).units]


def split_by_hand(text: str) -> list[str]:
    """Plain text without code and headings: lines joined until a blank one."""
    found: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return ["\n".join(lines) for lines in found if lines]


@given(st.text("ab# -=\t\u3000é\n\n\n", max_size=80))
def test_paragraphs_are_split_at_blank_lines(text: str) -> None:
    assert paragraphs(text) == split_by_hand(text)


LINES = st.sampled_from(
    ["", " ", "a", "b c", "# A", "## B", "# -->", "   ## B ##", "    # c", "=", "--", "```", "~~~~ x", "- d", "  e",
     "> # f", "1. # g", "<!--", "-->", "<pre>", "</pre>", "<b>", "\t- h", "***"]
)  # fmt: skip


@given(st.lists(LINES, max_size=14).map("\n".join))
def test_headings_and_code_are_those_of_the_whole_parser(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(text)
    lines = text.split("\n")
    expected = []
    for token in tokens:
        if token.type == "heading_open" and not token.level and token.map:
            first, stop = token.map
            below_blank = first == 0 or not lines[first - 1].strip()
            if token.markup.startswith("#") or (stop - first == 2 and below_blank):
                expected.append((first, int(token.tag[1])))
    outline = outline_markdown(text)
    first_lines = [text[:start].count("\n") for start in outline.heading_starts]
    assert list(zip(first_lines, outline.heading_levels, strict=True)) == expected
    owners = np.zeros(len(text) + 1, int)
    for number, (start, end) in enumerate(outline.units, start=1):
        owners[start:end] = number
    for token in tokens:
        if token.type == "fence" and token.map and not lines[token.map[0]].startswith(">"):
            first, stop = token.map
            inside = sum(len(line) + 1 for line in lines[:first])
            code = "\n".join(lines[first:stop]).rstrip()
            assert len(set(owners[inside : inside + len(code)].tolist())) <= 1, "code is parted"


@given(st.text("ab#`~= \n\n", max_size=80))
def test_crlf_changes_nothing(text: str) -> None:
    other = text.replace("\n", "\r\n")
    assert [part.replace("\r\n", "\n") for part in paragraphs(other)] == paragraphs(text)
    assert outline_markdown(other).headings == outline_markdown(text).headings


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("# One", "One"),
        ("   ## Two ##", "Two"),
        ("###### Six", "Six"),
        ("# C#", "C#"),
        ("#\tTab  and   spaces", "Tab and spaces"),
        ("#", ""),
        ("####### seven", None),
        ("#tag", None),
        ("    # indented", None),
        ("\\# escaped", None),
        ("Under\n---", "Under"),
        ("Under\n=", "Under"),
        ("a\nb\n---", None),
        ("---\nkey: value\n---", None),
        ("---", None),
        ("- item\n- item", None),
        ("- item\n---", None),
        ("> # quoted", None),
        ("<!--\n# commented\n-->", None),
        ("- ```\n  # in code\n  ```", None),
    ],
)
def test_headings_are_those_of_commonmark(line: str, heading: str | None) -> None:
    assert outline_markdown(line).headings == ([] if heading is None else [heading])


def test_paths_hold_the_open_headings_only() -> None:
    text = "## Early\n# A\n### A1\n## A2\n# B\n## B1\n"
    outline = outline_markdown(text)
    assert outline.headings == ["Early", "A", "A > A1", "A > A2", "B", "B > B1"]
    offsets = [0, text.index("# A"), text.index("# A") - 1, len(text)]
    assert [outline.heading_at(offset) for offset in offsets] == ["Early", "A", "Early", "B > B1"]


@pytest.mark.parametrize(
    "parts",
    [
        ["Before:", "``` python\n# a comment\n\n\nx = 1\n```", "after"],
        ["Before:", "   ~~~~\n# a comment\n\n\nx = 1\n   ~~~~", "after"],
        ["Before:\n\n", "<!--\n\n", "# hidden\n\n", "-->\n"],
        ["Before:\n\n", "<pre>\n\n", "# a\n</pre>\n"],
        ["Before:\n\n", "<script>\n\n", "# b\n</script>\n"],
        ["```a``` b\n"],
    ],
)
def test_code_is_one_paragraph_and_html_is_parted_and_neither_holds_headings(parts: list[str]) -> None:
    text = "\n".join([*parts, "", "# End", "", "```\n# never closed\n\nc"])
    whole = [part.strip("\n") for part in parts]
    assert paragraphs(text) == [*whole, "# End", "```\n# never closed\n\nc"]
    assert outline_markdown(text).headings == ["End"]
