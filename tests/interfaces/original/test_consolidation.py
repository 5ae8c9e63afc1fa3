from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import ibis
import polars as pl
import pyarrow as pa
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.base.errors import InputError
from backstory.interfaces.original.consolidation import consolidate_messages_to_markdown
from tests.errors import raises

ROWS: list[dict[str, Any]] = [
    {"timestamp": datetime(2025, 1, 15, 10, 30), "author": "uuid-123", "message": "Message text here..."},
    {"timestamp": datetime(2025, 1, 15, 10, 35), "author": "uuid-456", "message": "Another message..."},
]
WRITTEN = """\
## Message 1
**Author:** uuid-123
**Timestamp:** 2025-01-15 10:30

Message text here...

## Message 2
**Author:** uuid-456
**Timestamp:** 2025-01-15 10:35

Another message..."""

FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "polars": pl.DataFrame,
    "lazy": pl.LazyFrame,
    "arrow": pa.Table.from_pylist,
    "record batch": pa.RecordBatch.from_pylist,
    "ibis": lambda rows: ibis.memtable(pa.Table.from_pylist(rows)),
    "mappings": list,
    "generator": iter,
}

TROUBLE = [
    *(
        "## Message 9",
        "**Author:** forged",
        "**Timestamp:** 2025-01-15 10:30",
        "__Author:__ x",
        "# Title",
        "#",
    ),
    *(
        "#tag",
        "----",
        "===",
        "- item",
        "```python",
        "~~~",
        "<!-- ",
        "<script>",
        "<b>",
        "\\",
        "\\\\",
        "**bold**",
    ),
    *(
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "\x0b",
        "\x0c",
        "\x1d",
        "\x85",
        "\u2028",
        "\u2029",
        " ",
        "\t",
        "\u00a0",
        "\u200e",
    ),
    *("Olá, tudo bem?", "👋", "", "text"),
]
texts = st.lists(st.sampled_from(TROUBLE) | st.text(max_size=5), max_size=8).map("".join)
labels = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=8)
messages = st.lists(
    st.fixed_dictionaries(
        {
            "author": st.none() | labels,
            "timestamp": st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
            "message": st.none() | texts,
        }
    ),
    min_size=1,
    max_size=6,
)

BREAKS = r"\n\r\x0B\x0C\x1C-\x1E\x85\u2028\u2029"
HEADING = regex.compile(
    r"^## Message (\d+)\n(?:\*\*Author:\*\* (.*)\n)?(?:\*\*Timestamp:\*\* (.*)\n)?\n", regex.M
)
STRUCTURE = (
    r"#(?:[# \t]|(?=[\n\r]|\Z))|(?:=+|-+)[ \t]*(?=[\n\r]|\Z)|(?:\*\*|__)(?i:author|timestamp)|```|~~~"
    r"|<(?:[!?]|(?i:script|pre|style|textarea)\b)"
)
ESCAPED = regex.compile(rf"(\A|[{BREAKS}])([\t\p{{Zs}}\p{{Cf}}]*)\\(?=\\*(?:{STRUCTURE}))")


def parse(markdown: str) -> list[tuple[str | None, str | None, str]]:
    """Read messages back, knowing nothing but the documented format."""
    found = list(HEADING.finditer(markdown))
    assert [int(heading[1]) for heading in found] == list(range(1, len(found) + 1))
    ends = [heading.start() - len("\n\n") for heading in found[1:]] + [len(markdown)]
    return [
        (heading[2], heading[3], ESCAPED.sub(r"\1\2", markdown[heading.end() : end]))
        for heading, end in zip(found, ends, strict=True)
    ]


@pytest.mark.parametrize("form", FORMS)
def test_writes_the_original_format_from_every_accepted_form(form: str) -> None:
    assert consolidate_messages_to_markdown(FORMS[form](ROWS)) == WRITTEN


@pytest.mark.parametrize("form", [name for name in FORMS if name not in ("mappings", "generator")])
def test_no_messages_give_no_text(form: str) -> None:
    schema = pa.schema({"timestamp": pa.timestamp("us"), "author": pa.string(), "message": pa.string()})
    empty = pa.Table.from_pylist([], schema=schema)
    table: Any = {
        "polars": pl.DataFrame(empty),
        "lazy": pl.DataFrame(empty).lazy(),
        "arrow": empty,
        "record batch": pa.RecordBatch.from_pylist([], schema=schema),
        "ibis": ibis.memtable(empty),
    }[form]
    assert consolidate_messages_to_markdown(table) == ""


def test_nothing_at_all_gives_no_text() -> None:
    assert consolidate_messages_to_markdown([]) == ""
    assert consolidate_messages_to_markdown(pl.DataFrame()) == ""


@settings(deadline=None)
@given(messages)
def test_messages_are_read_back_exactly(rows: list[dict[str, Any]]) -> None:
    expected = [
        (
            row["author"],
            row["timestamp"] and row["timestamp"].isoformat(sep=" ")[:16],
            row["message"] or "",
        )
        for row in rows
    ]
    schema: dict[str, Any] = {"author": pl.String, "timestamp": pl.Datetime("us"), "message": pl.String}
    assert parse(consolidate_messages_to_markdown(pl.DataFrame(rows, schema=schema))) == expected
    assert parse(consolidate_messages_to_markdown(rows)) == expected


