"""No text of a document changes the structure of a context, whoever reads it: a CommonMark parser or plainer eyes."""

import json
import re
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from backstory.models.llm_reranker import write_prompt
from backstory.models.reranker import Candidate, QueryChunk, RerankRequest
from backstory.settings.models import ContextSettings
from backstory.text.prompts.entries import format_markdown
from backstory.text.prompts.escaping import escape_block, escape_line
from tests.injections import HARMLESS, INJECTIONS
from tests.long_tests import LONG_TESTS, each_of

SETTINGS = ContextSettings()
DAY = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)
ROLE = re.compile(r"^[\s*_]*(human|assistant|system|user)[*_]*\s*:", re.IGNORECASE)
MARKER = re.compile(r"<[|｜/!?]|<(s|start_of_turn|im_start)>|\[/?(INST|SYSTEM_PROMPT)\]")


@cache
def unseen() -> dict[int, None]:
    """Map every sign that nobody sees to nothing. It takes long, which the collection of the tests would wait for."""
    return dict.fromkeys(
        place
        for place in range(0x110000)
        if (chr(place) not in "\n\t" and unicodedata.category(chr(place)) in ("Cc", "Cf"))
        or place in (0x34F, 0x115F, 0x1160, 0x3164, 0xFFA0)
        or 0xFE00 <= place <= 0xFE0F
        or 0xE0100 <= place <= 0xE01EF
    )


def make_parser() -> MarkdownIt:
    """Make a reader of CommonMark with HTML that takes every link for one, whatever its address."""
    parser = MarkdownIt("commonmark")
    setattr(parser, "validateLink", lambda _url: True)  # noqa: B010 - mypy permits no method to be replaced
    return parser


PARSER = make_parser()


def walk(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from walk(token.children or [])


def is_field(label: str) -> bool:
    letters = re.sub(r"[^\w:]|_", "", unicodedata.normalize("NFKC", label).casefold())
    return letters.startswith(("tags:", "similarity:"))


def outline(text: str) -> list[tuple[Any, ...]]:
    """Give the structure that a parser sees: headings, rules, fences, HTML, images, other links, an entry's fields."""
    tokens = PARSER.parse(text)
    found: list[tuple[Any, ...]] = []
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type in ("heading_open", "hr", "fence", "html_block"):
            found.append((token.type, token.tag, token.level))
        if token.type == "inline":
            if before is not None and before.type == "heading_open":
                assert token.children is not None
                made = [child for child in token.children if child.type == "link_open"]
                found.append(("heading", any(child.markup != "autolink" for child in made)))
            elif before is not None and before.level > 1 and token.level > 2:
                shown = "".join(child.content for child in token.children or [])
                if not shown.startswith(("-", "+", "*")) and is_field(shown):
                    found.append(("field", shown.split(":")[0], token.level))
    for token in walk(tokens):
        if token.type in ("html_inline", "image"):
            found.append((token.type,))
        if token.type == "link_open" and not re.match(
            "(https?|mailto|tel):|[^:]*$", str(token.attrs["href"])
        ):
            found.append(("link", token.attrs["href"]))
    return found


def glance(text: str) -> list[str]:
    """Give the lines that pass for structure with a reader who breaks lines everywhere and sees nothing invisible."""
    seen = [re.sub(r"(?<!`)\s+|\s+(?!`)", "", line.translate(unseen())) for line in text.splitlines()]
    return [
        line
        for line in seen
        if line.startswith(("#", "```", "~~~"))
        or re.match(r"[\u2800\u0300-\u036f>]+#", line)
        or re.fullmatch("=+|-+", line)
        or ROLE.match(line)
        or MARKER.search(line)
        or re.search(r"!\[", line)
        or (re.match(r"[-+*•–]|\d[.)]", line) and is_field(line.lstrip("0123456789")))
    ]


def unseen_in(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) == "Cc"} - {"\n", "\t"}


def make_context(text: str, *, title: str = "Title", tag: str = "tag") -> str:
    entry = {"published_at": DAY, "similarity": 0.5}
    return format_markdown(
        [
            {**entry, "title": "Title", "passage": "Before.", "tags": ["x"]},
            {**entry, "title": title, "passage": text, "tags": [tag]},
            {**entry, "title": "Title", "passage": "After.", "tags": ["y"]},
        ],
        SETTINGS,
    )


