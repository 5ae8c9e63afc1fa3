"""A few messages that are more than a year from all others are asked about."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from backstory.base.errors import InputError
from backstory.pipeline.stages.messages import find_lone_messages, find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.workspaces import SETTINGS


def messages_on(*days: int) -> pl.DataFrame:
    moments = [datetime(2025, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in days]
    return pl.DataFrame({"timestamp": moments, "source": ["chat.txt"] * len(days)})


@pytest.mark.parametrize(
    ("days", "lone"),
    [
        ([*range(40), 5000], 1),
        ([-20_000, *range(40)], 1),
        ([-20_000, *range(40), 5000, 5001], 3),
        ([*range(40), 406], 1),
        ([*range(40), 405], 0),
        ([0, 400, 800], 0),
        ([*range(40), *range(1000, 1040)], 0),
    ],
)
def test_messages_far_from_all_others_are_found(days: list[int], lone: int) -> None:
    assert len(find_lone_messages(messages_on(*days))) == lone


def test_a_run_over_them_stops_and_names_file_and_date_until_they_are_admitted(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace()
    chat = workspace.chats_dir / "garden.txt"
    chat.write_text(
        chat.read_text(encoding="utf-8") + "13/02/2012, 10:00 - Ada Lind: soon\n", encoding="utf-8"
    )
    with raises(InputError, "timestamp_outliers", "allow_timestamp_outliers"):
        find_partitions(open_workspace(workspace.root))
    admitted = SETTINGS.replace("{start: 2025-03-01}", "{start: 2025-03-01, allow_timestamp_outliers: true}")
    (workspace.root / "backstory.yaml").write_text(admitted, encoding="utf-8")
    assert find_partitions(open_workspace(workspace.root))[0] == "2012-02-13"
