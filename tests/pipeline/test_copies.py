"""What leaves the tables leaves every other file in the same run, or the run names the file that holds it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.snapshot import current_version
from backstory.interfaces.library.library import Library
from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.interfaces.pages.site.build import build_site
from backstory.models.reranker import Topic
from backstory.operations.inspection.doctor import examine
from backstory.operations.inspection.inventory import read_status
from backstory.pipeline.chats.copies import find_stale_copies
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.conversations import ConversationStore, list_shown
from backstory.storage.tables.schemas import TABLES
from tests.interfaces.cli.invocation import run as run_command
from tests.models.rerankers.rerank_requests import RATED
from tests.operations.forgetting.leftovers import find_files_with
from tests.workspaces import SETTINGS, copy_made, write_workspace

MOTHS = """\
14/03/2025, 09:00 - Dora Quill: Only the moths were awake
14/03/2025, 09:05 - Ada Lind: A lamp for the moths, then, dear @Dora Quill
"""
GONE = "Only the moths were awake"
FED_BACK = f'{SETTINGS}writers: {{provider: digest, feedback: "on"}}\n'
PERSON = "of-a-person.md"


@pytest.fixture(scope="module")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which posts quote a message, and are documents of later windows, which no test changes."""
    workspace = write_workspace(tmp_path_factory.mktemp("copies") / "workspace", FED_BACK)
    (workspace.chats_dir / "moths.txt").write_text(MOTHS, encoding="utf-8")
    run_pipeline(workspace)
    assert GONE in str(workspace.tables.read("posts")["text"].to_list())
    return workspace.root


@pytest.fixture
def made(made_before: Path, tmp_path: Path) -> Workspace:
    return copy_made(made_before, tmp_path / "workspace")


def shorter(workspace: Workspace) -> list[str]:
    (workspace.chats_dir / "moths.txt").write_text(MOTHS.splitlines()[1] + "\n", encoding="utf-8")
    return ["run", "--accept-removals"]


def mirrored(workspace: Workspace) -> list[str]:
    shorter(workspace)
    mirror = FED_BACK.replace("{folder: chats}", "{folder: chats, removals: mirror}")
    (workspace.root / "backstory.yaml").write_text(mirror, encoding="utf-8")
    return ["run"]


def excluded(workspace: Workspace) -> list[str]:
    (workspace.root / "backstory.yaml").write_text(
        f"{FED_BACK}privacy: {{exclude: [Dora Quill]}}\n", encoding="utf-8"
    )
    return ["run"]


def opted_out(workspace: Workspace) -> list[str]:
    command = "14/03/2025, 09:06 - Dora Quill: #backstory off\n"
    (workspace.chats_dir / "moths.txt").write_text(MOTHS + command, encoding="utf-8")
    return ["run"]


def edited(workspace: Workspace) -> list[str]:
    changed = MOTHS.replace(GONE, "This message was deleted")
    (workspace.chats_dir / "moths.txt").write_text(changed, encoding="utf-8")
    return ["run"]


def forgotten(_: Workspace) -> list[str]:
    return ["forget", "--member", "Dora Quill"]


Way = Callable[[Workspace], list[str]]
QUICK = (shorter, excluded, forgotten)
WAYS = tuple(
    pytest.param(way, id=way.__name__, marks=() if way in QUICK else pytest.mark.long)
    for way in (shorter, mirrored, excluded, opted_out, edited, forgotten)
)


def list_holding(workspace: Workspace, text: str) -> set[str]:
    """Search every file of the workspace but its inputs, byte by byte, and every cell of tables."""
    return find_files_with(open_workspace(workspace.root), [text])


@dataclass(frozen=True)
class Copies:
    """Copies of a workspace's rows that lie where a person chose."""

    page: Path
    site: Path

    @property
    def all(self) -> tuple[Path, Path]:
        return self.page, self.site


def copy_everywhere(workspace: Workspace, text: str, elsewhere: Path) -> Copies:
    """Make every kind of copy of a text: pages, a dumped text, a draft, a file of a person, answers of a model."""
    windows = workspace.tables.read("windows")["window_id"].to_list()
    holding = [write_window_page(workspace, window) for window in windows]
    page = next(
        write_window_page(workspace, window, elsewhere / "pages" / "one.html")
        for window, path in zip(windows, holding, strict=True)
        if text in path.read_text(encoding="utf-8")
    )
    build_site(workspace)
    build_site(workspace, elsewhere / "public")
    workspace.dumps.mkdir()
    written = pl.col("text").str.contains(text, literal=True) & pl.col("uri").str.starts_with(WRITTEN_PREFIX)
    quoting = workspace.tables.read("documents").filter(written)["uri"][0]
    with Library.open(workspace.root) as library:
        library.dump(quoting, workspace.dumps / "one.md")
        library.dump("backup-disk.md", workspace.dumps / "two.md")
    assert text in (workspace.dumps / "one.md").read_text(encoding="utf-8")
    (workspace.posts_dir / "2025-03-14-some.draft.md").write_text(text, encoding="utf-8")
    judged = replace(RATED, topics=(Topic(text, ()), *RATED.topics[1:]))
    workspace.judgements.put({"of-a-window-that-is-gone": ("asked", judged)})
    return Copies(page, elsewhere / "public")