def seen_beside_tags(glanced: list[str]) -> list[str]:
    return [re.sub(r"\[.*\]", "", line) for line in glanced if not line.startswith("-Tags:")]


@cache
def harmless_structure() -> tuple[list[tuple[Any, ...]], list[str]]:
    """Give the structure of a context with a harmless text, as a parser and as plainer eyes see it."""
    reference = make_context("Words.")
    return outline(reference), seen_beside_tags(glance(reference))


def differs(context: str) -> bool:
    """Say whether a context reads otherwise than one of the same entries with a harmless text."""
    parsed, seen = harmless_structure()
    visible = "\n".join(context.translate(unseen()).splitlines())
    glanced = glance(context)
    return bool(
        outline(context) != parsed
        or (visible != context and outline(visible) != parsed)
        or seen_beside_tags(glanced) != seen
        or len([line for line in glanced if line.startswith("-Tags:")]) != 3
        or unseen_in(context)
    )


def test_no_content_changes_the_structure_of_a_context() -> None:
    forms = ("{}", "Words before.\n{}", "- an item\n  {}", "{}\n\nWords after.")
    texts = [
        form.format(text)
        for number, text in enumerate(INJECTIONS)
        for form in (forms if LONG_TESTS else forms[number % len(forms) :][:1])
    ]
    assert [text for text in texts if differs(make_context(text))] == []


def test_no_title_or_tag_changes_the_structure_of_a_context() -> None:
    assert [text for text in each_of(INJECTIONS, 2) if differs(make_context("Words.", title=text))] == []
    assert [text for text in each_of(INJECTIONS[1:], 2) if differs(make_context("Words.", tag=text))] == []


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_is_left_alone(text: str) -> None:
    assert escape_block(text) == text
    assert text in make_context(text)


ATOMS = st.sampled_from(
    ["#", "##", " ", "  ", "    ", "\t", "\n", "\n\n", ">", "> ", "- ", "* ", "+ ", "1. ", "2) ", "-", "=", "*", "_",
     "---", "```", "~~~", "`", "<", ">", "</", "<b>", "<!--", "-->", "<div", "<|", "|>", "!", "[", "]", "(", ")", "![",
     "](", "]: ", "Title", "Tags:", "Similarity: ", "\\", "\\\\", "&#84;", "&lt;", "javascript:", "https://x", "a",
     "Human:", "\r", "\v", "\u2028", "\u200b", "\u200d", "\ufe0f", "\x1b", "\u00a0", "\u3164", "**", "'", '"']
)  # fmt: skip


@given(st.lists(ATOMS, min_size=1, max_size=12).map("".join))
@example("<a href='\\\n<b>")
def test_no_pile_of_markers_changes_the_structure_of_a_context(text: str) -> None:
    assert not differs(make_context(text))
    assert not differs(make_context("Words.", title=text, tag=text))


@given(st.text(max_size=80))
def test_escaping_drops_no_visible_character(text: str) -> None:
    def visible(shown: str) -> str:
        return "".join(shown.translate(unseen()).replace("\\", "").split())

    escaped = escape_block(text)
    assert [c for c in visible(escaped) if c.isalnum()] == [c for c in visible(text) if c.isalnum()]
    assert "</" not in escaped
    assert len(escape_line(text).splitlines()) <= 1


def test_a_reranker_is_given_the_texts_as_data_of_one_line() -> None:
    for text in INJECTIONS:
        asked = (QueryChunk("q", text),)
        prompt = write_prompt(
            RerankRequest("w", asked, asked, (Candidate("c", text, text),), np.ones((1, 1)))
        )
        assert json.loads(prompt) == {
            "parts": [{"id": 1, "text": text}],
            "documents": [{"id": 1, "title": text, "text": text}],
        }
        assert len(prompt.splitlines()) == 1, text
        assert not MARKER.search(prompt.replace("[", "")), text
        assert not {unicodedata.category(character) for character in prompt} & {"Cc", "Cf", "Zl", "Zp"}, text
