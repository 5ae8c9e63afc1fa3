"""A conversation -> Markdown: messages under numbered headings that no message can imitate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

import polars as pl

from backstory.base.errors import InputError

_TEXT_COLUMNS = ("message", "text")
_MICROSECONDS_PER_MINUTE = 60_000_000
_MINUTES_PER_DAY = 24 * 60
_TIMES_OF_DAY = pl.Series(f" {minute // 60:02}:{minute % 60:02}" for minute in range(_MINUTES_PER_DAY))

_INDENT = r"[\t\p{Zs}\p{Cf}]*"
# Line starts that Markdown would read as structure of the conversation, or that would hide the lines after them:
# headings of either kind, the two lines below a heading, code fences, and HTML that does not end at a blank line.
_STRUCTURE = (
    r"#(?:[# \t]|$)|(?:=+|-+)[ \t]*$|(?:\*\*|__)(?i:author|timestamp)|```|~~~"
    r"|<(?:[!?]|(?i:script|pre|style|textarea)\b)"
)
_BREAK = r"[\n\r\x0B\x0C\x1C-\x1E\x{85}\x{2028}\x{2029}]"
# Cheap tests that every text with such a line passes, and few other texts.
_SUSPECT_START = rf"^{_INDENT}[\\#=\-*_`~<]"
_SUSPECT_LINE = rf"{_BREAK}{_INDENT}[\\#=\-*_`~<]"
_ESCAPED_LINE = rf"(?mR)(^|{_BREAK})({_INDENT})(\\*(?:{_STRUCTURE}))"


class ArrowStream(Protocol):
    """A table that gives its columns through the Arrow stream interface, such as pyarrow's and Ibis's."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


Messages = pl.DataFrame | pl.LazyFrame | ArrowStream | Iterable[Mapping[str, Any]]
"""Accepted forms of messages: Polars, Arrow, Ibis, or an iterable of mappings."""


def consolidate_messages_to_markdown(table: Messages) -> str:
    r"""Write a conversation as Markdown.

    Each message is a heading ``## Message 1``, the lines ``**Author:** …`` and ``**Timestamp:** 2025-01-15
    10:30`` (absent where the value is null), a blank line, and its text. A line of a text that would read as
    a heading, as one of those two lines, as a code fence or as the start of an HTML block gets a backslash
    before its first visible character. So does a line that already begins with such backslashes: removing one
    backslash from each line restores the text.

    Args:
        table: Messages in order, with columns ``author``, ``timestamp`` (datetime or text) and ``message`` or
            ``text``: a pyarrow.Table, a Polars frame, an Ibis table or an iterable of mappings.

    Returns:
        The Markdown; empty for no messages.

    Raises:
        InputError: ``table`` is a pandas DataFrame, or no table at all.
        InputError: A column is absent.
    """
    frame = _to_polars(table)
    if frame.is_empty():
        return ""
    text = next((name for name in _TEXT_COLUMNS if name in frame.columns), _TEXT_COLUMNS[0])
    absent = [name for name in ("author", "timestamp", text) if name not in frame.columns]
    if absent:
        raise InputError(
            f"the messages have no column {', '.join(absent)}; found {', '.join(frame.columns) or 'none'}",
            code="absent_column",
        )
    date, time = _format_timestamps(frame["timestamp"])
    columns = pl.DataFrame(
        {
            "number": range(1, len(frame) + 1),
            "author": _fold_lines(frame["author"].cast(pl.String)),
            "date": date,
            "time": time,
            "text": _escape(frame[text].cast(pl.String)),
        }
    )
    message = pl.concat_str(
        pl.lit("## Message "),
        pl.col("number"),
        pl.when(pl.col("author").is_not_null()).then(pl.lit("\n**Author:** ")),
        pl.col("author"),
        pl.when(pl.col("date").is_not_null()).then(pl.lit("\n**Timestamp:** ")),
        pl.col("date"),
        pl.col("time"),
        pl.lit("\n\n"),
        pl.col("text"),
        ignore_nulls=True,
    )
    # Joining a list is much faster than joining strings.
    return str(columns.select(message.implode().list.join("\n\n")).item())


def _to_polars(table: Messages) -> pl.DataFrame:
    """Convert a table in any accepted form. Of mappings, only author, timestamp and text are used, as strings."""
    if any(base.__module__.partition(".")[0] == "pandas" for base in type(table).__mro__):
        raise InputError(
            f"a pandas {type(table).__name__} is not accepted; pass pyarrow.Table.from_pandas(df), "
            "polars.from_pandas(df) or df.to_dict('records')",
            code="pandas",
        )
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if isinstance(table, pl.DataFrame):
        return table
    if hasattr(table, "__arrow_c_stream__") and not isinstance(table, pl.Series):
        return pl.DataFrame(table)
    if isinstance(table, (str, bytes, Mapping, pl.Series)) or not isinstance(table, Iterable):
        raise InputError(
            f"a {type(table).__name__} is not a table of messages; pass a pyarrow.Table, a Polars frame, "
            "an Ibis table or an iterable of mappings",
            code="unsupported_table",
        )
    return _from_mappings(table)


def _from_mappings(rows: Iterable[Any]) -> pl.DataFrame:
    listed = list(rows)
    for position, row in enumerate(listed):
        if not isinstance(row, Mapping):
            raise InputError(
                f"row {position} is a {type(row).__name__}; an iterable of messages must hold mappings, "
                "such as {'timestamp': ..., 'author': ..., 'message': ...}",
                code="no_mapping",
            )
    wanted = ("author", "timestamp", *_TEXT_COLUMNS)
    present = [name for name in wanted if any(name in row for row in listed)]
    return pl.DataFrame(
        {name: [_to_text(row.get(name)) for row in listed] for name in present},
        schema=dict.fromkeys(present, pl.String),
    )


def _to_text(value: object) -> str | None:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")[:16]
    return None if value is None else str(value)


def _format_timestamps(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    if not isinstance(values.dtype, pl.Datetime):
        return _fold_lines(values.cast(pl.String)), pl.repeat("", len(values), eager=True)
    local = values.dt.replace_time_zone(None).dt.cast_time_unit("us")
    minutes = local.to_physical() // _MICROSECONDS_PER_MINUTE
    days = minutes // _MINUTES_PER_DAY
    # A lookup is faster than formatting: there are few days, and 1,440 minutes in a day.
    distinct = days.drop_nulls().unique()
    dates = days.replace_strict(distinct, distinct.cast(pl.Int32).cast(pl.Date).dt.to_string("%Y-%m-%d"))
    return dates, _TIMES_OF_DAY.gather(minutes - days * _MINUTES_PER_DAY)


def _fold_lines(values: pl.Series) -> pl.Series:
    return _replace_where(values, values.str.contains(_BREAK), rf"{_BREAK}+", " ")


def _escape(texts: pl.Series) -> pl.Series:
    suspects = texts.str.contains(_SUSPECT_START) | texts.str.contains(_SUSPECT_LINE)
    return _replace_where(texts, suspects, _ESCAPED_LINE, r"${1}${2}\${3}")


def _replace_where(values: pl.Series, mask: pl.Series, pattern: str, replacement: str) -> pl.Series:
    """Replace a pattern only in the few rows of a mask, because replacing is expensive."""
    rows = mask.fill_null(value=False).arg_true()
    if rows.is_empty():
        return values
    return values.clone().scatter(rows, values.gather(rows).str.replace_all(pattern, replacement))
