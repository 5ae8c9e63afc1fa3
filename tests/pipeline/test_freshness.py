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


def replace_letter(path: Path) -> None:
    """Change a file but neither its size nor its times."""
    before = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("sourdough", "sourdoubh"), encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


CHANGES: dict[str, Callable[[Workspace], object]] = {
    "a post is edited": lambda w: replace_letter(w.documents_dir / "sourdough.md"),
    "a chat is edited": lambda w: replace_letter(w.chats_dir / "garden.txt"),
    "a post is added": lambda w: (w.documents_dir / "new.md").write_text("# New\n\ntext\n", encoding="utf-8"),
    "a post is renamed": lambda w: (w.documents_dir / "sourdough.md").rename(w.documents_dir / "bread.md"),
    "a post is deleted": lambda w: (w.documents_dir / "sourdough.md").unlink(),
    "a table's file is gone": lambda w: find_file(w.root, "hits", "2025-03-15").unlink(),
    "a setting changed": lambda w: (w.root / "backstory.yaml").write_text("rag: {top_k: 2}\n"),
    "a snapshot's file is gone": lambda w: (w.index / current_version(w.index) / "vectors.npy").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_change_is_seen_and_made_good_by_a_run(
    fresh: Workspace, change: Callable[[Workspace], object]
) -> None:
    for is_changed in (False, True):
        workspace = open_workspace(fresh.root)
        assert is_fresh(workspace, find_partitions(workspace)) != is_changed
        if is_changed:
            assert any(report.computed for report in run_pipeline(workspace))
        else:
            change(workspace)
