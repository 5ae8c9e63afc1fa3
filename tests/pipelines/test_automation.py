"""What the sensor and the schedule request, tick by tick, on a real workspace."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.defs_state.base import set_defs_state_storage

from assets.tables import name_workspace
from assets.tags import AUTOMATIC, RANGE_END, RANGE_START, tag_range
from backstory.ingest.sources.listing import SYNC_SECONDS, find_next_sync
from backstory.ingest.sources.remotes import last_update
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.history.history import BY_DAGSTER
from backstory.pipeline.incremental.visible_documents import find_outdated
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import execute_run, run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.partitions import partition_range
from backstory.storage.turns import running
from pipelines.automation import JOB, UNFINISHED, make_sensor
from pipelines.definitions import define
from pipelines.instance import open_instance
from tests.workspaces import SETTINGS, copy_made, find_file, write_workspace

pytestmark = pytest.mark.usefixtures("own_state_storage", "prepared_home")

ALONE = SETTINGS.replace("overlap: 2", "overlap: 0")

Range = tuple[str | None, str | None]

ALL: list[Range] = [("2025-03-13", "2025-03-15")]
DOCUMENTS: list[Range] = [(None, None)]


@dataclass
class Sensor:
    """Ticks of the sensor, each with the cursor of the one before."""

    workspace: Workspace
    cursor: str | None = None
    now: float | None = None
    instance: dg.DagsterInstance = field(default_factory=dg.DagsterInstance.ephemeral)

    @cached_property
    def definitions(self) -> dg.Definitions:
        """The definitions of the workspace, loaded once, as a code location does."""
        definitions = define(self.workspace)
        with set_defs_state_storage(
            None
        ):  # Dagster resolves definitions in the latest instance, which may be gone
            definitions.get_repository_def()
        return definitions

    def tick(self) -> list[Range]:
        """Evaluate a tick, and give the ranges that it requests; (None, None) is the documents alone."""
        definitions = self.definitions
        context = dg.build_sensor_context(self.instance, cursor=self.cursor, definitions=definitions)
        if self.now is None:
            sensor = definitions.resolve_sensor_def("changed_files")
        else:
            sensor = make_sensor(self.workspace, lambda: self.now or 0)
        evaluated = sensor.evaluate_tick(context)
        self.cursor = evaluated.cursor or self.cursor
        return [
            (request.tags.get(RANGE_START), request.tags.get(RANGE_END))
            for request in evaluated.run_requests or []
        ]


def tick_schedule(workspace: Workspace, day: datetime) -> list[Range]:
    with open_instance(workspace) as instance:
        schedule = define(workspace).resolve_schedule_def("materialize_recent")
        context = dg.build_schedule_context(instance, scheduled_execution_time=day)
        requests = schedule.evaluate_tick(context).run_requests or []
    return [(request.tags.get(RANGE_START), request.tags.get(RANGE_END)) for request in requests]


def run(workspace: Workspace, ranges: list[Range]) -> None:
    """Do what the requested runs do."""
    for first, last in ranges:
        assert first is not None
        assert last is not None
        wanted = Run(partition_range(first, last, "day"), by=BY_DAGSTER, keeps_contexts=True)
        assert execute_run(open_workspace(workspace.root), wanted).success


@pytest.fixture
def made(made_workspace: Workspace) -> Workspace:
    return made_workspace


@pytest.fixture(scope="module")
def alone_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small workspace, whose windows do not overlap, after its first run, which no test changes."""
    workspace = write_workspace(tmp_path_factory.mktemp("alone") / "workspace", ALONE)
    run(workspace, ALL)
    return workspace.root