def of_tables(workspace: Workspace) -> dict[str, pl.DataFrame]:
    """Read all tables, but the version of the interim snapshot that was searched."""
    return {table: workspace.tables.read(table).drop("index_version", strict=False) for table in TABLES}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_removed_is_in_no_file_or_the_file_is_named(
    made: Workspace, tmp_path: Path, way: Way
) -> None:
    copies = copy_everywhere(made, GONE, tmp_path / "elsewhere")
    command, *options = way(made)
    result = run_command(command, *options, "-w", str(made.root))
    assert result.exit_code in (0, 3), result.output
    assert list_holding(made, GONE) == set()
    assert made.judgements.count() == 0
    assert not list((made.root / "reports").iterdir())
    assert (made.dumps / "two.md").is_file()
    for path in copies.all:
        assert str(path) in result.output
        assert path.exists()


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS[:-1])
def test_the_run_after_has_nothing_to_do_and_is_as_a_fresh_one(
    made: Workspace, tmp_path: Path, way: Way
) -> None:
    build_site(made)
    run_command(*way(made), "-w", str(made.root))
    again = run_command("run", "-w", str(made.root))
    assert "Nothing has changed since the last run" in again.output
    fresh = tmp_path / "fresh"
    for part in ("chats", "posts"):
        shutil.copytree(made.root / part, fresh / part)
    shutil.copy(made.root / "backstory.yaml", fresh)
    (fresh / ".backstory").mkdir()
    shutil.copy(made.secret, fresh / ".backstory")
    run_pipeline(open_workspace(fresh))
    now, then = of_tables(made), of_tables(open_workspace(fresh))
    assert [table for table in TABLES if not now[table].equals(then[table])] == []


@pytest.mark.parametrize(
    "way", [pytest.param(excluded, marks=pytest.mark.long) if excluded in way.values else way for way in WAYS]
)
def test_what_is_removed_leaves_the_conversations_of_people(made: Workspace, way: Way) -> None:
    store = ConversationStore(made.state)
    with Library.open(made.root) as library:
        quoting, other = library.answer("Were only the moths awake?"), library.answer("thanks!")
    assert GONE in quoting.model_dump_json()
    ids = []
    for question, answer in (
        ("Who was awake?", quoting),
        (f"Is it true: {GONE}?", other),
        ("thanks!", other),
    ):
        ids.append(store.begin("somebody", question, 1.0))
        values = answer.to_dict()
        store.add_turn(ids[-1], "somebody", question, values, list_shown(values), 1.0)
    state = list((made.root / ".backstory").glob("state.sqlite*"))
    assert any(GONE.encode() in path.read_bytes() for path in state)
    assert run_command(*way(made), "-w", str(made.root)).exit_code == 0
    assert ".backstory/state.sqlite" not in list_holding(made, GONE)
    kept = [
        (turn.question, turn.answer is None)
        for each in ids
        for turn in store.read_turns(each, "somebody") or []
    ]
    assert kept == [("Who was awake?", True), ("", True), ("thanks!", False)]


def test_stale_copies_are_named_until_they_are_made_again_or_gone(made: Workspace, tmp_path: Path) -> None:
    copies = copy_everywhere(made, GONE, tmp_path)
    person = made.posts_dir / PERSON
    person.write_text(f"---\ntitle: Mine\ndate: 2025-03-01\n---\n\n{GONE}\n", encoding="utf-8")
    assert find_stale_copies(made) == []
    told = run_command(*excluded(made), "-w", str(made.root)).output
    assert f"written/{PERSON}" in told
    workspace = open_workspace(made.root)
    stale = find_stale_copies(workspace)
    assert len(stale) == 3
    assert read_status(workspace).stale_copies == stale
    for examinations in (examine(made.root, deep=True), examine(made.root)):
        [found] = [examination for examination in examinations if examination.name == "copies"]
        assert not found.passed
        assert all(sentence in found.detail for sentence in stale)
    copies.page.unlink()
    person.write_text(person.read_text(encoding="utf-8").replace(GONE, "They were asleep"), encoding="utf-8")
    run_command("run", "-w", str(made.root))
    assert len(find_stale_copies(workspace)) == 1
    build_site(workspace, copies.site)
    assert find_stale_copies(workspace) == []
    assert not any(GONE in page.read_text(encoding="utf-8") for page in copies.site.rglob("*.html"))


def test_a_deleted_document_leaves_pages_and_its_dumped_texts(made: Workspace, tmp_path: Path) -> None:
    text = "A clicking backup disk, and where the photos went."
    build_site(made)
    made.dumps.mkdir()
    with Library.open(made.root) as library:
        for place in (tmp_path / "dumped.txt", made.dumps / "disk.md"):
            library.dump("backup-disk.md", place)
    assert run_command(*shorter(made), "-w", str(made.root)).exit_code == 0
    assert find_stale_copies(made) == []
    (made.documents_dir / "backup-disk.md").unlink()
    result = run_command("run", "-w", str(made.root))
    assert result.exit_code == 0, result.output
    # The tables keep the last text of a deleted document, so that its history can be told.
    assert {path.split("/")[0] for path in list_holding(made, text)} <= {"data"}
    assert not list(made.root.glob("site/*.html"))
    assert not (made.dumps / "disk.md").exists()
    [named] = find_stale_copies(made)
    assert named.startswith(str(tmp_path / "dumped.txt"))
    assert named in result.output


def test_what_is_added_leaves_pages_as_they_are(made: Workspace) -> None:
    site = build_site(made).index
    page = write_window_page(made, made.tables.read("windows")["window_id"][0])
    with (made.chats_dir / "moths.txt").open("a", encoding="utf-8") as chat:
        chat.write("15/03/2025, 19:00 - Dora Quill: Good night, moths\n")
    run_command("run", "-w", str(made.root))
    assert site.is_file()
    assert page.is_file()


def test_no_earlier_snapshot_holds_a_post_as_it_was_before(made: Workspace) -> None:
    before = current_version(made.index)
    run_command(*excluded(made), "-w", str(made.root))
    assert before not in {path.name for path in made.index.iterdir()}
