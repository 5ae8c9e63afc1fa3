"""Web pages: their text, encoding, title, dates and tags."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from html.parser import HTMLParser
from typing import Any, Final

from backstory.base.errors import ReadError
from backstory.ingest.documents.dates import LastChange, parse_date
from backstory.ingest.documents.formats.properties import read_title
from backstory.ingest.documents.formats.texts import decode_text, find_title
from backstory.ingest.documents.parsed_document import DocumentFormat, ParsedDocument
from backstory.text.encoding import find_encoding

_DECLARED_IN: Final = 1024
"""Number of bytes at the beginning in which a page may declare its encoding."""
_CHARSET: Final = re.compile(
    rb"""(?:<meta[^>]*?charset|<\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE
)
_LATIN1: Final = frozenset(("iso8859-1", "ascii"))
_PUBLISHED: Final = (
    "article:published_time", "datepublished", "og:published_time", "date", "dc.date", "dc.date.issued",
    "dcterms.date", "dcterms.issued", "dc.date.created", "dcterms.created", "pubdate", "publishdate", "sailthru.date",
    "parsely-pub-date", "citation_publication_date", "created",
)  # fmt: skip
_UPDATED: Final = (
    "article:modified_time", "og:updated_time", "datemodified", "dcterms.modified", "dc.date.modified", "last-modified",
    "modified", "revised", "changed",
)  # fmt: skip
_TAGS: Final = ("keywords", "article:tag", "news_keywords")


def find_html_encoding(content: bytes) -> str:
    """Detect the encoding of a page: by a byte order mark, else as it declares, else by its letters."""
    guessed = find_encoding(content)
    names = [guessed] if guessed.startswith("utf-") else []
    if declared := _CHARSET.search(content[:_DECLARED_IN]):
        with suppress(LookupError, UnicodeDecodeError):
            stated = codecs.lookup(declared[1].decode("ascii")).name
            names += ["cp1252" if stated in _LATIN1 else stated]  # as every browser reads it
    for name in names:
        with suppress(LookupError, UnicodeDecodeError):
            content.decode(name)
            return name
    return guessed


class HtmlHead(HTMLParser):
    """Collects the statements of a page; the text is fed to it once."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.titles: list[str] = []
        self.metas: list[tuple[str, str]] = []
        self.times: list[str] = []
        self._data: list[str] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See :class:`html.parser.HTMLParser`."""
        stated = {name: value or "" for name, value in reversed(attrs)}
        if tag == "meta":
            name = stated.get("property") or stated.get("name") or stated.get("itemprop")
            self.metas.append(((name or "").strip().lower(), " ".join(stated.get("content", "").split())))
        elif tag == "time" and ("pubdate" in stated or "datepublished" in stated.get("itemprop", "").lower()):
            self.metas.append(("datepublished", stated.get("datetime", "")))
        elif tag == "time":
            self.times.append(stated.get("datetime", ""))
        elif tag == "link" and "canonical" in stated.get("rel", "").lower().split():
            self.metas.append(("canonical", stated.get("href", "").strip()))
        elif tag == "title":
            self._inside = "title"
        elif tag == "script" and stated.get("type", "").strip().lower() == "application/ld+json":
            self._inside = "script"

    def handle_data(self, data: str) -> None:
        """See :class:`html.parser.HTMLParser`."""
        if self._inside is not None:
            self._data.append(data)

    def handle_endtag(self, tag: str) -> None:
        """See :class:`html.parser.HTMLParser`."""
        if tag != self._inside:
            return
        text = "".join(self._data)
        if tag == "title":
            self.titles.append(" ".join(text.split()))
        else:
            with suppress(ValueError, RecursionError):  # a page may hold anything for other programs
                self.metas += _list_statements(json.loads(text))
        self._data, self._inside = [], None

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See :class:`html.parser.HTMLParser`; ``<title/>`` holds no text in XHTML."""
        self.handle_starttag(tag, attrs)
        self._inside = None

    @property
    def title(self) -> str | None:
        """The title: Open Graph's, which lacks the name of the site, else that of the page."""
        return next(filter(None, (*self._values("og:title"), *self.titles)), None)

    @property
    def address(self) -> str | None:
        """Where the page lives: its canonical link, else Open Graph's address."""
        return next(filter(None, (*self._values("canonical"), *self._values("og:url"))), None)

    @property
    def published_at(self) -> datetime | None:
        """The date of publication, UTC; a page with a single ``<time>`` is of that time."""
        stated = _first_date(value for name in _PUBLISHED for value in self._values(name))
        return stated or (_first_date(self.times) if len(set(self.times)) == 1 else None)

    @property
    def updated_at(self) -> datetime | None:
        """The date of the last change, UTC."""
        return _first_date(value for name in _UPDATED for value in self._values(name))

    @property
    def tags(self) -> tuple[str, ...]:
        """The keywords, each once."""
        found = (tag.strip() for name in _TAGS for value in self._values(name) for tag in value.split(","))
        return tuple(dict.fromkeys(filter(None, found)))

    def _values(self, name: str) -> list[str]:
        return [value for stated, value in self.metas if stated == name]


