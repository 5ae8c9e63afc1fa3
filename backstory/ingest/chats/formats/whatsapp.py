"""WhatsApp chats exported as text, by Android or iOS, in any locale."""

from __future__ import annotations

import re
from typing import Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.ingest.chats.export import Export, complete_rows
from backstory.ingest.chats.export_files import ChatFormat, Opened
from backstory.ingest.chats.formats.whatsapp_phrases import (
    ANY_MARK,
    APP_MARK,
    BIDI_MARKS,
    ENCRYPTED,
    classify_messages,
    find_told,
    split_caption,
)
from backstory.ingest.chats.times import (
    FIRST_YEAR,
    KNOWN_YEAR,
    DateOrder,
    decide_date_order,
    local_to_utc,
    read_date,
)
from backstory.settings.inputs import ConversationSettings
from backstory.text.encoding import TextLines, decode_lines

_DIGITS: Final = "0-9٠-٩۰-۹०-९০-৯"
_ASCII_DIGITS: Final = {chr(ord(zero) + value): str(value) for zero in "٠۰०০" for value in range(10)}
_MARKS: Final = f"[{BIDI_MARKS}]*"
_SPACE: Final = f"[ \t\u00a0\u2009\u202f{BIDI_MARKS}]"

_BEFORE_CLOCK: Final = r"à|às|um|at|alle|a las|om|klo|kl\.?|u|o|в|о"
"""Words between date and clock time."""

_BEFORE_NOON: Final = "am a vorm vormittags πμ ص 上午 午前 오전 öö de fm sa قظ ptg ap проб পূর্বাহ্ণ পূর্বাহ্ন पूर्वाह्न"
_AFTER_NOON: Final = (
    "pm p nachm nachmittags μμ م 下午 午後 오후 ös du em ch بظ ptgh ip слоб অপরাহ্ণ অপরাহ্ন अपराह्न"
)

_HALVES: Final = {
    **dict.fromkeys(_BEFORE_NOON.split(), "am"),
    **dict.fromkeys(_AFTER_NOON.split(), "pm"),
    **dict.fromkeys(["uhr", "h", "ч", "น", ""], ""),
}
"""Halves of the day by what stands beside a clock time, in lower case without spaces and full stops; some tell none."""

_START: Final = rf"^({_MARKS}\[?{_MARKS})"
_SHORT: Final = f"[{_DIGITS}]{{1,2}}"
_TWO: Final = f"[{_DIGITS}]{{2}}"
_YEAR: Final = f"[{_DIGITS}]{{4}}"
_WORDED_DATE: Final = f"({_YEAR})[년年]{_SPACE}?({_SHORT})[월月]{_SPACE}?({_SHORT})[일日]{_SPACE}?"
_CLOCK: Final = f"({_SHORT}:{_TWO}(?::{_TWO})?(?:{_SPACE}(?:SA|CH))?)"
_DATE: Final = f"({_SHORT}[/-]{_SHORT}[/-](?:{_YEAR}|{_TWO}))"

_OTHER_FORMS: Final = {
    # ko, ja, zh: 2024년 1월 15일 오후 9:05
    f"{_START}{_WORDED_DATE}": "${1}${2}. ${3}. ${4}. ",
    # vi: 21:05, 15/01/2024
    f"{_START}{_CLOCK}(,?){_SPACE}{_DATE}": "${1}${4}${3} ${2}",
}
"""Beginnings of lines that differ from date, then clock time, with marks between their numbers; and the usual form."""