@pytest.fixture
def alone(alone_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(alone_once, tmp_path / "alone")


def change_settings(workspace: Workspace, settings: str) -> None:
    (workspace.root / "backstory.yaml").write_text(settings, encoding="utf-8")


def append(workspace: Workspace, line: str) -> None:
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as chat:
        chat.write(f"{line}\n")


def edit_a_post(workspace: Workspace) -> None:
    with (workspace.documents_dir / "unrelated.md").open("a", encoding="utf-8") as post:
        post.write("\nMore.\n")


def test_the_unfinished_states_are_those_of_the_release() -> None:
    assert set(UNFINISHED) == set(NOT_FINISHED_STATUSES)


def test_the_sensor_requests_the_documents_every_hour_where_a_source_lies_elsewhere(
    alone: Workspace, tmp_path: Path
) -> None:
    assert find_next_sync(alone) is None
    far = tmp_path / "far"
    far.mkdir()
    (far / "far.md").write_text("# Far\n\nA page from elsewhere.\n")
    change_settings(alone, f"{ALONE}documents: {{sources: [{{url: 'file://{far}', name: far}}]}}\n")
    sensor = Sensor(open_workspace(alone.root), now=1e9)
    assert sensor.tick()
    run_pipeline(open_workspace(alone.root), ["2025-03-13", "2025-03-14", "2025-03-15"])
    sensor.now = tried = last_update(sensor.workspace.mirrors / "far")
    assert sensor.tick() == ALL
    assert sensor.tick() == []
    sensor.now = tried + SYNC_SECONDS - 1
    assert sensor.tick() == []
    sensor.now = tried + SYNC_SECONDS + 1
    assert sensor.tick() == DOCUMENTS
    sensor.now += 60  # that run is not over yet, or fails before it fetches
    assert sensor.tick() == []
    sensor.now += SYNC_SECONDS
    assert sensor.tick() == DOCUMENTS


def test_the_sensor_requests_a_run_after_a_change_and_once(workspace: Workspace) -> None:
    sensor = Sensor(workspace)
    assert sensor.tick() == ALL
    assert sensor.tick() == []
    run(workspace, ALL)
    assert sensor.tick() == []
    os.utime(workspace.chats_dir / "garden.txt", (1, 1))
    assert sensor.tick() == []
    append(workspace, "14/03/2025, 22:00 - Ada Lind: A late one")
    assert sensor.tick() == ALL
    run(workspace, ALL)
    assert sensor.tick() == []
    assert "A late one" in workspace.tables.read("messages", ["2025-03-14"])["text"].to_list()
    assert Sensor(workspace).tick() == []


def test_the_sensor_notices_a_folder_of_slack_and_a_mailbox_and_what_comes_to_each(alone: Workspace) -> None:
    sensor = Sensor(open_workspace(alone.root))
    assert sensor.tick() == []
    chats = alone.chats_dir

    def write_day(text: str) -> None:
        said = [{"type": "message", "user": "U1", "ts": "1741350000.000100", "text": text}]
        (chats / "team" / "general" / "2025-03-07.json").write_text(json.dumps(said), encoding="utf-8")

    (chats / "team" / "general").mkdir(parents=True)
    (chats / "team" / "users.json").write_text('[{"id": "U1", "name": "ada", "real_name": "Ada Lind"}]')
    (chats / "team" / "channels.json").write_text('[{"id": "C1", "name": "general", "members": ["U1"]}]')
    write_day("The pump is loud.")
    assert sensor.tick() == [("2025-03-07", "2025-03-15")]
    write_day("The pump is quiet again.")
    assert sensor.tick() == [("2025-03-07", "2025-03-15")]
    with (chats / "inbox.mbox").open("a", encoding="utf-8") as mailbox:
        mailbox.write(
            "From ada@example.org Sat Mar  1 10:00:00 2025\nFrom: Ada <ada@example.org>\n"
            "To: ben@example.org\nSubject: Pump\nMessage-ID: <1@example.org>\n"
            "Date: Sat, 01 Mar 2025 10:00:00 +0000\n\nThe pump came.\n\n"
        )
    ranges = sensor.tick()
    assert ranges == [("2025-03-01", "2025-03-15")]
    run(alone, ranges)
    assert sensor.tick() == []


def test_days_that_were_missed_for_whatever_reason_are_found_without_a_cursor(made: Workspace) -> None:
    for day in range(20, 25):
        append(made, f"{day}/03/2025, 22:00 - Ada Lind: A frost on day {day}")
    everything: list[Range] = [("2025-03-13", "2025-03-24")]
    assert Sensor(made).tick() == everything
    assert tick_schedule(made, datetime(2025, 3, 25, 3, tzinfo=UTC)) == everything
    run(made, everything)
    assert Sensor(made).tick() == []


def test_after_a_run_that_fails_the_next_is_requested_when_inputs_have_changed(made: Workspace) -> None:
    sensor = Sensor(made)
    append(made, "15/03/2025, 22:00 - Ada Lind: A late one")
    assert sensor.tick() == ALL
    # The run builds a part, and fails.
    run_pipeline(open_workspace(made.root), ["2025-03-13"])
    assert [sensor.tick(), sensor.tick()] == [[], []]
    assert tick_schedule(made, datetime(2025, 3, 16, 3, tzinfo=UTC)) == ALL
    append(made, "15/03/2025, 22:01 - Ada Lind: And another")
    assert sensor.tick() == ALL


def test_a_damaged_partition_is_requested_although_no_input_has_changed(alone: Workspace) -> None:
    sensor = Sensor(alone)
    assert sensor.tick() == []
    find_file(alone.root, "windows", "2025-03-13").write_bytes(b"PAR1")
    assert sensor.tick() == ALL
    run(alone, ALL)
    assert sensor.tick() == []
    find_file(alone.root, "window_contexts", "2025-03-15").unlink()
    assert sensor.tick() == ALL


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        ("none", ["2025-03-13", "2025-03-15"]),
        ("recent", ["2025-03-13"]),
        pytest.param("all", [], marks=pytest.mark.long),
    ],
)
def test_after_a_changed_post_the_days_of_the_policy_are_searched_again(
    alone: Workspace, policy: str, kept: list[str]
) -> None:
    partitions = f"partitions: {{start: 2025-03-01, look_back: 0, after_posts: {policy}}}"
    change_settings(alone, ALONE.replace("partitions: {start: 2025-03-01}", partitions))
    workspace = open_workspace(alone.root)
    edit_a_post(workspace)
    sensor = Sensor(workspace)
    assert sensor.tick() == ALL
    run(workspace, ALL)
    assert sensor.tick() == []
    assert find_outdated(workspace) == kept
    [told] = [one for one in examine(workspace.root) if one.name == "snapshot of contexts"]
    assert told.passed
    assert ("backstory run" in told.detail) == bool(kept)
    # A late message of a kept day reaches its contexts in the newest snapshot, and only that day.
    append(workspace, "13/03/2025, 22:00 - Ada Lind: A late one")
    assert sensor.tick() == ALL
    run(workspace, ALL)
    assert find_outdated(open_workspace(workspace.root)) == kept[1:]


