"""When a run may say at once that nothing has changed."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.index.snapshot import current_version
from backstory.pipeline.run.plan import is_fresh, record_run
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.workspaces import find_file


@pytest.fixture
def fresh(made_workspace: Workspace) -> Workspace:
    record_run(made_workspace, find_partitions(made_workspace))
    return made_workspace


def is_up_to_date(workspace: Workspace) -> bool:
    reopened = open_workspace(workspace.root)
    return is_fresh(reopened, find_partitions(reopened))


def replace_letter(path: Path) -> None:
    """Change a file but neither its size nor its times."""
    before = path.stat()
    content = path.read_text(encoding="utf-8")
    path.write_text(content.replace("sourdough", "sourdoubh"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_an_unchanged_workspace_is_fresh(fresh: Workspace) -> None:
    assert is_up_to_date(fresh)


@pytest.mark.parametrize("file", ["posts/sourdough.md", "chats/garden.txt"])
def test_an_edit_that_keeps_size_and_time_is_seen(fresh: Workspace, file: str) -> None:
    replace_letter(fresh.root / file)
    assert not is_up_to_date(fresh)


CHANGES: dict[str, Callable[[Workspace], object]] = {
    "a post is added": lambda w: (w.documents_dir / "new.md").write_text("# New\n\ntext\n", encoding="utf-8"),
    "a post is renamed": lambda w: (w.documents_dir / "sourdough.md").rename(w.documents_dir / "bread.md"),
    "a post is deleted": lambda w: (w.documents_dir / "sourdough.md").unlink(),
    "a table's file is gone": lambda w: find_file(w.root, "hits", "2025-03-15").unlink(),
    "a setting changed": lambda w: (w.root / "backstory.yaml").write_text("rag: {top_k: 2}\n"),
    "a snapshot's file is gone": lambda w: (w.index / current_version(w.index) / "vectors.npy").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_is_seen(fresh: Workspace, change: Callable[[Workspace], object]) -> None:
    change(fresh)
    assert not is_up_to_date(fresh)


def test_a_damaged_snapshot_is_built_again(fresh: Workspace) -> None:
    (fresh.index / current_version(fresh.index) / "vectors.npy").unlink()
    reports = {report.table: report for report in run_pipeline(open_workspace(fresh.root))}
    assert reports["search_index"].computed == 1
    assert is_up_to_date(fresh)
