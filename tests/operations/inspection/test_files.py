"""What the doctor says of the model, and of files: never that all is well while one waits or could not be read."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.operations.inspection.doctor import examine
from backstory.operations.inspection.probes import Examination
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.schemas import Sources
from tests.workspaces import SETTINGS, replace_recorded, write_workspace


def examined(workspace: Workspace) -> dict[str, Examination]:
    return {examination.name: examination for examination in examine(workspace.root)}


def write(posts: Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        (posts / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def test_a_workspace_that_was_read_whole_is_well(workspace: Workspace) -> None:
    before = examined(workspace)
    assert not [name for name in before if name.startswith("file") or name == "documents"], (
        "nothing was read yet"
    )
    run_pipeline(workspace)
    found = examined(workspace)
    assert found["files in posts/"] == Examination("files in posts/", True, "in the last run: 6 read")
    assert found["documents"].detail.startswith("6 served; 1 document newer than every window")
    assert found["documents"].detail.endswith(": posts/later.md")
    assert found["table sources"].passed
    assert all(examination.passed for examination in found.values())


def test_files_that_could_not_be_read_are_listed_with_what_to_do(workspace: Workspace) -> None:
    write(
        workspace.documents_dir,
        {"a.md": "---\ndate: soon\n---\nText", "b.md": "", "c.mp3": b"ID3", ".d": "x"},
    )
    run_pipeline(workspace)
    found = examined(workspace)
    assert found["files in posts/"].detail.startswith(
        "in the last run: 6 read; 1 without text; 1 of a kind that is not read; 1 that could not be read; 1 left out "
        "by a rule; of a kind that is not read: posts/c.mp3"
    )
    assert "the field date is not a date" in found["file posts/a.md"].detail
    assert [name for name, examination in found.items() if not examination.passed] == [
        "files in posts/",
        "file posts/a.md",
    ]


def test_undated_documents_are_said(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace(SETTINGS.replace("{top_k: 3}", "{top_k: 3, undated: hide}"))
    write(workspace.documents_dir, {f"undated-{number}.md": "Text" for number in range(7)})
    run_pipeline(workspace)
    documents = examined(workspace)["documents"]
    assert documents.passed
    served, undated, late = documents.detail.split("; ")
    assert served == "13 served"
    assert undated.startswith("7 documents without a date, given to no window")
    assert undated.endswith("posts/undated-3.md, posts/undated-4.md and 2 more")
    assert late.startswith("1 document newer than every window")


@pytest.mark.parametrize("leave", [True, False])
def test_an_empty_folder_of_documents_is_not_well(workspace: Workspace, leave: bool) -> None:
    for post in workspace.documents_dir.iterdir():
        post.unlink()
    if not leave:
        workspace.documents_dir.rmdir()
    run_pipeline(workspace)
    documents = examined(workspace)["documents"]
    assert not documents.passed
    state = "posts/ holds no document to serve" if leave else "posts/ is not there"
    assert documents.detail.startswith(f"{state}, so windows get no context; put documents into it")


def test_a_file_that_waits_for_an_answer_is_not_well(made_workspace: Workspace) -> None:
    rows = [
        {"source": f"chats/{number:02}.txt", "folder": "conversations", "status": "set_aside", "reason": "which order?",
         "rows": 0, "unread": 3}
        for number in range(22)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=Sources.schema)
    replace_recorded(made_workspace, "sources", "conversations", frame)
    found = examined(made_workspace)
    assert found["files in chats/"].detail.startswith(
        "in the last run: 22 waiting for your answer; 66 of their lines"
    )
    assert found["file chats/19.txt"] == Examination("file chats/19.txt", False, "set aside: which order?")
    assert "file chats/20.txt" not in found
    assert found["further files in chats/"].detail.startswith("2 more")


def test_a_folder_that_cannot_be_made_is_said_in_words(
    open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    (open_folder / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    with shut(open_folder, 0o555):
        writable = {examination.name: examination for examination in examine(open_folder)}[
            "workspace writable"
        ]
    assert not writable.passed
    assert "data cannot be created (Permission denied); change the owner or the mode" in writable.detail


def test_it_says_what_computes_the_vectors(tmp_path: Path) -> None:
    for provider, computes in (("local", True), ("hashing", False)):
        made = write_workspace(tmp_path / provider, f"embedding: {{provider: {provider}}}\n")
        assert ("CPUExecutionProvider" in examined(made)["embedder"].detail) is computes