def test_a_changed_setting_is_a_change(alone: Workspace) -> None:
    sensor = Sensor(alone)
    assert sensor.tick() == []
    change_settings(alone, ALONE.replace("top_k: 3", "top_k: 1"))
    assert sensor.tick() == ALL
    run(alone, ALL)
    assert sensor.tick() == []


def test_archived_messages_are_no_change_and_a_late_export_of_an_old_day_is(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(SETTINGS.replace("{folder: chats}", "{folder: chats, removals: keep}"))
    run(workspace, ALL)
    sensor = Sensor(workspace)
    assert sensor.tick() == []
    export = workspace.chats_dir / "garden.txt"
    export.write_text(
        "".join(export.read_text(encoding="utf-8").splitlines(keepends=True)[-3:]), encoding="utf-8"
    )
    run(workspace, sensor.tick())
    assert len(workspace.tables.read("messages")) == 12
    assert sensor.tick() == []
    (workspace.chats_dir / "trains.txt").write_text("14/03/2025, 08:00 - Ada Lind: Seats\n", encoding="utf-8")
    assert sensor.tick() == ALL
    run(workspace, ALL)
    assert len(workspace.tables.read("window_contexts", ["2025-03-14"])) == 1
    assert sensor.tick() == []


def test_an_export_without_a_new_message_is_read_once_so_that_the_table_of_files_knows_it(
    alone: Workspace,
) -> None:
    sensor = Sensor(alone)
    assert sensor.tick() == []
    (alone.chats_dir / "empty.txt").write_text("", encoding="utf-8")
    assert sensor.tick() == ALL
    assert sensor.tick() == []
    run(alone, ALL)
    assert sensor.tick() == []
    assert "empty.txt" in " ".join(alone.tables.read("sources")["source"])


def test_nothing_is_requested_while_a_run_is_queued_or_executing(workspace: Workspace) -> None:
    sensor = Sensor(workspace)
    assert sensor.tick() == ALL
    job = sensor.definitions.resolve_job_def(JOB)
    own = {AUTOMATIC: name_workspace(workspace), **tag_range("2025-03-13", "2025-03-15")}
    queued = sensor.instance.create_run_for_job(job, tags=own)
    append(workspace, "13/03/2025, 22:00 - Ada Lind: A late one")
    assert sensor.tick() == []
    # One that a person has terminated is not requested again for the same inputs; here, they have changed.
    sensor.instance.report_run_canceled(queued)
    with running(workspace.catalog.state, "another run"):
        assert sensor.tick() == []
    assert sensor.tick() == ALL
    assert sensor.tick() == []


def test_days_that_have_not_ended_wait(made: Workspace) -> None:
    sensor = Sensor(made)
    append(made, f"{datetime.now(UTC):%d/%m/%Y, %H:%M} - Ada Lind: Today")
    outliers = "{start: 2025-03-01, allow_timestamp_outliers: true}"
    change_settings(made, SETTINGS.replace("{start: 2025-03-01}", outliers))
    [(first, last)] = sensor.tick()
    assert first == "2025-03-13"
    assert last is not None
    assert last < f"{datetime.now(UTC):%Y-%m-%d}"


def test_a_tick_without_a_change_reads_each_export_once(alone: Workspace) -> None:
    sensor = Sensor(alone)
    for _ in range(2):
        assert sensor.tick() == []
    opened: list[str] = []
    watched = [opened]

    def note(event: str, given: tuple[object, ...]) -> None:
        if watched and event == "open" and str(given[0]).endswith("garden.txt"):
            watched[0].append(str(given[0]))

    sys.addaudithook(note)  # which stays for as long as the process
    try:
        assert sensor.tick() == []
    finally:
        watched.clear()
    assert len(opened) == 1


@pytest.mark.parametrize("has_folder", [False, True])
def test_a_workspace_without_chats_requests_its_documents(
    make_workspace: Callable[..., Workspace], has_folder: bool
) -> None:
    workspace = make_workspace(ALONE)
    (workspace.chats_dir / "garden.txt").unlink()
    workspace.chats_dir.rmdir()
    if has_folder:
        workspace.chats_dir.mkdir()
    sensor = Sensor(open_workspace(workspace.root))
    assert sensor.tick() == DOCUMENTS
    run_pipeline(open_workspace(workspace.root), [])
    assert sensor.tick() == []
    assert Sensor(open_workspace(workspace.root)).tick() == []


def test_posts_that_a_run_wrote_are_no_news_and_an_edited_one_reaches_later_days(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(f'{ALONE}writers: {{provider: digest, feedback: "on"}}\n')
    sensor = Sensor(workspace)
    assert sensor.tick() == ALL
    run(workspace, ALL)
    assert sensor.tick() == []
    assert Sensor(workspace).tick() == []
    first = min(workspace.posts_dir.glob("2025-03-13*.md"))
    text = first.read_text(encoding="utf-8")
    first.write_text(f"{text}\nA train reservation to Lisbon, said a person.\n", encoding="utf-8")
    assert sensor.tick() == ALL
    run(workspace, ALL)
    assert sensor.tick() == []
    shown = workspace.tables.read("contexts", ["2025-03-15"])
    assert first.stem in set(shown["slug"])
