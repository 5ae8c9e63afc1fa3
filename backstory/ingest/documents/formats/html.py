"""Web pages: their text, encoding, title, dates and tags."""

from __future__ import annotations

import codecs
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from html.parser import HTMLParser
from typing import Any, Final

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.texts import decode_text, find_title
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument, parse_date, read_title
from backstory.text.encoding import find_encoding

_DECLARED_IN: Final = 1024
"""Number of bytes at the beginning in which a page may declare its encoding."""
_CHARSET: Final = re.compile(rb"""(?i)(?:<meta[^>]*?charset|<\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w.:-]+)""")
_READ_AS: Final = dict.fromkeys(("iso-8859-1", "latin1", "latin-1", "ascii", "us-ascii"), "cp1252")
"""Encodings that every browser reads as another."""
_PUBLISHED: Final = (
    "article:published_time", "datepublished", "og:published_time", "date", "dc.date", "dc.date.issued",
    "dcterms.date", "dcterms.issued", "dc.date.created", "dcterms.created", "pubdate", "publishdate", "sailthru.date",
    "parsely-pub-date", "citation_publication_date", "created",
)  # fmt: skip
_UPDATED: Final = (
    "article:modified_time", "og:updated_time", "datemodified", "dcterms.modified", "dc.date.modified", "last-modified",
    "modified", "revised", "changed",
)  # fmt: skip
_TIME: Final = "<time>"
_TAGS: Final = ("keywords", "article:tag", "news_keywords")


def detect_encoding(content: bytes) -> str:
    """Detect the encoding of a page: by a byte order mark, else as it declares, else by its letters."""
    guessed = find_encoding(content)
    declared = _CHARSET.search(content[:_DECLARED_IN])
    stated = declared[1].decode("ascii").lower() if declared else guessed
    for name in (*([guessed] if guessed.startswith("utf-") else []), _READ_AS.get(stated, stated)):
        with suppress(LookupError, UnicodeError):
            content.decode(name)
            return codecs.lookup(name).name
    return guessed


def decode_html(content: bytes) -> str:
    """Decode a page in the encoding of :func:`detect_encoding`."""
    return decode_text(content, detect_encoding(content))


