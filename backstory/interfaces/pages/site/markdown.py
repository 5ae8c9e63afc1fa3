"""Markdown of posts and documents as HTML: no HTML of theirs, no image, and no link but those that are allowed."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from backstory.interfaces.pages.report.page import drop_controls
from backstory.interfaces.pages.site.marks import PlacedWords, mark_tokens

_TOPIC: Final = "h2"
_LAST_LEVEL: Final = 6
_DESTINATION: Final = re.compile(r"\](?:\(|:)\s*(<[^<>\n]*>|\S+)")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")


@dataclass(frozen=True)
class Target:
    """Where a link leads.

    Attributes:
        address: The link.
        about: Its tooltip; empty for none.
        number: Number of a citation, shown in place of its words; None for any other link.
        paint: CSS classes of the colour of a citation.
    """

    address: str
    about: str = ""
    number: int | None = None
    paint: str = ""


class _TrustingParser(MarkdownIt):
    """Takes everything that a program without caution would take from Markdown."""

    def validateLink(self, url: str) -> bool:  # noqa: N802, ARG002 -- the name of the parser's check
        return True


Resolve = Callable[[str, str], Target | None]
"""Returns the target of a link by its address and its words; None if the words stay without a link."""


class Markdown:
    """Markdown that is rendered when a page shows it.

    Its ``repr`` holds everything that decides the HTML: the text, and where each of its links leads.

    Args:
        text: Markdown of a post or a document.
        resolve: Where each link leads. For a link that leads to a page, the words must not matter, unless whatever
            else decides the page also tells where it leads.
        title: Title of the page.
    """

    def __init__(self, text: str, resolve: Resolve, *, title: str = "") -> None:
        self._text = text
        self._resolve = resolve
        self._title = title

    def __html__(self) -> Markup:
        """Return the HTML, as templates ask for it."""
        return render_markdown(self._text, self._resolve, title=self._title)

    def __repr__(self) -> str:
        """Return the text and the targets of its links."""
        targets = [(address, self._resolve(address, "")) for address in sorted(find_addresses(self._text))]
        return f"Markdown({self._text!r}, {[pair for pair in targets if pair[1]]}, title={self._title!r})"


def find_addresses(text: str) -> set[str]:
    """Find the addresses of all links of Markdown to other files, without parsing it.

    Returns:
        At least these addresses, and perhaps parts of them.
    """
    found = set()
    for written in _DESTINATION.findall(text):
        inner = written[1:-1] if written.startswith("<") else written
        ends = [place for place, letter in enumerate(inner) if letter == ")"]
        found |= {html.unescape(_ESCAPED.sub(r"\1", inner[:end])) for end in (*ends, len(inner))}
    return found


def begin_markdown(text: str, topics: int) -> str:
    """Return the beginning of a post, up to the end of some topic."""
    lines = text.splitlines(keepends=True)
    starts = [
        token.map[0]
        for token in _parse(text)
        if token.type == "heading_open" and token.tag == _TOPIC and token.map is not None
    ]
    return "".join(lines[: starts[topics]]) if len(starts) > topics else text


def render_markdown(
    text: str, resolve: Resolve, *, title: str = "", marked: tuple[int, int] | None = None
) -> Markup:
    """Render Markdown.

    Args:
        text: Markdown of a post or a document.
        resolve: Where each link leads. Addresses that can run code never come to it.
        title: Title of the page. A first heading that repeats it is left out.
        marked: First character of a part that is shown in an element ``mark``, and the one after its last; None for no
            part. Nothing is marked where the parser does not tell what is shown of the part.

    Returns:
        HTML whose highest heading is ``h2``. HTML in the text is shown as text, an image as its description.
    """
    tokens = _parse(text) if marked is None else _parser_of_places().parse(drop_controls(text))
    if len(tokens) > 2 and tokens[0].type == "heading_open" and _words(tokens[1]) == " ".join(title.split()):
        tokens = tokens[3:]
    if marked is not None:
        start, end = (len(drop_controls(text[:place])) for place in marked)
        mark_tokens(tokens, drop_controls(text), start, end)
    _lower_headings(tokens)
    for token in tokens:
        if token.children is not None:
            token.children = _link_words(token.children, resolve)
    # Everything of the text is escaped by the renderer, because the parser knows no HTML.
    rendered = _parser().renderer.render(tokens, _parser().options, {})
    return Markup(drop_controls(rendered))  # noqa: S704 -- the text may spell a mark as an entity


def list_links(text: str) -> list[str]:
    """List the addresses of the links and images of a text, also those that can run code."""
    return [
        str(child.attrs.get("href") or child.attrs.get("src") or "")
        for token in _parser_of_all().parse(text)
        for child in token.children or ()
        if child.type in ("link_open", "image")
    ]


def holds_html(text: str) -> bool:
    """Return whether a program that takes HTML from Markdown would take any from a text."""
    return any(
        one.type in ("html_block", "html_inline")
        for token in _parser_of_all().parse(text)
        for one in (token, *(token.children or ()))
    )


def list_topics(text: str) -> tuple[str, ...]:
    """List the headings of the second level, which name the topics of a post."""
    named: dict[str, Any] = {}  # targets of links, which the words of a heading may name
    tokens = _parser_of_blocks().parse(drop_controls(text), named)
    return tuple(
        _words(_parser().parseInline(inline.content, named)[0])
        for heading, inline in pairwise(tokens)
        if heading.type == "heading_open" and heading.tag == _TOPIC
    )


@dataclass(frozen=True)
class Block:
    """A heading or a paragraph.

    Attributes:
        text: Its words in one line.
        is_topic: Whether it is a heading of any level.
        is_aside: Whether it quotes, or all of it is emphasized.
        in_list: Whether it is an item of a list.
    """

    text: str
    is_topic: bool
    is_aside: bool
    in_list: bool


def list_blocks(text: str) -> list[Block]:
    """List the headings and paragraphs of a text in order; tables and code are left out."""
    quotes = lists = 0
    found = []
    for opening, inline in pairwise(_parse(text)):
        quotes += opening.nesting if opening.type.startswith("blockquote") else 0
        lists += opening.nesting if opening.type.startswith("list_item") else 0
        if opening.type in ("heading_open", "paragraph_open"):
            children = inline.children or []
            is_emphasized = bool(children) and (children[0].type, children[-1].type) == (
                "em_open",
                "em_close",
            )
            found.append(
                Block(
                    _words(inline), opening.type == "heading_open", bool(quotes) or is_emphasized, bool(lists)
                )
            )
    return found


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@cache
def _parser_of_blocks() -> MarkdownIt:
    """Build a parser that leaves the words of each block as they are, which takes half of the time."""
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


@cache
def _parser_of_places() -> MarkdownIt:
    """Build a parser that tells where each word stands, and therefore joins none of them."""
    settings = {"html": False}
    parser = MarkdownIt("commonmark", settings)
    parser.inline = PlacedWords()
    return (
        parser.configure("commonmark", settings)
        .enable(["table", "strikethrough"])
        .disable(["fragments_join", "text_join"])
    )


@cache
def _parser_of_all() -> MarkdownIt:
    return _TrustingParser("commonmark", {"html": True}).enable(["table", "strikethrough"])


def _parse(text: str) -> list[Token]:
    return _parser().parse(drop_controls(text))


def _words(inline: Token) -> str:
    shown = [
        " " if child.type in ("softbreak", "hardbreak") else child.content for child in inline.children or ()
    ]
    return " ".join(drop_controls("".join(shown)).split())


def _lower_headings(tokens: Sequence[Token]) -> None:
    """Lower all headings by one level if the text has one of the first, which is that of the page's title."""
    if any(token.tag == "h1" for token in tokens):
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                token.tag = f"h{min(int(token.tag[1:]) + 1, _LAST_LEVEL)}"