_AFTER_YEAR = f"(?:{_SPACE}?(?:г\\.?|BE|AD))?"
_HEADER = (
    f"^(?P<open>{_MARKS}\\[)?{_MARKS}"
    f"(?:{_YEAR}|{_SHORT}){_MARKS}(?P<separator>[./-]){_SPACE}?{_MARKS}"
    f"{_SHORT}{_MARKS}(?P<again>[./-])(?P<space>{_SPACE})?{_MARKS}"
    f"(?:{_YEAR}|{_SHORT})\\.?{_AFTER_YEAR}{_MARKS}"
    f"[,،]?{_SPACE}+(?:(?P<at>{_BEFORE_CLOCK}){_SPACE}+)?"
    f"(?P<before>\\p{{L}}{{0,4}}){_SPACE}*{_SHORT}(?:[:.]|{_SPACE}h{_SPACE}){_TWO}"
    f"(?:[:.]{_TWO}|{_SPACE}min{_SPACE}{_TWO}{_SPACE}s)?"
    f"(?P<after>[^{_DIGITS}\\[\\]:,–—-]{{0,14}}?)"
    f"(?:(?P<close>\\])|{_SPACE}[-‐‑‒–—−])(?:{_SPACE}|$)"
)
_HEADER_WITHOUT_GROUPS = re.sub(r"\?P<\w+>", "?:", _HEADER)
_DATE_PARTS = ("first", "second", "third")
_CLOCK_PARTS = ("hour", "minute", "seconds")
_NOISE = f"[\\s\\p{{Zs}}.'’{BIDI_MARKS}]"
_LETTERS = f"[\\pL\\pM\\s'’{BIDI_MARKS}]"
_HALF_DAY = 12
_MAX_AUTHOR_LENGTH = 100
_AUTHOR = f"^(.{{1,{_MAX_AUTHOR_LENGTH}}}?):(?:[ \u00a0\u202f]|$)"
_UNSAVED = r"^~\s+(\S)"
"""Mark of a contact that the phone does not know, before the name."""

_BY_APP: Final = re.compile(f"(?P<name>.{{1,{_MAX_AUTHOR_LENGTH}}}): (?P<text>{APP_MARK}.*)")
"""A line of the app on iOS under the name of the group, which may hold a colon."""

_OPEN_QUOTE = r'„[^“”]*$|^[^„]*(?:“[^”]*|«[^»]*)$|^[^„"]*"(?:[^"]*"[^"]*")*[^"]*$'
"""End of a text inside a quotation, as before the second colon of: Ann changed the subject to "Plan: B"."""

_SIGNAL_HEADER: Final = r"^\[\d{4}-\d\d-\d\d,? \d\d:\d\d\] "
"""Beginning of each message as signal-export writes it; WhatsApp writes seconds between brackets."""

_QUOTE: Final = r"^[ \t]*\n>?[ \t]*(?:\n> [^\n]*)+(?:\n>?[ \t]*(?:\n|$)|$)"
"""The message that is answered, below an empty beginning and between empty lines, unlike what somebody quotes."""

_REACTIONS: Final = r"\s*\(- [^\n]{1,60}: [^\n]* -\)\s*$"
_FILE: Final = r"!?\[[^\[\]\n]*\]\((?:\./)?media/[^\n]*?\)"
_NO_CHAT = (
    "it looks like a chat of WhatsApp, but most of its lines with a date name nobody, so another program wrote it; "
    "export the chat from there as JSON or as a table (docs/reference/chat-formats.md lists what is read), or move the "
    "file out of the folder if it is no chat"
)


def parse_whatsapp(
    lines: TextLines, settings: ConversationSettings, *, latest_year: int = KNOWN_YEAR
) -> Export:
    """Read the lines of a WhatsApp export: a message extends from its header to the next one in the same style.

    It raises ``ReadError`` if the date order must be set, the dates belong to another calendar, or the text is that of
    another program.
    """
    headers = _with_author(find_headers(lines.lines))
    if headers.is_empty() or _is_foreign(headers, lines.lines):
        raise ReadError(_NO_CHAT, code="foreign")
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
    rows = classify_messages(
        rows.with_columns(
            local_to_utc(rows["local"], settings.timezone).alias("timestamp"),
            pl.int_range(pl.len(), dtype=pl.Int64).alias("seq"),
        )
    )
    if lines.lines.gather(headers["line"]).str.contains(_SIGNAL_HEADER).all():
        rows = _clean_signal_export(rows)
    unread = read.filter(pl.col("reason").is_not_null()).select(pl.col("line") + 1, "reason")
    return Export(
        rows=complete_rows(rows),
        unread=dict(unread.iter_rows()),
        encoding=lines.encoding,
        date_order=order,
        timezone=settings.timezone,
    )


