"""The messages of a conversation that is given as a text, in any of the usual ways of writing one, or as a list."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import polars as pl

from backstory.base.errors import InputError, ReadError
from backstory.ingest.chats.chat_rows import collect_items
from backstory.ingest.chats.export_parts import ZIP_MAGIC, open_parts
from backstory.ingest.chats.formats.csv_table import CsvReader
from backstory.ingest.chats.formats.irc import IRC
from backstory.ingest.chats.formats.irc_lines import PROGRAMS, IrcProgram
from backstory.ingest.chats.formats.mail import MAIL
from backstory.ingest.chats.formats.registry import find_format
from backstory.ingest.chats.formats.whatsapp import find_messages
from backstory.ingest.chats.formats.whatsapp_markers import classify_messages
from backstory.ingest.chats.reader import ParsedExport
from backstory.settings.inputs import ConversationSettings
from backstory.text.message_markdown import find_markdown_messages

_TEXT_KEYS: Final = ("text", "message", "content")
_SCHEMA: Final = pl.Schema({"author": pl.String(), "text": pl.String()})
_SOURCE: Final = "2000-01-01 00-00-00.txt"
"""Stands for the name of an export: some formats take the day from it, which no query needs."""
_PROSE_FORMATS: Final = (MAIL.name, IRC.name)
"""Those that no text is read as: a mail is prose, and lines of IRC are also read where they are wrapped."""
_LONGEST_INTRODUCTION: Final = 300
"""Characters before the first message; a text with more of them is prose that quotes a chat."""
_ANYBODY: Final = ""
"""The author of a message that names none. A line without one would be a line of an app."""


class TextMessage(Protocol):
    """A message as an object."""

    @property
    def text(self) -> str | None:
        """The text; None for a picture or a file without a caption."""
        ...


Message: TypeAlias = str | Mapping[str, Any] | TextMessage
"""A text; or ``text`` (also named ``message`` or ``content``), ``author`` and ``time`` as keys or attributes."""


_Row: TypeAlias = tuple[str | None, str | None]
"""Author and text of a message."""


class _Found(NamedTuple):
    """A message among lines.

    Attributes:
        line: Position of the line at which it begins.
        author: Name as written; None for a line of an app.
        text: Its text.
    """

    line: int
    author: str | None
    text: str


def read_messages(given: str, settings: ConversationSettings) -> pl.DataFrame | None:
    """Read the messages of a conversation that is given as a text.

    A text is a conversation if it is JSON that holds messages, an export of a chat app, the Markdown of
    ``consolidate_messages_to_markdown`` or of the view ``writer_inputs``, or lines that begin with an author: those of
    WhatsApp and IRC, lines with a time before the name, and ``Name: text`` where a name speaks twice and is no usual
    label such as "Note". A few words may stand before the first message. All other texts are prose.

    Args:
        given: The text, not blank.
        settings: Names of the columns of tables.

    Returns:
        The messages in the columns of :func:`list_messages`; None if the text is prose.

    Raises:
        InputError: The text is blank or no Unicode.
    """
    if not given.strip():
        raise InputError(
            "the text is blank; give a question, or a text whose parts are to be covered",
            code="blank_text",
            name="text",
        )
    _require_unicode(given)
    text = given.removeprefix("\ufeff")
    is_json = text.lstrip().startswith(("{", "["))
    # An export counts before lines that look like messages, which its own messages may quote.
    if is_json or "\n" in text.strip():
        exported = _read_export(text, settings)
        if exported is not None:
            return exported
    lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
    rows = (_read_json(text) if is_json else None) or _read_lines(lines)
    return _make_frame(rows) if rows else None


def list_messages(given: Sequence[Message]) -> pl.DataFrame:
    """Read the messages of a conversation that is given as a list.

    Args:
        given: The messages in order.

    Returns:
        ``text`` and ``kind`` of each message, as in the table ``messages``. White space is one space, since the way in
        which a text is wrapped says nothing.

    Raises:
        InputError: The list is empty, or holds something that is no message, or a text that is no Unicode.
    """
    return _make_frame(_read_list(given))


def _require_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            "the text contains half of a character (a lone surrogate); decode it with its own encoding",
            code="no_unicode",
            name="text",
        ) from error


def _make_frame(rows: Sequence[_Row]) -> pl.DataFrame:
    _require_unicode("".join(text or "" for _, text in rows))
    return _fold(classify_messages(pl.DataFrame(rows, schema=_SCHEMA, orient="row")))


def _fold(messages: pl.DataFrame) -> pl.DataFrame:
    folded = [None if text is None else " ".join(text.split()) for text in messages["text"]]
    return messages.select(pl.Series("text", folded, dtype=pl.String), "kind")


def _read_list(given: object) -> list[_Row]:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes | bytearray | memoryview):
        raise InputError(
            f"a {type(given).__name__} is no conversation; give a text, or a list of messages",
            code="wrong_type",
            name="query",
        )
    if not given:
        raise InputError("the list holds no message", code="blank_text", name="query")
    return [_read_message(message, number) for number, message in enumerate(given, start=1)]


def _read_message(message: object, number: int) -> tuple[str, str | None]:
    if isinstance(message, str):
        return _ANYBODY, message
    values = _list_values(message, ("author", "kind", *_TEXT_KEYS))
    key = next((key for key in _TEXT_KEYS if key in values), None)
    if key is None:
        raise InputError(
            f"message {number}, a {type(message).__name__}, has no text; give a text, or an object with text, author "
            "and time",
            code="absent_text",
            name="query",
        )
    text, author = values[key], values.get("author")
    if not isinstance(text, str | None):
        raise InputError(
            f"{key} of message {number} is a {type(text).__name__}; it must be a text",
            code="wrong_type",
            name=key,
        )
    is_text = values.get("kind") != "system"
    return author if isinstance(author, str) else _ANYBODY, text if is_text else None


def _list_values(message: object, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(message, Mapping):
        return {name: message[name] for name in names if name in message}
    return {name: getattr(message, name) for name in names if hasattr(message, name)}


def _read_json(text: str) -> list[_Row] | None:
    """Read a JSON list of messages, an object that holds one as ``messages``, or an object per line."""
    try:
        value = _load_json(text)
        if isinstance(value, dict):
            value = value.get("messages", [value])
        return _read_list(value)
    except (ValueError, RecursionError, InputError):
        return None


def _load_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _read_export(text: str, settings: ConversationSettings) -> pl.DataFrame | None:
    """Read an export of a chat app or a table, if every record of it can be read."""
    content = text.encode()
    if content.startswith(ZIP_MAGIC):
        return None
    try:
        parsed = _parse_export(content, settings)
    except (ReadError, RecursionError):
        return None
    if parsed is None or len(parsed.unread):
        return None
    by_people = parsed.rows.filter(pl.col("author").is_not_null())
    return None if by_people.is_empty() else _fold(by_people)


def _parse_export(content: bytes, settings: ConversationSettings) -> ParsedExport | None:
    with open_parts(io.BytesIO(content), _SOURCE) as parts:
        found = find_format(parts)
        if found is not None and found[0].name not in _PROSE_FORMATS:
            chat_format, names = found
            return collect_items(chat_format.read(parts, names), settings.timezone)
    table = CsvReader()
    return table.read(content, settings, _SOURCE) if table.detects(content, _SOURCE, settings) else None


def _read_lines(lines: list[str]) -> list[_Row] | None:
    """Read lines in the format whose first message begins first."""
    found = [messages for find in _FINDERS if (messages := find(lines))]
    if not found:
        return None
    messages = min(found, key=lambda messages: messages[0].line)
    before = " ".join(lines[: messages[0].line])
    if len(before) > _LONGEST_INTRODUCTION:
        return None
    signed = [(message.author, message.text) for message in messages if message.author is not None]
    return [*([(_ANYBODY, before)] if before else []), *signed]


def _find_markdown(lines: list[str]) -> list[_Found]:
    return [_Found(line, author or _ANYBODY, text) for line, author, text in find_markdown_messages(lines)]


def _find_whatsapp(lines: list[str]) -> list[_Found]:
    found = find_messages(pl.Series(lines, dtype=pl.String))
    return _complete(lines, [_Found(*row) for row in found.iter_rows()])


def _find_irc(lines: list[str]) -> list[_Found]:
    return max((_find_log(program, lines) for program in PROGRAMS), key=len)


def _find_log(program: IrcProgram, lines: list[str]) -> list[_Found]:
    read = ((number, program.read(line)) for number, line in enumerate(lines))
    found = [
        _Found(number, line.nick if line.what in ("said", "done") else None, line.text)
        for number, line in read
        if line is not None
    ]
    return _complete(lines, found) if any(message.author for message in found) else []


def _complete(lines: list[str], found: list[_Found]) -> list[_Found]:
    """Add to each message the lines up to the next one."""
    ends = [*(message.line for message in found), len(lines)][1:]
    return [
        message._replace(text="\n".join([message.text, *lines[message.line + 1 : end]]))
        for message, end in zip(found, ends, strict=True)
    ]


_CLOCK: Final = (
    r"\d{1,2}[:.]\d\d(?:[:.]\d\d(?:[.,]\d{1,6})?)?(?:\s?[AaPp]\.?[Mm]\.?)?(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?"
)
_DATE: Final = r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d\d))"
_WORD: Final = r'[^\s:：,;!?"“”()\[\]{}<>|=#/\\*`]{1,30}'
_BOLD: Final = r"(?:\*\*)?"
_NAMED: Final = re.compile(
    rf"(?:(?:- )?(?:\(\d+\) )?(?P<open>[\[(])?(?P<date>{_DATE}(?:,?\s+|T))?(?P<clock>{_CLOCK})(?(open)[\])])\s*"
    r"(?:[-–—]\s+)?)?"
    r"(?:<[~&@%+]?(?P<nick>[^\s<>/]{1,40})>\s+"
    rf"|{_BOLD}(?P<name>{_WORD}(?: {_WORD}){{0,3}}){_BOLD}(?:\s?:{_BOLD}(?:\s+|$)|：{_BOLD}\s*))"
    r"(?P<text>.*)"
)
"""A line with an author: after a time, in angle brackets, or before a colon."""
_LABEL_WORDS: Final = """
note notes nb n.b ps p.s warning caution tip hint important attention reminder remember example examples update edit
todo fixme summary tldr conclusion result results reason problem solution goal step steps method ingredients
preparation time date place location address when where who what why how from to cc bcc re fwd subject sent name title
author tags url link source version status price budget cost deadline agenda total age email phone http https error
info debug day week part chapter section figure table topic description details background
hinweis hinweise achtung wichtig tipp beispiel zusammenfassung fazit betreff von an datum ort zeit zutaten
nota notas atención aviso ejemplo importante resumen conclusión asunto fecha ingredientes remarque exemple résumé objet
ingrédients attenzione esempio riassunto oggetto data ingredienti atenção exemplo resumo assunto opmerking voorbeeld
samenvatting onderwerp примечание важно внимание пример итог 注 注意 备注 例 例如 总结
"""
_LABELS: Final = frozenset(_LABEL_WORDS.split())
"""Words before a colon that are no names, in small letters; they only keep prose from being taken for a chat."""
_LONGEST_PARTICLE: Final = 3
"""Letters of the longest word in a name that may begin with a small letter, such as "van"."""
_NUMBERING: Final = re.compile(r"[\s\d.]+$")


def _find_named(lines: list[str]) -> list[_Found]:
    """Find lines that begin with an author, and with a time if the first of them does."""
    matched = [(number, head) for number, line in enumerate(lines) if (head := _match_named(line))]
    manner = _describe_time(matched[0][1]) if matched else ""
    found = [
        _Found(number, head["nick"] or head["name"], head["text"])
        for number, head in matched
        if _describe_time(head) == manner
    ]
    if not found:
        return []
    times = Counter(str(message.author).casefold() for message in found)
    speaks_twice = found[0].line == 0 and max(times.values()) > 1
    return _complete(lines, found) if speaks_twice or (manner == "sure" and len(found) > 1) else []


def _match_named(line: str) -> re.Match[str] | None:
    found = _NAMED.match(line)
    if found is None or found["nick"]:
        return found
    name = found["name"]
    words = name.split()
    is_name = any(map(str.isalpha, name)) and (
        len(words) == 1
        or (
            not all(word[0].islower() for word in words)
            and not any(word[0].islower() and len(word) > _LONGEST_PARTICLE for word in words)
        )
    )
    return found if is_name and _NUMBERING.sub("", name).casefold() not in _LABELS else None


def _describe_time(head: re.Match[str]) -> str:
    """Describe how sure the time of a line makes that a message begins there: a clock alone may be a timetable's."""
    if head["clock"] is None:
        return "none"
    return "sure" if head["open"] or head["date"] else "clock"


_FINDERS: Final[tuple[Callable[[list[str]], list[_Found]], ...]] = (
    _find_markdown,
    _find_whatsapp,
    _find_irc,
    _find_named,
)
"""Each finds the lines at which messages of one format begin; of those that begin together, the first one counts."""
