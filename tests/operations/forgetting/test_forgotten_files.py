"""What was forgotten stays out under another name of its file, and nothing else does."""

from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.operations.forgetting import forget
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.interfaces.cli.invocation import run as run_command
from tests.workspaces import CHAT, copy_made

MOTHS = "14/03/2025, 09:00 - Dora Quill: Only the moths were awake that night\n"
NEW = "16/03/2025, 10:00 - Ben Okri: A message that nobody has forgotten so far\n"


@pytest.fixture(scope="module")
def forgotten_once(made_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of which a conversation and a document were forgotten, and which no test changes."""
    workspace = copy_made(made_once, tmp_path_factory.mktemp("forgotten") / "workspace")
    (workspace.chats_dir / "moths.txt").write_text(MOTHS, encoding="utf-8")
    run_pipeline(workspace)
    forget(open_workspace(workspace.root), "conversation", "garden")
    forget(open_workspace(workspace.root), "document", "posts/backup-disk.md")
    return workspace.root


@pytest.fixture
def forgotten(forgotten_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(forgotten_once, tmp_path / "workspace")


def test_a_copy_of_a_forgotten_file_stays_out_and_says_so(forgotten: Workspace) -> None:
    root = forgotten.root
    (forgotten.chats_dir / "garden.txt").rename(forgotten.chats_dir / "allotment.txt")
    (forgotten.documents_dir / "backup-disk.md").rename(forgotten.documents_dir / "disks.md")
    assert "would be left out" in run_command("check", "-w", str(root)).output
    result = run_command("run", "-w", str(root))
    assert result.exit_code == 0, result.output
    assert set(forgotten.tables.read("messages")["conversation_id"]) == {"moths"}
    assert "disks.md" not in set(forgotten.tables.read("documents")["uri"])
    sources = forgotten.tables.read("sources").rows_by_key("source", named=True, unique=True)
    for source in ("chats/allotment.txt", "posts/disks.md"):
        assert (sources[source]["status"], sources[source]["rows"]) == ("ignored", 0)
        assert "backstory forget" in sources[source]["reason"]
    # A later forgetting does not take what is left out for what others hold.
    forget(open_workspace(root), "document", "posts/night-train.md")
    run_pipeline(open_workspace(root))
    assert set(forgotten.tables.read("messages")["conversation_id"]) == {"moths"}


def test_another_export_is_another_chat_under_another_name_only(forgotten: Workspace) -> None:
    for name in ("garden", "allotment"):
        (forgotten.chats_dir / f"{name}.txt").write_text(CHAT + NEW, encoding="utf-8")
    run_pipeline(open_workspace(forgotten.root))
    assert set(forgotten.tables.read("messages")["conversation_id"]) == {"moths", "allotment"}


def test_a_copy_that_was_there_before_stays(made_workspace: Workspace) -> None:
    file = made_workspace.documents_dir / "backup-disk.md"
    file.with_name("copy.md").write_bytes(file.read_bytes())
    run_pipeline(open_workspace(made_workspace.root))
    forget(open_workspace(made_workspace.root), "document", "posts/backup-disk.md")
    documents = made_workspace.tables.read("documents")
    assert documents.filter(uri="copy.md")["status"].to_list() == ["ok"]
