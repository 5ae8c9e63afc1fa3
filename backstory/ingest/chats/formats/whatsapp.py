"""WhatsApp chats exported as text, by Android or iOS, in any locale."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.export import Export, complete_rows, unread_frame
from backstory.ingest.chats.formats.whatsapp_header import BIDI_MARKS, find_headers, time_of_day
from backstory.ingest.chats.formats.whatsapp_phrases import classify_messages, find_told
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
_CLOSING_QUOTES = '[”“»"]'
_MAX_AUTHOR_LENGTH = 100
_AUTHOR = f"^(.{{1,{_MAX_AUTHOR_LENGTH}}}?):(?:[ \u00a0\u202f]|$)"


def parse_whatsapp(
    lines: TextLines, settings: ConversationSettings, *, latest_year: int = KNOWN_YEAR
) -> Export:
    """Read the lines of a WhatsApp export: a message extends from its header to the next one in the same style.

    It raises ``ReadError`` if the date order must be set, the dates belong to another calendar, or nobody speaks.
    """
    written = lines.lines
    headers = find_headers(written)
    if headers.is_empty():
        raise ReadError(
            "no line begins as a WhatsApp message does; export the chat again as text",
            code="unknown_format",
        )
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
    headers = _with_local_time(headers, order, latest_year)
    blocks = _split_into_blocks(written, headers, lines.undecodable)
    rows = (
        blocks.filter(pl.col("reason").is_null())
        .group_by("block", maintain_order=True)
        .agg("text", pl.col("author", "local").first())
        .with_columns(pl.col("text").list.join("\n").str.strip_chars_end("\n"))
    )
    rows = rows.with_columns(
        local_to_utc(rows["local"], settings.timezone).alias("timestamp"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("seq"),
    )
    unread = blocks.filter(pl.col("reason").is_not_null()).select("line", "reason")
    if rows["author"].is_null().all() and rows["text"].str.contains("\n").any():
        raise ReadError(
            "its lines begin as those of WhatsApp do, but none of them names an author; export the chat "
            "again as text, or move the file out of the folder if it is no chat",
            code="unknown_format",
        )
    rows = classify_messages(rows)
    if written.gather(headers["line"]).str.contains(HEADER).all():
        rows = clean_messages(rows)
    return Export(
        rows=complete_rows(rows),
        unread=unread_frame(dict(unread.iter_rows())),
        encoding=lines.encoding,
        date_order=order,
        timezone=settings.timezone,
    )


def _with_local_time(headers: pl.DataFrame, order: DateOrder, latest_year: int) -> pl.DataFrame:
    """Add ``local``, the time of each header, and ``reason`` where that time is impossible."""
    dates = headers.select(_DATE_PARTS).unique(maintain_order=True)
    days = [
        read_date((first, second, third), order, latest_year) for first, second, third in dates.iter_rows()
    ]
    dates = dates.with_columns(day=pl.Series(days, dtype=pl.Date))
    no_day = pl.format(
        f"there is no day {{}} {{}} {{}} (in the order {order}) between {FIRST_YEAR}, when WhatsApp appeared, and "
        f"{latest_year}, the year of the file",
        *_DATE_PARTS,
    )
    no_time = pl.format("there is no time {}:{}", "hour", pl.col("minute").cast(pl.String).str.zfill(2))
    found = headers.join(dates, on=_DATE_PARTS, how="left", maintain_order="left")
    return found.with_columns(time=time_of_day()).with_columns(
        local=pl.col("day").cast(pl.Datetime("us")) + pl.col("time"),
        reason=pl.coalesce(
            pl.when(pl.col("day").is_null()).then(no_day),
            pl.when(pl.col("time").is_null()).then(no_time),
        ),
    )


def _split_into_blocks(
    written: pl.Series, headers: pl.DataFrame, undecodable: dict[int, str]
) -> pl.DataFrame:
    """Assign each line to its block (the header before it), with a reason if the line cannot be read."""
    line, reason, is_header = pl.col("line"), pl.col("reason"), pl.col("first_text").is_not_null()
    undecoded = (
        line.replace_strict(undecodable, default=None, return_dtype=pl.String) if undecodable else reason
    )
    broken = pl.when(is_header & reason.is_not_null()).then("line").when(is_header).then(0)
    lines = (
        pl.DataFrame({"text": written})
        .with_row_index("line", offset=1)
        .join(
            headers.select(line + 1, "author", "first_text", "local", "reason"),
            on="line",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            line.cast(pl.Int64),
            reason=pl.coalesce(undecoded, "reason"),
            text=pl.coalesce("first_text", "text"),
            block=is_header.cum_sum(),
        )
        .with_columns(broken=broken.forward_fill())
        .with_columns(
            reason=pl.coalesce(
                "reason",
                pl.when(pl.col("block") == 0).then(pl.lit("stands before the first message")),
                pl.when(pl.col("broken") > 0).then(
                    pl.format("belongs to line {}, which cannot be read", "broken")
                ),
            )
        )
    )
    is_blank_outside = reason.is_not_null() & ~is_header & (pl.col("text").str.strip_chars() == "")
    return lines.filter(~is_blank_outside).select("line", "block", "author", "text", "local", "reason")


def _with_author(headers: pl.DataFrame) -> pl.DataFrame:
    """Split what follows each header into author and text; a line of the app has no author."""
    split = headers.with_columns(
        author=pl.col("rest").str.head(_MAX_AUTHOR_LENGTH + 2).str.extract(_AUTHOR, 1)
    ).with_columns(text=pl.col("rest").str.slice(pl.col("author").str.len_chars() + 2))
    names = split["author"].drop_nulls().unique().to_list()
    clean = {name: _clean_author(name) for name in names}
    cleaned = split["author"].replace_strict(clean, default=None, return_dtype=pl.String)
    told = find_told(dict(cleaned.drop_nulls().value_counts().iter_rows()))
    clean = {name: None if author in told else author for name, author in clean.items()}
    quoting = pl.col("author").is_in([name for name in names if _has_open_quote(name)])
    is_sentence = quoting & pl.col("text").str.contains(_CLOSING_QUOTES).fill_null(value=False)
    author = pl.col("author").replace_strict(clean, default=None, return_dtype=pl.String)
    return split.with_columns(author=pl.when(~is_sentence).then(author)).with_columns(
        first_text=pl.when(pl.col("author").is_null()).then("rest").otherwise(pl.col("text").fill_null(""))
    )


def _clean_author(name: str) -> str | None:
    """Strip direction marks and the mark of an unsaved contact from a name."""
    clean = "".join(character for character in name if character not in BIDI_MARKS).strip()
    words = clean.split(maxsplit=1)
    if len(words) > 1 and words[0] == "~":
        return words[1]
    return clean or None


def _has_open_quote(name: str) -> bool:
    """Return whether a name ends inside a quotation, as in: Ann changed the subject to "Plan: B"."""
    if "„" in name:
        return name.count("„") > name.count("“") + name.count("”")
    return name.count("“") > name.count("”") or name.count("«") > name.count("»") or name.count('"') % 2 == 1


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