def _with_author(headers: pl.DataFrame) -> pl.DataFrame:
    """Split what follows each header into author and text; a line of the app has no author."""
    written, text, rest = pl.col("written"), pl.col("text"), pl.col("rest")
    author = rest.str.head(_MAX_AUTHOR_LENGTH + 2).str.extract(_AUTHOR, 1)
    group = _BY_APP.match("".join(headers["rest"].head(1)))
    if group is not None and split_caption(group["text"]) is None:
        is_group = rest.str.starts_with(f"{group['name']}: ")
        author = pl.when(is_group).then(pl.lit(group["name"])).otherwise(author)
    split = headers.with_columns(written=author)
    split = split.with_columns(
        text=rest.str.slice(written.str.len_chars() + 2),
        author=written.str.replace_all(ANY_MARK, "").str.strip_chars().str.replace(_UNSAVED, "$1"),
    )
    told = find_told(dict(split["author"].drop_nulls().value_counts().iter_rows()))
    is_quote = written.str.contains(_OPEN_QUOTE) & text.str.contains('[”“»"]')
    is_told = pl.col("author").is_in([*told, ""]) | is_quote.fill_null(value=False)
    return split.with_columns(author=pl.when(~is_told).then("author")).with_columns(
        text=pl.when(pl.col("author").is_null()).then(rest).otherwise(text.fill_null(""))
    )


def _is_foreign(headers: pl.DataFrame, lines: pl.Series) -> bool:
    """Return whether most lines with a date name nobody: more than half in brackets, as on iOS, else three in four."""
    written = lines.gather(headers["line"])
    by_nobody = headers["written"].is_null() & ~written.str.contains(APP_MARK)
    if written[:1].str.strip_chars_start(BIDI_MARKS).str.starts_with("[").any():
        return 2 * by_nobody.sum() > len(written)
    # A new group on Android may hold few other lines than those of the app, but that about the encryption is one.
    is_encrypted = written.filter(by_nobody).str.contains(ENCRYPTED).any()
    return not is_encrypted and 4 * by_nobody.sum() > 3 * max(len(written), 3)


def _with_local_time(headers: pl.DataFrame, order: DateOrder, latest_year: int) -> pl.DataFrame:
    """Add ``local``, the time of each header, or the reason if there is no such time."""
    dates = headers.select(_DATE_PARTS).unique(maintain_order=True)
    days = pl.Series("day", [read_date(parts, order, latest_year) for parts in dates.iter_rows()], pl.Date)
    wrong = (
        f"there is no such date or time (in the order {order}) between {FIRST_YEAR}, when WhatsApp appeared, and "
        f"{latest_year}, the year of the file"
    )
    timed = headers.join(dates.with_columns(days), on=_DATE_PARTS, maintain_order="left")
    timed = timed.with_columns(local=pl.col("day").cast(pl.Datetime("us")) + pl.col("time"))
    return timed.with_columns(reason=pl.when(pl.col("local").is_null()).then(pl.lit(wrong)))


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


def find_headers(lines: pl.Series) -> pl.DataFrame:
    """Find the lines that begin as messages of this export do.

    An export uses one style throughout, so that a line in another is quoted text inside a message: that of the first
    line with a possible date and time, unless another style has more than ten times as many lines.

    It returns ``line`` (from 0), the columns of ``_DATE_PARTS``, ``time`` (of the day; null where it is impossible),
    ``separator`` (of the date, with the space after it), and ``rest`` (the line after the header).
    """
    usual = lines
    for form, written in _OTHER_FORMS.items():
        usual = usual.str.replace(form, written)
    found = (
        pl.DataFrame({"text": usual, "is_rewritten": usual != lines})
        .with_row_index("line")
        .with_columns(pl.col("text").str.replace(_HEADER_WITHOUT_GROUPS, "").alias("rest"))
        .filter(pl.col("text") != pl.col("rest"))
        .with_columns(pl.col("text").str.strip_suffix(pl.col("rest")).alias("header"))
    )
    if not found["header"].str.contains("^[\x00-\x7f]*$").all():
        found = found.with_columns(pl.col("header").str.replace_many(_ASCII_DIGITS))
    found = found.with_columns(shape=pl.col("header").str.replace_many(list("123456789"), ["0"] * 9))
    found = found.join(_describe_shapes(found["shape"]), on="shape", how="inner", maintain_order="left")
    found = found.with_columns(pl.col("header").str.extract_all("[0-9]+").alias("numbers")).with_columns(
        pl.col("numbers").list.get(place, null_on_oob=True).cast(pl.Int32).alias(name)
        for place, name in enumerate((*_DATE_PARTS, *_CLOCK_PARTS))
    )
    found = found.with_columns(
        time=_compute_time(), style=pl.concat_str("style", "is_rewritten", separator=" ")
    )
    has_month = pl.min_horizontal(_DATE_PARTS).is_between(1, 12)
    styles = found.filter(has_month, pl.col("time").is_not_null())["style"]
    counts = dict(styles.value_counts().iter_rows())
    style = first = "".join(styles.head(1))
    for other, lines_of_other in sorted(counts.items()):
        if lines_of_other > max(10 * counts[first], counts[style]):
            style = other
    return found.filter(pl.col("style") == style).select(
        "line", *_DATE_PARTS, "time", "separator", pl.col("rest").str.strip_chars_start(BIDI_MARKS)
    )