def _list_statements(data: Any) -> Iterator[tuple[str, str]]:
    """List the dates and keywords of JSON-LD, which are those of its outermost objects."""
    for entry in data if isinstance(data, list) else [data]:
        graph = entry.get("@graph") if isinstance(entry, dict) else None
        for thing in (entry, *(graph if isinstance(graph, list) else [])):
            for name in ("datePublished", "dateModified", "keywords") if isinstance(thing, dict) else ():
                texts = thing[name] if isinstance(thing.get(name), list) else [thing.get(name)]
                # Halves of surrogate pairs, which JSON can escape, are dropped: no file can hold them.
                stated = (text.encode(errors="ignore").decode() for text in texts if isinstance(text, str))
                yield from ((name.lower(), text) for text in stated)


def _first_date(values: Iterable[str]) -> datetime | None:
    """Return the first value that is a date; the writer of a page is seldom its owner, who could mend the others."""
    for value in values:
        with suppress(ValueError):
            return parse_date(value)
    return None


_CONSENT: Final = (
    "cookie-banner", "cookie-bar", "cookie-consent", "cookie-notice", "cookie-popup", "cookie_notice", "cookiebanner",
    "cookieconsent", "CookieConsent", "CybotCookiebotDialog", "cc-window", "cmplz-cookiebanner",
    "cmplz-cookiebanner-container", "consent-banner", "didomi-host", "didomi-popup", "gdpr-banner",
    "gdpr-cookie-notice", "onetrust-banner-sdk", "onetrust-consent-sdk", "qc-cmp2-container", "truste-consent-track",
    "truste_overlay", "usercentrics-root",
)  # fmt: skip
"""Ids and classes of notices about cookies: of the common tools, and of what people call their own.

Only whole names count: a page that is marked by a part of one, such as by its category, may be about cookies.
"""
_LEFT_OUT: Final = (
    *("nav", "[role=navigation]", "[role=contentinfo]", "a.headerlink", "button", "select", "iframe"),
    *(f'[{attribute}="{name}"]' for name in _CONSENT for attribute in ("id", "class~")),
)
"""What is marked as not belonging to the text of a page."""
_INNER_LINK: Final = re.compile(
    r"""(<a\b[^<>]*?)\shref\s*=\s*(?:"#[^"<>]*"|'#[^'<>]*'|#[^\s<>]*)""", re.IGNORECASE
)
"""A link within its page, as around headings, which leads nowhere in a document."""
_RAISED: Final = re.compile(
    r"<sup\b[^<>]*>\s*(?:<a\b[^<>]*>)?\s*([^<>]{1,12}?)\s*(?:</a\s*>)?\s*</sup\s*>", re.IGNORECASE
)
_PLAIN_DIGITS: Final = "0123456789+-−=()n"
_RAISED_DIGITS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ"
_EXPONENT: Final = re.compile(r"[\w+−-]*[\d+−-][\w+−-]*|[ijkmpqxyz]")
_SECTION: Final = re.compile(
    r"<(/?)(article|aside|main|nav|section|blockquote|figure|footer)\b", re.IGNORECASE
)
"""A part of a page, of which a footer may be one; a footer in none of them is that of the site (HTML-AAM)."""
_SELF_CLOSED: Final = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
_VOID: Final = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()  # noqa: SIM905
)
_DEEP: Final = "depth_limit_exceeded"
_XHTML: Final = re.compile(r"\s*<\?xml\b|.{0,2000}<html[^>]*\sxmlns\s*=", re.IGNORECASE | re.DOTALL)
_NESTED: Final = "parts nested deeper than 1,024 tags were not read; save the page again with a browser"
_BROKEN: Final = (
    "a broken declaration (`<![`) hides title, date and keywords after it; save the page by a browser"
)


