"""WhatsApp chats exported as text, by Android or iOS, in any locale."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.export import Export, complete_rows, unread_frame
from backstory.ingest.chats.formats.whatsapp_header import find_headers, time_of_day
from backstory.ingest.chats.formats.whatsapp_phrases import ANY_MARK, classify_messages, find_told
from backstory.ingest.chats.opened import ChatFormat, Opened
from backstory.ingest.chats.times import (
    FIRST_YEAR,
    KNOWN_YEAR,
    DateOrder,
    decide_date_order,
    local_to_utc,
    read_date,
)
from backstory.ingest.text_lines import TextLines, decode_lines
from backstory.settings.inputs import ConversationSettings

_DATE_PARTS = ("first", "second", "third")
_MAX_AUTHOR_LENGTH = 100
_AUTHOR = f"^(.{{1,{_MAX_AUTHOR_LENGTH}}}?):(?:[ \u00a0\u202f]|$)"
_UNSAVED = r"^~\s+(\S)"
"""Mark of a contact that the phone does not know, before the name."""

_OPEN_QUOTE = r'„[^“”]*$|^[^„]*(?:“[^”]*|«[^»]*)$|^[^„"]*"(?:[^"]*"[^"]*")*[^"]*$'
"""End of a text inside a quotation, as before the second colon of: Ann changed the subject to "Plan: B"."""

_CLOSING_QUOTE = '[”“»"]'
_NO_CHAT = (
    "it looks like a chat of WhatsApp, but no line begins as a message of an author does; export the chat again as "
    "text, or move the file out of the folder if it is no chat"
)


def parse_whatsapp(
    lines: TextLines, settings: ConversationSettings, *, latest_year: int = KNOWN_YEAR
) -> Export:
    """Read the lines of a WhatsApp export: a message extends from its header to the next one in the same style.

    It raises ``ReadError`` if the date order must be set, the dates belong to another calendar, or nobody speaks.
    """
    headers = find_headers(lines.lines)
    if headers.is_empty():
        raise ReadError(_NO_CHAT, code="unknown_format")
    headers = _with_author(headers)
    dates = headers.select(pl.struct(_DATE_PARTS)).to_series().rle().struct["value"]
    try:
        order = decide_date_order(
            dates.struct.unnest().rows(),
            settings.date_order,
            latest_year=latest_year,
            separator=headers["separator"][0],
        )
    except ReadError as error:
        authors = frozenset(headers["author"].drop_nulls())
        raise ReadError(str(error), authors, code=error.code) from error
    read = _join_lines(lines, _with_local_time(headers, order, latest_year))
    rows = (
        read.filter(pl.col("reason").is_null())
        .group_by("begins", maintain_order=True)
        .agg("text", pl.col("author", "local").first())
        .with_columns(pl.col("text").list.join("\n").str.strip_chars_end("\n"))
    )
    if rows["author"].is_null().all() and rows["text"].str.contains("\n").any():
        raise ReadError(_NO_CHAT, code="unknown_format")
    rows = classify_messages(
        rows.with_columns(
            local_to_utc(rows["local"], settings.timezone).alias("timestamp"),
            pl.int_range(pl.len(), dtype=pl.Int64).alias("seq"),
        )
    )
    if lines.lines.gather(headers["line"]).str.contains(HEADER).all():
        rows = clean_messages(rows)
    unread = read.filter(pl.col("reason").is_not_null()).select(pl.col("line") + 1, "reason")
    return Export(
        rows=complete_rows(rows),
        unread=unread_frame(dict(unread.iter_rows())),
        encoding=lines.encoding,
        date_order=order,
        timezone=settings.timezone,
    )


def _with_author(headers: pl.DataFrame) -> pl.DataFrame:
    """Split what follows each header into author and text; a line of the app has no author."""
    written, text, rest = pl.col("written"), pl.col("text"), pl.col("rest")
    split = headers.with_columns(written=rest.str.head(_MAX_AUTHOR_LENGTH + 2).str.extract(_AUTHOR, 1))
    split = split.with_columns(
        text=rest.str.slice(written.str.len_chars() + 2),
        author=written.str.replace_all(ANY_MARK, "").str.strip_chars().str.replace(_UNSAVED, "$1"),
    )
    told = find_told(dict(split["author"].drop_nulls().value_counts().iter_rows()))
    is_quote = written.str.contains(_OPEN_QUOTE) & text.str.contains(_CLOSING_QUOTE)
    is_told = pl.col("author").is_in([*told, ""]) | is_quote.fill_null(value=False)
    return split.with_columns(author=pl.when(~is_told).then("author")).with_columns(
        text=pl.when(pl.col("author").is_null()).then(rest).otherwise(text.fill_null(""))
    )


def _with_local_time(headers: pl.DataFrame, order: DateOrder, latest_year: int) -> pl.DataFrame:
    """Add ``local``, the time of each header, null where there is no such time."""
    dates = headers.select(_DATE_PARTS).unique(maintain_order=True)
    days = [
        read_date((first, second, third), order, latest_year) for first, second, third in dates.iter_rows()
    ]
    wrong = (
        f"there is no such date or time (in the order {order}) between {FIRST_YEAR}, when WhatsApp appeared, and "
        f"{latest_year}, the year of the file"
    )
    found = headers.join(
        dates.with_columns(day=pl.Series(days, dtype=pl.Date)), on=_DATE_PARTS, maintain_order="left"
    ).with_columns(local=pl.col("day").cast(pl.Datetime("us")) + time_of_day())
    return found.with_columns(reason=pl.when(pl.col("local").is_null()).then(pl.lit(wrong)))


def _join_lines(lines: TextLines, headers: pl.DataFrame) -> pl.DataFrame:
    """Join each line to the header of its message, at ``begins``, with a reason if the line cannot be read."""
    line, begins, reason = pl.col("line"), pl.col("begins"), pl.col("reason")
    undecodable = (line + 1).replace_strict(lines.undecodable, default=None, return_dtype=pl.String)
    joined = (
        pl.DataFrame({"text": lines.lines})
        .with_row_index("line")
        .join_asof(
            headers.select(
                "line", "author", "local", reason=pl.coalesce(undecodable, reason), begins=line, first="text"
            ),
            on="line",
        )
        .with_columns(
            text=pl.when(line == begins).then("first").otherwise("text"),
            reason=pl.coalesce(
                undecodable,
                reason,
                pl.when(begins.is_null()).then(pl.lit("stands before the first message")),
            ),
        )
    )
    is_blank = (pl.col("text").str.strip_chars() == "") & line.ne_missing(begins)
    return joined.filter(reason.is_null() | ~is_blank)


def _find_text(opened: Opened) -> list[str]:
    """Find a text that has the header of a message among its first lines."""
    return list(opened.names) if opened.is_single and _has_header(opened, opened.names[0]) else []


def _find_archived(opened: Opened) -> list[str]:
    """Find the chat in an archive: ``_chat.txt`` from iOS, ``WhatsApp Chat with ….txt`` from Android.

    The media of a chat may include other texts, so that these names go first.
    """
    texts = [name for name in opened.names if opened.is_archive and name.lower().endswith(".txt")]
    chats = [name for name in texts if _has_header(opened, name)]
    named = [
        name for name in chats if PurePosixPath(name).name == "_chat.txt" or "whatsapp" in name.casefold()
    ]
    return named or chats


def _has_header(opened: Opened, name: str) -> bool:
    return not find_headers(pl.Series(opened.head_lines(name), dtype=pl.String)).is_empty()


def _read(opened: Opened, found: list[str]) -> Export:
    if len(found) > 1:
        raise ReadError(
            f"the archive holds {len(found)} chats; put each into a file of its own", code="wrong_count"
        )
    lines = decode_lines(opened.read(found[0]))
    return parse_whatsapp(lines, opened.settings, latest_year=opened.latest_year)


WHATSAPP: Final = ChatFormat("whatsapp_text", _find_text, _read)
WHATSAPP_ZIP: Final = ChatFormat("whatsapp_zip", _find_archived, _read)


HEADER: Final = r"^\[\d{4}-\d\d-\d\d,? \d\d:\d\d\] "
"""Beginning of each message; WhatsApp writes seconds between brackets."""

_QUOTE: Final = r"^\s*(?:>[^\n]*(?:\n|$))+\s*"
_REACTIONS: Final = r"\s*\(- [^\n]{1,60}: [^\n]* -\)\s*$"
_FILE: Final = r"!?\[[^\[\]\n]*\]\((?:\./)?media/[^\n]*?\)"
_NOBODY: Final = "No-Sender"


def clean_messages(rows: pl.DataFrame) -> pl.DataFrame:
    """Take from the texts what is not of their authors: the message that is answered, reactions, and names of files.

    ``rows``: ``author``, ``text`` and ``kind``.
    """
    text = pl.col("text")
    plain = (
        text.str.replace(_REACTIONS, "").str.replace(_QUOTE, "").str.replace_all(_FILE, "").str.strip_chars()
    )
    by_nobody = pl.col("author") == _NOBODY
    has_file = text.str.contains(_FILE).fill_null(value=False)
    by_file = pl.when(has_file).then(pl.lit("media")).otherwise("kind")
    return rows.with_columns(
        author=pl.when(~by_nobody).then("author"),
        text=pl.when(plain != "").then(plain),
        kind=pl.when(by_nobody).then(pl.lit("system")).otherwise(by_file),
    )