class _Head(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.stated: defaultdict[str, list[str]] = defaultdict(list)
        self._data: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        stated = {name: value or "" for name, value in reversed(attrs)}
        if tag == "meta":
            name = stated.get("property") or stated.get("name") or stated.get("itemprop") or ""
            self._state(name, stated.get("content", ""))
        elif tag == "time":
            is_publication = "pubdate" in stated or "datepublished" in stated.get("itemprop", "").lower()
            self._state("datepublished" if is_publication else _TIME, stated.get("datetime", ""))
        elif tag == "link" and "canonical" in stated.get("rel", "").lower().split():
            self._state("canonical", stated.get("href", ""))
        elif tag == "title" or stated.get("type", "").strip().lower() == "application/ld+json":
            self._data = []

    def handle_data(self, data: str) -> None:
        if self._data is not None:
            self._data.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self._data is None or tag not in ("title", "script"):
            return
        text, self._data = "".join(self._data), None
        if tag == "title":
            self._state("title", text)
            return
        with suppress(ValueError, RecursionError):  # a page may hold anything for other programs
            for name, value in _list_statements(json.loads(text)):
                self._state(name, value)

    def _state(self, name: str, value: str) -> None:
        # Halves of surrogate pairs, which JSON can escape, are dropped: no file can hold them.
        if line := " ".join(value.encode(errors="ignore").decode().split()):
            self.stated[name.strip().lower()].append(line)


def read_statements(html: str) -> defaultdict[str, list[str]]:
    """Read what a page states for programs, by name in small letters, in order."""
    head = _Head()
    # As browsers do, the parser passes over a declaration with an exclamation mark; with a bracket, it may fail.
    head.feed(re.sub(r"<!\[+", "<!", html))
    return head.stated


def _list_statements(data: Any) -> Iterator[tuple[str, str]]:
    """List the dates and keywords of JSON-LD, which are those of its outermost objects."""
    for entry in data if isinstance(data, list) else [data]:
        graph = entry.get("@graph") if isinstance(entry, dict) else None
        for thing in (entry, *(graph if isinstance(graph, list) else [])):
            for name in ("datePublished", "dateModified", "keywords") if isinstance(thing, dict) else ():
                texts = thing[name] if isinstance(thing.get(name), list) else [thing.get(name)]
                yield from ((name, text) for text in texts if isinstance(text, str))


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
_INNER_LINK: Final = re.compile(r"""(?i)(<a\b[^<>]*?)\shref\s*=\s*(?:"#[^"<>]*"|'#[^'<>]*'|#[^\s<>]*)""")
"""A link within its page, as around headings, which leads nowhere in a document."""
_RAISED: Final = re.compile(
    r"<sup\b[^<>]*>\s*(?:<a\b[^<>]*>)?\s*([^<>]{1,12}?)\s*(?:</a\s*>)?\s*</sup\s*>", re.IGNORECASE
)
_RAISED_DIGITS: Final = str.maketrans("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
_EXPONENT: Final = re.compile(r"[\w+−-]*[\d+−-][\w+−-]*|[ijkmpqxyz]")
_SECTION: Final = re.compile(r"(?i)<(/?)(article|aside|main|nav|section|blockquote|figure|footer)\b")
"""A part of a page. A footer inside one belongs to it; any other is that of the site (HTML-AAM)."""
_SELF_CLOSED: Final = re.compile(
    r"(?i)<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)\b)([A-Za-z][\w:.-]*)"
    r"((?:\s[^<>]*(?<=[\s\"']))?)/>"
)
"""Any element of XHTML may be closed by its first tag (``<title/>``), but no address ends it (``<a href=/path/>``)."""
_DEEP: Final = "depth_limit_exceeded"
_NESTED: Final = "parts nested deeper than 1,024 tags were not read; save the page again with a browser"


def read_html(content: bytes, _: str) -> ParsedDocument:
    """Read a page; title, date and tags are those that it states for programs, else its first heading is the title."""
    html = decode_html(content)
    text, unread = convert_html(html)
    if not text.strip():
        problem = (
            unread or "the page shows no text without scripts; save it from a browser, or remove the file"
        )
        raise ReadError(problem, code="nested_too_deeply" if unread else "empty_document")
    stated = read_statements(html)

    def find_date(*names: str) -> datetime | None:
        """Return the first value that is a date; a page's writer is seldom its owner, who could mend the others."""
        for value in (value for name in names for value in stated[name]):
            with suppress(ValueError):
                return parse_date(value)
        return None

    times = [_TIME] if len({*stated[_TIME]}) == 1 else []  # of several, none is the page's
    published_at = find_date(*_PUBLISHED, *times)
    tags = (tag.strip() for name in _TAGS for value in stated[name] for tag in value.split(","))
    return ParsedDocument(
        text=text,
        title=read_title(next(iter(stated["og:title"] + stated["title"]), None)) or find_title(text),
        published_at=published_at,
        change=None if published_at else find_date(*_UPDATED),
        tags=tuple(dict.fromkeys(filter(None, tags))),
        unread=unread,
    )


def convert_html(html: str) -> tuple[str, str | None]:
    """Convert a page to Markdown, and say what was not read; None if all was.

    Scripts, styles, hidden parts, navigation, the footer of a site and notices about cookies are left out.
    """
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    html = _INNER_LINK.sub(r"\1", _SELF_CLOSED.sub(r"<\1\2></\1>", html))
    html = _RAISED.sub(_raise_digits, _mark_footers(html))
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
    raised = found[1].translate(_RAISED_DIGITS)
    if set(raised).isdisjoint(found[1]):
        return raised
    return f"^({found[1]})" if _EXPONENT.fullmatch(found[1]) else found[0]


def _mark_footers(html: str) -> str:
    """Mark the footers that are those of a site, as programs that read pages aloud understand them."""
    depth = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal depth
        is_end, is_footer = bool(found[1]), found[2].lower() == "footer"
        depth = depth if is_footer else max(depth + (-1 if is_end else 1), 0)
        return f'{found[0]} role="contentinfo"' if is_footer and not is_end and depth == 0 else found[0]

    return _SECTION.sub(mark, html)


HTML: Final = DocumentFormat(
    "html",
    "web page",
    frozenset({".html", ".htm", ".xhtml"}),
    read_html,
    detect_encoding,
    gives_markdown=True,
)