def read_html(content: bytes, _: str) -> ParsedDocument:
    """Read a page; title, date and tags are those that it states for programs, else its first heading is the title."""
    html = decode_text(content, find_html_encoding(content))
    text, unread = convert_html(html, is_xml=_XHTML.match(html) is not None)
    if not text.strip():
        problem = (
            unread or "the page shows no text without its scripts; save it from a browser, or remove the file"
        )
        raise ReadError(problem, code="nested_too_deeply" if unread else "empty_document")
    head = HtmlHead()
    try:
        head.feed(html)
    except AssertionError:  # what the standard library's parser raises for some broken declarations
        unread = "; ".join(filter(None, (unread, _BROKEN)))
    published_at = head.published_at
    return ParsedDocument(
        text=text,
        title=read_title(head.title) or find_title(text),
        published_at=published_at,
        change=LastChange(None if published_at else head.updated_at),
        tags=head.tags,
        unread=unread,
    )


def convert_html(html: str, *, is_xml: bool = False) -> tuple[str, str | None]:
    r"""Convert a page to Markdown, and say what was not read; None if all was.

    Scripts, styles, hidden parts, navigation, the footer of a site and notices about cookies are left out. ``is_xml``:
    whether it is XHTML, in which every element may be closed by its first tag (``<title/>``).
    """
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    if is_xml:
        html = _SELF_CLOSED.sub(_close, html)
    html = _RAISED.sub(_raise_digits, _mark_footers(_INNER_LINK.sub(r"\1", html)))
    options = ConversionOptions(
        extract_metadata=False,
        compact_tables=True,
        inline_data_media="alt_text_only",
        preprocessing=PreprocessingOptions(enabled=False),
        exclude_selectors=list(_LEFT_OUT),
    )
    result = convert(html, options)
    is_cut = any(str(warning.kind) == _DEEP for warning in result.warnings)
    return (result.content or "").strip("\n"), _NESTED if is_cut else None


def _raise_digits(found: re.Match[str]) -> str:
    """Write an exponent in raised digits, or after ``^``, so that it does not join the number before it."""
    raised = found[1].translate(str.maketrans(_PLAIN_DIGITS, _RAISED_DIGITS))
    if set(raised) <= set(_RAISED_DIGITS):
        return raised
    return f"^({found[1]})" if _EXPONENT.fullmatch(found[1]) else found[0]


def _mark_footers(html: str) -> str:
    """Mark the footers that are those of a site, as programs that read pages aloud understand them."""
    depth = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal depth
        if found[2].lower() == "footer":
            return f'{found[0]} role="contentinfo"' if depth == 0 and not found[1] else found[0]
        depth = max(depth + (-1 if found[1] else 1), 0)
        return found[0]

    return _SECTION.sub(mark, html)


def _close(found: re.Match[str]) -> str:
    name = found[1]
    return found[0] if name.lower() in _VOID else f"<{name}{found[2]}></{name}>"


HTML: Final = DocumentFormat(
    "html",
    "web page",
    frozenset({".html", ".htm", ".xhtml"}),
    read_html,
    find_html_encoding,
    gives_markdown=True,
)