def _link_words(children: Sequence[Token], resolve: Resolve) -> list[Token]:
    """Point each link to its target, and leave only the words of links without one."""
    linked: list[Token] = []
    target: Target | None = None
    for place, child in enumerate(children):
        if child.type == "image":
            linked.append(Token("text", "", 0, content=f"[{child.content or 'image'}]"))
        elif child.type == "link_open":
            target = resolve(str(child.attrs["href"]), _words_of_link(children[place + 1 :]))
            if target is not None:
                linked.append(_point(child, target))
                if target.number is not None:
                    linked.append(Token("text", "", 0, content=str(target.number)))
        elif child.type == "link_close":
            if target is not None:
                linked.append(child)
            target = None
        elif target is None or target.number is None:
            linked.append(child)
    return linked


def _words_of_link(following: Sequence[Token]) -> str:
    words = []
    for child in following:
        if child.type == "link_close":
            break
        words.append(child.content)
    return "".join(words)


def _point(link: Token, target: Target) -> Token:
    link.attrs = {"href": target.address}
    if target.about:
        link.attrs["title"] = drop_controls(target.about)
    if target.number is not None:
        link.attrs["class"] = f"badge {target.paint}"
    if target.address.startswith(("http:", "https:")):
        link.attrs["rel"] = "noreferrer noopener"
    return link
