"""``python -m pipelines``: exit codes, repetition, what it prints, and what a process of it leaves behind."""

import logging
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import dagster as dg
import polars as pl
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from backstory.base.errors import SettingsError
from backstory.interfaces.dagster_specs.asset_specs import partitions_definition
from backstory.pipeline.checks.checks import CHECKS
from backstory.pipeline.run.plan import STAGES, find_wanted
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.models import PartitionSettings
from pipelines.__main__ import main
from pipelines.instance import open_instance
from tests.pipelines.test_days import DAYS, make_alone
from tests.workspaces import copy_made, find_file, replace_recorded, run_job, write_workspace

ROOT = Path(__file__).resolve().parents[2]
Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    """Give a function that runs a command in this process, up to its exit."""
    log = logging.getLogger("backstory")
    level, handlers = log.level, list(log.handlers)

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        monkeypatch.setattr("sys.argv", ["pipelines", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed, errors = (" ".join(text.split()) for text in capsys.readouterr())
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), printed, errors)

    yield run
    log.setLevel(level)
    log.handlers[:] = handlers


@dataclass(frozen=True)
class Process:
    """A process of ``backstory dagster materialize`` that has ended, its workspace and its home."""

    result: "subprocess.CompletedProcess[str]"
    workspace: Workspace
    home: Path


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Process:
    """Make every table of a workspace, which no test changes, in a process."""
    workspace = write_workspace(tmp_path_factory.mktemp("command") / "workspace")
    home = tmp_path_factory.mktemp("home")
    inherited = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    folders = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "pipelines", "materialize", "-w", str(workspace.root)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**inherited, "COLUMNS": "200", **folders},
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return Process(result, workspace, home)


@pytest.fixture
def made(process: Process, tmp_path: Path) -> Workspace:
    return copy_made(process.workspace.root, tmp_path / "made")


def test_materialize_makes_every_table_and_a_second_run_none(
    process: Process, made: Workspace, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [line.partition(":")[0] for line in process.result.stdout.splitlines()]
    assert told[:4] == [
        "Documents",
        "Messages",
        "Windows",
        "Newer than every window, so that none is given them",
    ]
    with open_instance(process.workspace) as instance:
        [run] = instance.get_runs()
        logged = [
            record.event_log_entry.user_message for record in instance.get_records_for_run(run.run_id).records
        ]
    # Dagster's log has the same record in the same words.
    [same] = [text for text in logged if text.startswith("Documents: ")]
    assert same.splitlines() == process.result.stdout.splitlines()[:4]
    assert made.tables.keys("window_contexts") == ["2025-03-13", "2025-03-15"]
    monkeypatch.setenv("BACKSTORY_WORKSPACE", str(made.root))
    second = call("materialize")
    assert second.returncode == 0
    assert "Nothing has changed" in second.stdout


def test_every_day_with_messages_is_told_to_dagster_and_every_check_once(process: Process) -> None:
    # What Dagster says when a batch of events could not be stored.
    assert "Falling back" not in process.result.stderr
    with open_instance(process.workspace) as instance:
        [run] = instance.get_runs()
        assert run.status is dg.DagsterRunStatus.SUCCESS
        days = {"2025-03-13", "2025-03-15"}
        assert instance.get_materialized_partitions(dg.AssetKey("posts")) == set()  # no writer is set
        for stage in (stage for stage in STAGES if stage.table != "posts"):
            key = dg.AssetKey(stage.table)
            assert instance.get_materialized_partitions(key) == (days if stage.partitioned else set())
            latest = instance.get_latest_materialization_event(key)
            assert latest is not None
            assert latest.run_id == run.run_id
        events = Counter(
            record.event_log_entry.dagster_event_type
            for record in instance.get_records_for_run(run.run_id).records
        )
        assert events[dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED] == len(STAGES) + 2
        assert events[dg.DagsterEventType.ASSET_CHECK_EVALUATION] == len(CHECKS)
        storage = instance.event_log_storage
        for check in CHECKS:
            [record] = storage.get_asset_check_execution_history(
                dg.AssetCheckKey(dg.AssetKey(check.table), check.name), limit=9
            )
            assert record.status is not AssetCheckExecutionRecordStatus.PLANNED


def test_the_run_says_what_it_reads_before_dagster_is_loaded() -> None:
    code = "import pipelines.__main__, sys; print([name for name in ('dagster', 'polars') if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_blocking_check_stops_its_day_and_is_told_once(made: Workspace, call: Call) -> None:
    path = find_file(made.root, "messages", "2025-03-13")
    messages = pl.read_parquet(path)
    named = messages.head(1).with_columns(text=pl.lit("Ada Lind has tulips"))
    replace_recorded(made, "messages", "2025-03-13", pl.concat([named, messages[1:]]))
    for other in ("windows", "contexts"):
        find_file(made.root, other, "2025-03-15").unlink()
    result = call("materialize", "--workspace", str(made.root))
    assert result.returncode == 1
    assert result.stdout.count("failed: messages, check real_names: 1 found") == 1
    assert "(2025-03-13)" in result.stdout
    assert made.tables.keys("contexts") == ["2025-03-13", "2025-03-15"]


def test_nothing_but_cached_models_is_written_outside_the_workspace(process: Process) -> None:
    models = process.home / "cache" / "backstory" / "models"
    written = [path for path in process.home.rglob("*") if path.is_file()]
    assert [path for path in written if not path.is_relative_to(models)] == []
    assert (process.workspace.root / ".dagster").is_dir()


def test_a_failed_stage_is_told_and_exits_with_1(workspace: Workspace, call: Call) -> None:
    with (workspace.root / "backstory.yaml").open("a", encoding="utf-8") as settings:
        settings.write("chunks: {max_tokens: 16, overlap_tokens: 0}\n")
    title = "a very long title " * 6
    (workspace.documents_dir / "long.md").write_text(f"# {title}\n\ntext\n", encoding="utf-8")
    result = call("materialize", "-w", str(workspace.root))
    assert result.returncode == 1
    assert "shorten the title" in result.stdout + result.stderr
    assert workspace.tables.read("hits").is_empty()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("materialize", "--workspace", "/nowhere"), "backstory init"),
        (("materialize", "--from", "soon"), "YYYY-MM-DD"),
        (("materialise",), "No such command"),
    ],
)
def test_bad_usage_exits_with_2_and_says_what_to_do(
    call: Call, arguments: tuple[str, ...], words: str
) -> None:
    result = call(*arguments)
    assert result.returncode == 2
    assert words in result.stderr


