"""The beginning of a WhatsApp message: date, time, and what separates them from the rest of the line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

import polars as pl

BIDI_MARKS: Final = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
_DIGITS: Final = "0-9٠-٩۰-۹०-९০-৯"
_ASCII_DIGITS: Final = {chr(ord(zero) + value): str(value) for zero in "٠۰०০" for value in range(10)}
_MARKS: Final = f"[{BIDI_MARKS}]*"
_SPACE: Final = f"[ \t\u00a0\u2009\u202f{BIDI_MARKS}]"

_BEFORE_CLOCK: Final = r"à|às|um|at|alle|a las|om|klo|kl\.?|u|o|в|о"
"""Words between date and clock time."""

_CLOCK_WORDS: Final = "uhr|h|ч|น"
"""Words after a clock time that are no mark of a half day."""

_BEFORE_NOON: Final = "am a vorm vormittags πμ ص 上午 午前 오전 öö de fm sa قظ ptg ap проб পূর্বাহ্ণ পূর্বাহ্ন पूर्वाह्न"
_AFTER_NOON: Final = (
    "pm p nachm nachmittags μμ م 下午 午後 오후 ös du em ch بظ ptgh ip слоб অপরাহ্ণ অপরাহ্ন अपराह्न"
)

_PERIODS: Final[Mapping[str, Literal["am", "pm"]]] = {
    **dict.fromkeys(_BEFORE_NOON.split(), "am"),
    **dict.fromkeys(_AFTER_NOON.split(), "pm"),
}
"""Spellings of AM and PM, in lower case without spaces and full stops."""

_START: Final = rf"^({_MARKS}\[?{_MARKS})"
_SHORT: Final = f"[{_DIGITS}]{{1,2}}"
_TWO: Final = f"[{_DIGITS}]{{2}}"
_YEAR: Final = f"[{_DIGITS}]{{4}}"
_ISO_DATE: Final = f"{_YEAR}-{_SHORT}-{_SHORT},?{_SPACE}+"
_FRENCH_CLOCK: Final = f"({_SHORT}){_SPACE}h{_SPACE}({_TWO})"
_WORDED_DATE: Final = f"({_YEAR})[년年]{_SPACE}?({_SHORT})[월月]{_SPACE}?({_SHORT})[일日]{_SPACE}?"
_CLOCK: Final = f"({_SHORT}:{_TWO}(?::{_TWO})?(?:{_SPACE}(?:SA|CH))?)"
_DATE: Final = f"({_SHORT}[/-]{_SHORT}[/-](?:{_YEAR}|{_TWO}))"

_OTHER_FORMS: Final = {
    # fr-CA: 2024-01-15 21 h 05 min 09 s
    f"{_START}({_ISO_DATE}){_FRENCH_CLOCK}{_SPACE}min{_SPACE}({_TWO}){_SPACE}s": "${1}${2}${3}:${4}:${5}",
    # fr-CA: 2024-01-15 21 h 05
    f"{_START}({_ISO_DATE}){_FRENCH_CLOCK}": "${1}${2}${3}:${4}",
    # ko, ja, zh: 2024년 1월 15일 오후 9:05
    f"{_START}{_WORDED_DATE}": "${1}${2}. ${3}. ${4}. ",
    # vi: 21:05, 15/01/2024
    f"{_START}{_CLOCK}(,?){_SPACE}{_DATE}": "${1}${4}${3} ${2}",
}
"""Beginnings of lines that differ from date, then clock time, with marks between their numbers; and the usual form."""

_AFTER_YEAR = f"(?:{_SPACE}?(?:г\\.?|BE|AD))?"
_HEADER = (
    f"^(?P<open>{_MARKS}\\[)?{_MARKS}"
    f"(?P<first>[{_DIGITS}]{{4}}|[{_DIGITS}]{{1,2}}){_MARKS}(?P<separator>[./-]){_SPACE}?{_MARKS}"
    f"[{_DIGITS}]{{1,2}}{_MARKS}(?P<again>[./-])(?P<space>{_SPACE})?{_MARKS}"
    f"(?P<third>[{_DIGITS}]{{4}}|[{_DIGITS}]{{1,2}})\\.?{_AFTER_YEAR}{_MARKS}"
    f"(?P<joint>[,،]?){_SPACE}+(?:(?P<at>{_BEFORE_CLOCK}){_SPACE}+)?"
    f"(?P<before>\\p{{L}}{{0,4}}){_SPACE}*"
    f"[{_DIGITS}]{{1,2}}(?P<colon>[:.])[{_DIGITS}]{{2}}(?P<seconds>[:.][{_DIGITS}]{{2}})?"
    f"(?P<after>[^{_DIGITS}\\[\\]:,–—-]{{0,14}}?)"
    f"(?:(?P<close>\\])|{_SPACE}[-‐‑‒–—−])(?:{_SPACE}|$)"
)
_HEADER_WITHOUT_GROUPS = re.sub(r"\?P<\w+>", "?:", _HEADER)
_NUMBERS = ("first", "second", "third", "hour", "minute", "seconds")
_PERIOD_NOISE = f"[\\s\\p{{Zs}}.'’{BIDI_MARKS}]"
_NOON = 12
_MONTHS = 12
_WIDE_YEAR = 4


def find_headers(lines: pl.Series) -> pl.DataFrame:
    """Find the lines that begin as messages of this export do.

    An export uses one style throughout, so that a line in another is quoted text inside a message: that of the first
    line with a possible date and time, unless another style has more than ten times as many lines.

    It returns ``line`` (from 0), the columns of ``_NUMBERS`` (null where the style has none), ``period`` ("am", "pm"
    or null), ``separator`` (of the date, with the space after it), and ``rest`` (the line after the header).
    """
    found = (
        _write_usually(lines)
        .with_row_index("line")
        .with_columns(pl.col("text").str.replace(_HEADER_WITHOUT_GROUPS, "").alias("rest"))
        .filter(pl.col("text") != pl.col("rest"))
        .with_columns(pl.col("text").str.strip_suffix(pl.col("rest")).alias("header"))
    )
    if not found["header"].str.contains("^[\x00-\x7f]*$").all():
        found = found.with_columns(pl.col("header").str.replace_many(_ASCII_DIGITS))
    shape = pl.col("header").str.replace_many([str(digit) for digit in range(1, 10)], ["0"] * 9)
    found = found.with_columns(shape.alias("shape"))
    found = found.join(_describe_shapes(found["shape"]), on="shape", how="inner", maintain_order="left")
    found = found.with_columns(pl.concat_str("style", "is_rewritten", separator=" ").alias("style"))
    found = found.with_columns(pl.col("header").str.extract_all("[0-9]+").alias("numbers")).with_columns(
        pl.col("numbers").list.get(place, null_on_oob=True).cast(pl.Int32).alias(name)
        for place, name in enumerate(_NUMBERS)
    )
    plausible = found.filter(
        pl.min_horizontal("first", "second", "third").is_between(1, _MONTHS), time_of_day().is_not_null()
    )
    return found.filter(pl.col("style") == _style_of_export(plausible["style"])).select(
        "line", *_NUMBERS, "period", "separator", pl.col("rest").str.strip_chars_start(BIDI_MARKS)
    )


def time_of_day() -> pl.Expr:
    """Compute the time of day from the columns of :func:`find_headers`; null where it is impossible.

    With an AM/PM mark, midnight and noon may also be written as 0, and an hour over 12 may have the PM mark.
    """
    hour, period = pl.col("hour"), pl.col("period")
    hour_of_day = (
        pl.when((period == "pm") & (hour < _NOON))
        .then(hour + _NOON)
        .when((period == "am") & (hour == _NOON))
        .then(0)
        .otherwise(hour)
    )
    is_possible = (
        (hour <= 23)
        & (pl.col("minute") <= 59)
        & (pl.col("seconds").fill_null(0) <= 59)
        & ~((period == "am") & (hour > _NOON)).fill_null(value=False)
    )
    time = pl.duration(hours=hour_of_day, minutes="minute", seconds=pl.col("seconds").fill_null(0))
    return pl.when(is_possible).then(time)


def _write_usually(lines: pl.Series) -> pl.DataFrame:
    """Return the lines as ``text``, each header in a special form rewritten to the usual one, and ``is_rewritten``."""
    rewritten = lines
    for form, usual in _OTHER_FORMS.items():
        rewritten = rewritten.str.replace(form, usual)
    return pl.DataFrame({"text": rewritten, "is_rewritten": rewritten != lines})


def _describe_shapes(shapes: pl.Series) -> pl.DataFrame:
    """Extract the style and the AM/PM mark of header shapes (headers with every digit replaced by 0)."""
    mark = (pl.col("before") + pl.col("after")).str.replace_all(_PERIOD_NOISE, "").str.to_lowercase()
    clock_word = mark.str.extract(f"^({_CLOCK_WORDS})$").fill_null("")
    is_spaced = pl.col("space").str.strip_chars(BIDI_MARKS) != ""
    style = (
        pl.col("open").is_not_null(),
        "separator",
        pl.col("first").str.len_chars() == _WIDE_YEAR,
        pl.col("third").str.len_chars() == _WIDE_YEAR,
        "joint",
        "colon",
        pl.col("seconds").is_not_null(),
        pl.col("before") != "",
        pl.col("period").is_not_null(),
        pl.col("at").fill_null(""),
        "clock_word",
    )
    return (
        pl.DataFrame({"shape": shapes.unique()})
        .with_columns(pl.col("shape").str.extract_groups(_HEADER).alias("groups"))
        .unnest("groups")
        .with_columns(clock_word=clock_word, mark=pl.when(clock_word == "").then(mark).otherwise(pl.lit("")))
        .with_columns(period=pl.col("mark").replace_strict(_PERIODS, default=None, return_dtype=pl.String))
        .filter(
            pl.col("open").is_not_null() == pl.col("close").is_not_null(),
            pl.col("separator") == pl.col("again"),
            (pl.col("mark") == "") | pl.col("period").is_not_null(),
        )
        .select(
            "shape",
            "period",
            pl.col("separator") + pl.when(is_spaced).then(pl.lit(" ")).otherwise(pl.lit("")),
            style=pl.concat_str(*style, separator=" "),
        )
    )


def _style_of_export(styles: pl.Series) -> str:
    if styles.is_empty():
        return ""
    counts = dict(styles.value_counts().iter_rows())
    first = str(styles[0])
    most = max(counts, key=lambda style: (counts[style], style == first, style))
    return str(most) if counts[most] > 10 * counts[first] else first
