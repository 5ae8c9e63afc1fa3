"""A small workspace, and processes over it: what the tests of pipeline, pipelines and inspection start from."""

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.run.run import OnProgress, Run, ignore_progress
from backstory.pipeline.run.runner import execute_run
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.schema import CATALOG
from backstory.storage.state import close_idle
from backstory.storage.state_places import open_state
from backstory.storage.stores import Folder
from backstory.storage.tables.catalog import Catalog, Entry
from backstory.storage.tables.tables import WHOLE, Tables, encode_rows, name_file
from tests.started_python import StartedPython

SETTINGS = """\
conversations: {folder: chats}
partitions: {start: 2025-03-01}
windows: {unit: messages, size: 6, overlap: 2}
embedding: {provider: hashing}
rag: {top_k: 3}
"""

DIGEST = f"{SETTINGS}writers: {{provider: digest}}\n"

CHAT = """\
13/03/2025, 09:00 - Messages and calls are end-to-end encrypted.
13/03/2025, 09:01 - Ada Lind: The drip irrigation line broke again near the tomatoes
13/03/2025, 09:02 - Ben Okri: Did the frost crack the plastic elbow?
13/03/2025, 09:03 - Ada Lind: Yes, the elbow. @Ben Okri do you have a spare?
13/03/2025, 09:10 - Cleo Marsh: My backup disk makes a clicking noise
13/03/2025, 09:11 - Ben Okri: Copy the photos to another disk before anything else
13/03/2025, 09:12 - Cleo Marsh: <Media omitted>
13/03/2025, 09:20 - Ada Lind: The sourdough starter is sluggish
13/03/2025, 09:21 - Cleo Marsh: Feed the starter twice a day with flour
15/03/2025, 18:00 - Ben Okri: The night train to Lisbon needs a seat reservation
15/03/2025, 18:01 - Ada Lind: Book the train reservation early
15/03/2025, 18:05 - Cleo Marsh: And the sourdough bread came out flat
"""

POSTS = {
    "drip-irrigation.md": (
        "Drip irrigation",
        "2024-05-01",
        "How we laid the drip irrigation line and its plastic elbow.",
    ),
    "backup-disk.md": ("A backup disk", "2024-06-01", "A clicking backup disk, and where the photos went."),
    "sourdough.md": (
        "Sourdough starter",
        "2024-07-01",
        "Flour, water and a sluggish sourdough starter to feed.",
    ),
    "night-train.md": ("Night train", "2024-08-01", "A seat reservation on the night train to Lisbon."),
    "later.md": ("Sourdough again", "2025-06-01", "Sourdough bread and starter, written after the chat."),
    "unrelated.md": ("Moths", "2023-01-01", "A quiet evening with moths and a lamp."),
}


def write_workspace(root: Path, settings: str = SETTINGS) -> Workspace:
    """Write the small workspace into a folder that does not exist yet, and open it."""
    (root / "chats").mkdir(parents=True)
    (root / "posts").mkdir()
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    (root / "chats" / "garden.txt").write_text(CHAT, encoding="utf-8")
    for file, (title, date, text) in POSTS.items():
        front = f"---\ntitle: {title}\ndate: {date}\ntags: [{title.split()[0].lower()}]\n---\n"
        (root / "posts" / file).write_text(f"{front}\n# {title}\n\n{text}\n", encoding="utf-8")
    return open_workspace(root)


def replace_recorded(workspace: Workspace, table: str, key: str, frame: pl.DataFrame) -> None:
    """Put other rows in the place of a partition, as if its stage had made them, however wrong they are."""
    content, entry = encode_rows(frame), workspace.catalog.read(table)[key]
    entry = Entry(entry.inputs, hashlib.sha256(content).hexdigest()[:32], len(frame))
    workspace.tables.store.write(name_file(table, key, entry), content)
    workspace.catalog.record(table, {key: entry})


@pytest.fixture
def make_workspace(tmp_path: Path) -> Callable[..., Workspace]:
    """Give a function that writes the small workspace, with further settings, and opens it."""

    def make(settings: str = "", name: str = "workspace") -> Workspace:
        return write_workspace(tmp_path / name, settings or SETTINGS)

    return make


