"""The text of a mail that is written in HTML, without what it quotes."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from backstory.ingest.chats.formats.mail_text import ends_with_attribution

_UNSEEN: Final = frozenset(["script", "style", "head", "title", "template", "noscript", "svg"])
_BROKEN_AT: Final = "p div br tr table ul ol li h1 h2 h3 h4 h5 h6 hr pre section blockquote dt dd"
_BREAKS: Final = frozenset(_BROKEN_AT.split())
_CELLS: Final = frozenset(["td", "th"])
_WITHOUT_END: Final = "br hr img meta link input col area base wbr source embed param track"
_EMPTY: Final = frozenset(_WITHOUT_END.split())
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

    A ``blockquote`` is left out if a program marked it as a quotation, or a line above it says who wrote it. Any other
    is the writer's own text, indented.

    It raises ``ValueError`` if it holds a declaration that cannot be read.
    """
    parser = _MailParser()
    try:
        parser.feed(written)
        parser.close()
    except AssertionError as error:  # what the standard library's parser raises for some broken declarations
        raise ValueError("the HTML cannot be read") from error
    lines = (_SPACE.sub(" ", line).strip() for line in "".join(parser.parts).split("\n"))
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
        elif tag in _UNSEEN or self._is_quote(tag, values):
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

    def _is_quote(self, tag: str, values: dict[str, str]) -> bool:
        if not _QUOTES.isdisjoint(values.get("class", "").split()):
            return True
        is_marked = "cite" in values or values.get("type", "").lower() == "cite"
        return tag == "blockquote" and (is_marked or ends_with_attribution("".join(self.parts)))

    def _break(self, tag: str) -> None:
        if not self._hidden and not self._is_over:
            self.parts += ["\n"] if tag in _BREAKS else [" "] if tag in _CELLS else []
