"""The text of a mail that is written in HTML, without what it quotes."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

_UNSEEN: Final = frozenset(["script", "style", "head", "title", "template", "noscript", "svg"])
_BREAKS: Final = frozenset(
    [
        "p",
        "div",
        "br",
        "tr",
        "table",
        "ul",
        "ol",
        "li",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "pre",
        "section",
    ]
)
_EMPTY: Final = frozenset(
    [
        "br",
        "hr",
        "img",
        "meta",
        "link",
        "input",
        "col",
        "area",
        "base",
        "wbr",
        "source",
        "embed",
        "param",
        "track",
    ]
)
_QUOTES: Final = frozenset(
    ["gmail_quote", "gmail_attr", "yahoo_quoted", "moz-cite-prefix", "protonmail_quote"]
)
_OUTLOOK_REPLY: Final = frozenset(
    ["divrplyfwdmsg", "appendonsend", "mail-editor-reference-message-container"]
)
_SPACE: Final = re.compile(r"[ \t\r\n\xa0]+")
_GAPS: Final = re.compile(r"\n{3,}")


def read_html(written: str) -> str:
    """Return the text of a mail in HTML.

    Args:
        written: HTML; it need not be valid.

    Raises:
        ValueError: It holds a declaration that cannot be read.
    """
    parser = _MailParser()
    try:
        parser.feed(written)
        parser.close()
    except AssertionError as error:  # what the standard library's parser raises for some broken declarations
        raise ValueError("the HTML cannot be read") from error
    lines = (line.strip() for line in "".join(parser.parts).split("\n"))
    return _GAPS.sub("\n\n", "\n".join(lines)).strip()


class _MailParser(HTMLParser):
    """Collects texts; what lies in a quote or is not shown is left out."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden: list[str] = []
        self._is_over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if tag in _EMPTY or self._is_over:
            self._break(tag)
            return
        values = {name: value or "" for name, value in attrs}
        if values.get("id", "").lower() in _OUTLOOK_REPLY:
            self._is_over = True
        elif self._hidden:
            self._hidden.extend([tag] if tag == self._hidden[0] else [])
        elif tag in _UNSEEN or tag == "blockquote" or not _QUOTES.isdisjoint(values.get("class", "").split()):
            self._hidden.append(tag)
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        """End an element; one within what is left out ends it if it began it."""
        if self._hidden and tag == self._hidden[0]:
            self._hidden.pop()
        self._break(tag)

    def handle_data(self, data: str) -> None:
        """Take a text."""
        if not self._hidden and not self._is_over:
            self.parts.append(_SPACE.sub(" ", data))

    def _break(self, tag: str) -> None:
        if tag in _BREAKS and not self._hidden and not self._is_over:
            self.parts.append("\n")