@pytest.fixture
def workspace(make_workspace: Callable[..., Workspace]) -> Workspace:
    return make_workspace()


def copy_made(made: Path, root: Path) -> Workspace:
    """Copy a workspace that was made, with views that name the files of the copy."""
    close_idle()  # so that no database has a log beside it
    shutil.copytree(made, root)
    workspace = open_workspace(root)
    workspace.publish_tables()
    return workspace


def find_file(root: Path, table: str, key: str = WHOLE) -> Path:
    """Return the file of a partition of a workspace."""
    return root / "data" / open_workspace(root).tables.list_files()[table][key]


def open_tables(folder: Path) -> Tables:
    """Open tables in a folder, without a workspace."""
    return Tables(Folder(folder), Catalog(open_state(folder, None, CATALOG)))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small workspace after its first run, which no test changes."""
    workspace = write_workspace(tmp_path_factory.mktemp("made-once") / "workspace")
    run_pipeline(workspace)
    return workspace.root


@pytest.fixture
def made_workspace(made_once: Path, tmp_path: Path) -> Workspace:
    """A copy of the small workspace after its first run."""
    return copy_made(made_once, tmp_path / "workspace")


@pytest.fixture(scope="session")
def told_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small workspace, with posts, after its first run in Dagster, and the history of it, which no test changes."""
    workspace = write_workspace(tmp_path_factory.mktemp("told-once") / "workspace", DIGEST)
    assert run_job(workspace, ["2025-03-13", "2025-03-14", "2025-03-15"]).failures == []
    return workspace.root


@pytest.fixture
def told(told_once: Path, tmp_path: Path) -> Workspace:
    """A copy of the small workspace after its first run in Dagster."""
    return copy_made(told_once, tmp_path / "told")


@pytest.fixture(scope="session")
def home_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Dagster home with empty databases, which no test changes: to create them takes longer than most tests."""
    from pipelines.instance import open_instance

    workspace = write_workspace(tmp_path_factory.mktemp("home-once") / "workspace")
    with open_instance(workspace):
        return workspace.dagster_home


@pytest.fixture
def prepared_home(home_once: Path, request: pytest.FixtureRequest) -> None:
    """Give a copy of the Dagster home to the workspace of a test."""
    for name in {"workspace", "made_workspace"} & set(request.fixturenames):
        shutil.copytree(home_once, request.getfixturevalue(name).dagster_home)


@pytest.fixture
def own_state_storage() -> Iterator[None]:
    """Leave no instance of Dagster behind that is gone, since definitions are resolved in the one entered last."""
    from dagster._core.storage.defs_state.base import set_defs_state_storage

    with set_defs_state_storage(None):
        yield


@pytest.fixture
def start_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Give a function that starts Python in a group of processes of its own; every group is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(
        words: Sequence[str], environment: Mapping[str, str], *, with_dagster: bool = False
    ) -> subprocess.Popen[str]:
        process = StartedPython(
            words,
            with_dagster=with_dagster,
            env=environment,
            cwd=Path(__file__).resolve().parents[1],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def build_table(workspace: Workspace, table: str, partitions: Sequence[str] = ()) -> StageResult:
    """Build one table, as a run does, without those before and after it."""
    stage = next(stage for stage in STAGES if stage.table == table)
    return stage(RunResources(workspace), partitions).build()


def is_stale(workspace: Workspace, table: str, partitions: Sequence[str] = ()) -> bool:
    """Return whether a run would build something of a table."""
    stage = next(stage for stage in STAGES if stage.table == table)
    return bool(stage.find_stale(workspace, partitions))


def run_workspace(
    workspace: Workspace,
    partitions: Sequence[str],
    on_progress: OnProgress = ignore_progress,
) -> Run:
    """Run the pipeline as ``backstory run`` does."""
    return execute_run(workspace, Run(partitions), on_progress, skips_unchanged=True)


def run_job(workspace: Workspace, partitions: Sequence[str]) -> Run:
    """Run the pipeline as a Dagster job in this process, also if nothing has changed."""
    from pipelines.materialization import execute_job

    return execute_job(workspace, Run(partitions), ignore_progress)