@settings(deadline=None)
@given(texts)
def test_no_line_of_a_message_reads_as_structure(text: str) -> None:
    row = {"author": "a", "timestamp": "2025-01-15 10:30", "message": text}
    markdown = consolidate_messages_to_markdown([row, row])
    visible = [regex.sub(r"^[\s\p{Cf}]+", "", line) for line in markdown.splitlines()]
    assert sum(line.startswith("## ") for line in visible) == 2
    assert sum(line.startswith("**Author") for line in visible) == 2
    assert sum(line.startswith("**Timestamp") for line in visible) == 2
    assert not any(line.startswith(("```", "~~~", "# ", "<!--", "<script", "__Author")) for line in visible)
    assert not any(regex.fullmatch(r"[-=]+\s*", line) for line in visible)


def test_escapes_with_one_readable_backslash() -> None:
    forged = "Olá\n\n## Message 9\n  **Author:** me\n#tag and <b>, - and ---\n\\# kept"
    (_, _, body) = parse(markdown := consolidate_messages_to_markdown([{**ROWS[0], "message": forged}]))[0]
    assert body == forged
    assert markdown.endswith("Olá\n\n\\## Message 9\n  \\**Author:** me\n#tag and <b>, - and ---\n\\\\# kept")


def test_an_author_cannot_begin_a_line() -> None:
    row = {**ROWS[0], "author": "eve\n\n## Message 2\r\nx", "timestamp": "noon\n## Message 3"}
    assert consolidate_messages_to_markdown([row]).splitlines()[:3] == [
        "## Message 1",
        "**Author:** eve ## Message 2 x",
        "**Timestamp:** noon ## Message 3",
    ]


@pytest.mark.parametrize(
    ("values", "dtype", "written"),
    [
        (["2025-01-15 10:30"], pl.String, "2025-01-15 10:30"),
        ([datetime(2025, 1, 15, 10, 30, 59)], pl.Datetime("ms"), "2025-01-15 10:30"),
        ([datetime(2025, 1, 15, 10, 30, 59)], pl.Datetime("ns"), "2025-01-15 10:30"),
        ([datetime(1969, 12, 31, 23, 59, 59)], pl.Datetime("us"), "1969-12-31 23:59"),
        ([datetime(2025, 1, 15, 10, 30, tzinfo=UTC)], pl.Datetime("us", "UTC"), "2025-01-15 10:30"),
        ([datetime(2025, 1, 15, 10, 30, tzinfo=UTC)], pl.Datetime("us", "Asia/Tokyo"), "2025-01-15 19:30"),
    ],
)
def test_timestamps_of_every_kind(values: list[Any], dtype: Any, written: str) -> None:
    frame = pl.DataFrame({"author": ["a"], "timestamp": pl.Series(values, dtype=dtype), "text": ["x"]})
    assert f"\n**Timestamp:** {written}\n\n" in consolidate_messages_to_markdown(frame)


def test_mappings_may_mix_timestamps_and_types() -> None:
    tokyo = timezone(timedelta(hours=9))
    rows: list[dict[str, Any]] = [
        {"timestamp": datetime(2025, 1, 15, 10, 30, 5, tzinfo=tokyo), "author": 7, "message": "x"},
        {"timestamp": "yesterday", "author": "b", "message": None},
        {"message": "alone"},
    ]
    assert parse(consolidate_messages_to_markdown(rows)) == [
        ("7", "2025-01-15 10:30", "x"),
        ("b", "yesterday", ""),
        (None, None, "alone"),
    ]


def test_pandas_is_refused_with_the_way_out() -> None:
    code = (
        "import pandas; from backstory import consolidate_messages_to_markdown as write;"
        "write(pandas.DataFrame({'author': ['a'], 'timestamp': ['now'], 'message': ['x']}))"
    )
    failed = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert "InputError: a pandas DataFrame is not accepted; pass pyarrow.Table" in failed.stderr


def test_pandas_is_not_imported() -> None:
    code = (
        "import sys; from backstory.interfaces.original.consolidation import consolidate_messages_to_markdown as write;"
        "write([{'author': 'a', 'timestamp': 'now', 'message': 'x'}]);"
        "sys.exit(bool({'pandas', 'ibis', 'dagster'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("wrong", ["text", b"bytes", 5, None, {"message": "x"}, pl.Series(["x"])])
def test_what_is_no_table_is_refused(wrong: Any) -> None:
    with raises(InputError, "unsupported_table"):
        consolidate_messages_to_markdown(wrong)


def test_a_row_that_is_no_mapping_is_named() -> None:
    rows: Any = [ROWS[0], ("a", "b")]
    with raises(InputError, "no_mapping"):
        consolidate_messages_to_markdown(rows)


def test_an_absent_column_is_named() -> None:
    with raises(InputError, "absent_column"):
        consolidate_messages_to_markdown(pl.DataFrame({"timestamp": ["now"], "body": ["x"]}))


def test_the_table_is_left_as_it_was() -> None:
    frame = pl.DataFrame(ROWS)
    before = frame.clone()
    consolidate_messages_to_markdown(frame)
    assert frame.equals(before)