@pytest.mark.parametrize(
    ("grain", "start", "begin"),
    [
        ("hour", "2025-03-14", "2025-03-14"),
        ("day", "2025-03-14", "2025-03-14"),
        ("day", "2026-01-01", None),
        ("hour", "2026-01-01", None),
        ("week", "2025-03-20", None),
        ("month", "2025-04-10", None),
    ],
)
def test_the_remedies_for_messages_before_the_first_day_work(
    make_workspace: Callable[..., Workspace], grain: str, start: str, begin: str | None
) -> None:
    settings = "partitions: {start: %s, grain: %s}\nembedding: {provider: hashing}\n"
    workspace = make_workspace(settings % (start, grain))
    wanted = find_wanted(workspace, None, None)

    with pytest.raises(SettingsError) as caught:
        run_job(workspace, wanted)

    day = re.findall(r"set it to (\S+) or earlier", str(caught.value))[0]
    moved = PartitionSettings.model_validate({"start": day, "grain": grain})
    assert str(partitions_definition(moved).get_first_partition_key()) <= wanted[0]
    named = re.findall(r"--from (\S+)", str(caught.value))
    assert named == ([begin] if begin else [])
    for other in named:
        offered = str(partitions_definition(workspace.settings.partitions).get_first_partition_key())
        assert find_wanted(workspace, date.fromisoformat(other), None)[0] >= offered


def test_the_ui_says_that_its_port_is_taken(workspace: Workspace, call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = call("ui", "--port", port, "-w", str(workspace.root))
    assert result.returncode == 2
    assert f"port {port} cannot be used" in result.stderr
    assert "Traceback" not in result.stderr


def test_removals_stop_a_dagster_run_until_they_are_accepted(made_workspace: Workspace) -> None:
    workspace = made_workspace
    export = workspace.chats_dir / "garden.txt"
    export.write_text(
        "".join(export.read_text(encoding="utf-8").splitlines(keepends=True)[-3:]), encoding="utf-8"
    )
    stopped = run_job(open_workspace(workspace.root), DAYS)
    assert [failure for failure in stopped.failures if "would remove 9 messages" in failure]
    assert len(workspace.tables.read("messages")) == 12
    with open_instance(workspace) as instance:
        make_alone(open_workspace(workspace.root, accept_removals=True), instance, "messages", DAYS)
    assert len(workspace.tables.read("messages")) == 3
