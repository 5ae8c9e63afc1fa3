"""Which window is meant, and how much of an id names it."""

import re
from datetime import date

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.base.errors import InputError
from backstory.operations.inspection.windows import find_window, list_windows, shorten_ids
from backstory.pipeline.workspace import Workspace
from tests.errors import raises
from tests.workspaces import replace_recorded


@pytest.fixture
def made(made_workspace: Workspace) -> Workspace:
    """Two windows on the 13th and one on the 15th."""
    return made_workspace


def rename_windows(workspace: Workspace, names: dict[str, list[str]]) -> None:
    for day, window_ids in names.items():
        table = workspace.tables.read("windows", [day]).with_columns(window_id=pl.Series(window_ids))
        replace_recorded(workspace, "windows", day, table)


def test_the_latest_window_is_the_one_that_began_last(made: Workspace) -> None:
    windows = made.tables.read("windows")
    assert find_window(made, "latest")["started_at"] == windows["started_at"].max()


def test_a_day_names_its_only_window(made: Workspace) -> None:
    assert find_window(made, "2025-03-15")["partition"] == "2025-03-15"


def test_a_day_of_several_windows_lists_them_with_ids_that_can_be_pasted(made: Workspace) -> None:
    with raises(InputError, "ambiguous_reference") as error:
        find_window(made, "2025-03-13")
    listed = re.findall(
        r"(\w+) \(2025-03-13 \d\d:\d\d to \d\d:\d\d UTC, (\d+) messages of garden\)", str(error.value)
    )
    assert str(error.value).rpartition("; ")[2].count("messages of garden") == 2, (
        "a tool tells the rest as its hint"
    )
    found = [find_window(made, window_id) for window_id, _ in listed]
    assert [window["partition"] for window in found] == ["2025-03-13"] * 2
    assert [str(window["message_count"]) for window in found] == [count for _, count in listed]


@pytest.mark.parametrize(
    ("reference", "code", "named"),
    [
        ("2025-03-14", "no_window", [date(2025, 3, 13), date(2025, 3, 15)]),
        ("2025-03-12", "no_window", [date(2025, 3, 13)]),
        ("2026-01-01", "no_window", [date(2025, 3, 15)]),
        ("2025-02-30", "unknown_window", []),
        ("zz", "unknown_window", []),
        ("", "unknown_window", []),
    ],
)
def test_a_reference_to_nothing_says_what_there_is(
    made: Workspace, reference: str, code: str, named: list[object]
) -> None:
    with raises(InputError, code, *named):
        find_window(made, reference)


def test_a_workspace_without_windows_says_how_to_make_them(workspace: Workspace) -> None:
    with raises(InputError, "no_windows"):
        find_window(workspace, "latest")


def test_an_ambiguous_beginning_lists_what_it_may_mean(made: Workspace) -> None:
    rename_windows(made, {"2025-03-13": ["0123456789ab", "0123456789cd"], "2025-03-15": ["ffff"]})
    with raises(InputError, "ambiguous_reference"):
        find_window(made, "01234")
    assert [row["short_id"] for row in list_windows(made)] == ["0123456789a", "0123456789c", "ffff"]


def test_a_whole_id_names_its_window_although_another_begins_with_it(made: Workspace) -> None:
    rename_windows(made, {"2025-03-13": ["window-1", "window-10"], "2025-03-15": ["window-2"]})
    assert find_window(made, "window-1")["window_id"] == "window-1"


def test_short_ids_name_windows_of_the_whole_workspace_not_of_the_range(made: Workspace) -> None:
    rename_windows(made, {"2025-03-13": ["0123456789ab", "1"], "2025-03-15": ["0123456789cd"]})
    [latest] = list_windows(made, first=date(2025, 3, 15))
    assert latest["short_id"] == "0123456789c"


@given(st.lists(st.text("ab", min_size=1, max_size=20), unique=True))
def test_short_ids_are_the_shortest_of_eight_characters_or_more_that_differ(window_ids: list[str]) -> None:
    short = shorten_ids(pl.Series(window_ids, dtype=pl.String)).to_list()
    length = max(map(len, short), default=0)
    assert all(whole.startswith(beginning) for whole, beginning in zip(window_ids, short, strict=True))
    assert len(set(short)) == len(short)
    if length > 8:
        assert len({whole[: length - 1] for whole in window_ids}) < len(window_ids)