def _compute_time() -> pl.Expr:
    """Compute the time of day; with an AM/PM mark, noon may be written as 0, and an hour over 12 may be marked PM."""
    hour, minute, seconds = pl.col("hour"), pl.col("minute"), pl.col("seconds").fill_null(0)
    is_am, is_pm = pl.col("half") == "am", pl.col("half") == "pm"
    hour_of_day = pl.when(is_am | is_pm).then(hour % _HALF_DAY + is_pm * _HALF_DAY).otherwise(hour)
    is_possible = (hour <= 23) & (minute <= 59) & (seconds <= 59) & ~(is_am & (hour > _HALF_DAY))
    return pl.when(is_possible).then(pl.duration(hours=hour_of_day, minutes=minute, seconds=seconds))


def _describe_shapes(shapes: pl.Series) -> pl.DataFrame:
    """Extract the style, the separator and the half of the day of header shapes, with 0 for every digit."""
    mark = (pl.col("before") + pl.col("after")).str.replace_all(_NOISE, "").str.to_lowercase()
    half = pl.col("mark").replace_strict(_HALVES, default=None, return_dtype=pl.String)
    space = pl.when(pl.col("space").str.strip_chars(BIDI_MARKS) != "").then(pl.lit(" ")).otherwise(pl.lit(""))
    numbers = pl.col("shape").str.replace_all("0000", "#").str.replace_all("0+", "0")
    words = pl.when(pl.col("half") == "").then("mark").otherwise(pl.lit("half"))
    return (
        pl.DataFrame({"shape": shapes.unique()})
        .with_columns(pl.col("shape").str.extract_groups(_HEADER).alias("groups"))
        .unnest("groups")
        .with_columns(mark=mark)
        .with_columns(half=half)
        .filter(
            pl.col("open").is_not_null() == pl.col("close").is_not_null(),
            pl.col("separator") == pl.col("again"),
            pl.col("half").is_not_null(),
        )
        .select(
            "shape",
            "half",
            pl.col("separator") + space,
            style=pl.concat_str(numbers.str.replace_all(_LETTERS, ""), words, pl.col("at").fill_null("")),
        )
    )


def _clean_signal_export(rows: pl.DataFrame) -> pl.DataFrame:
    """Take from texts what signal-export adds: the message that is answered, reactions, and names of files."""
    text = pl.col("text")
    plain = (
        text.str.replace(_REACTIONS, "").str.replace(_QUOTE, "").str.replace_all(_FILE, "").str.strip_chars()
    )
    by_nobody = pl.col("author") == "No-Sender"
    by_file = pl.when(text.str.contains(_FILE)).then(pl.lit("media")).otherwise("kind")
    return rows.with_columns(
        author=pl.when(~by_nobody).then("author"),
        text=pl.when(plain != "").then(plain),
        kind=pl.when(by_nobody).then(pl.lit("system")).otherwise(by_file),
    )


def _find(opened: Opened) -> list[str]:
    """Find a text that has the header of a message among its first lines.

    The chat in an archive is ``_chat.txt`` from iOS, ``WhatsApp Chat with ….txt`` from Android. The media of a chat may
    include other texts, so that these names go first.
    """
    texts = (name for name in opened.names if opened.is_single or name.lower().endswith(".txt"))
    chats = [name for name in texts if len(find_headers(pl.Series(opened.head_lines(name), dtype=pl.String)))]
    return [name for name in chats if re.search(r"(^|/)_chat\.txt$|(?i:whatsapp)", name)] or chats


def _read(opened: Opened, found: list[str]) -> Export:
    if len(found) > 1:
        raise ReadError(
            f"the archive holds {len(found)} chats; put each into a file of its own", code="wrong_count"
        )
    lines = decode_lines(opened.read(found[0]))
    return parse_whatsapp(lines, opened.settings, latest_year=opened.latest_year)


WHATSAPP: Final = ChatFormat("whatsapp_text", _find, _read)
