"""What a change of some documents costs: which files are read, and which texts are embedded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.base.errors import SettingsError
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.workspaces import SETTINGS, build_table

MakeWorkspace = Callable[..., Workspace]


@pytest.fixture(autouse=True)
def _settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files count as settled at once: the tests change the size of what they edit."""
    monkeypatch.setattr("backstory.ingest.documents.files.SETTLED_SECONDS", -3600.0)


def make(root: Path) -> dict[str, Any]:
    """Make documents, chunks and index as a run does, and give the counts of the first and the last stage."""
    workspace = open_workspace(root)
    counts: dict[str, Any] = dict(build_table(workspace, "documents").counts)
    build_table(workspace, "document_chunks")
    return {**counts, **build_table(workspace, "search_index").counts}


def write(folder: Path, number: int, more: str = "") -> None:
    paragraphs = [
        f"Paragraph {part} of note {number}, about bed {number * 7 + part} " + "and its soil " * 5
        for part in range(3)
    ]
    text = "\n\n".join([f"# Note {number}", *paragraphs, more])
    (folder / f"note-{number}.md").write_text(text, encoding="utf-8")


@pytest.fixture
def workspace(make_workspace: MakeWorkspace) -> Workspace:
    made = make_workspace(f"{SETTINGS}chunks: {{max_tokens: 30, overlap_tokens: 0}}\n")
    for path in made.documents_dir.iterdir():
        path.unlink()
    return made


def test_one_edit_among_a_thousand_files_reads_one_and_embeds_its_changed_chunk(workspace: Workspace) -> None:
    for number in range(1000):
        write(workspace.documents_dir, number)
    first = make(workspace.root)
    chunks = workspace.tables.read("document_chunks").height
    assert chunks == 3000
    assert first["embedding_computed"] == chunks
    write(workspace.documents_dir, 500, "A fourth paragraph" + " of the note" * 8)
    second = make(workspace.root)
    assert second["files_unchanged"] == 999
    assert second["embedding_computed"] == 1
    assert second["embedding_cached"] == chunks


def test_a_renamed_file_keeps_its_vectors_and_a_deleted_one_leaves_the_index(workspace: Workspace) -> None:
    for number in range(5):
        write(workspace.documents_dir, number)
    make(workspace.root)
    (workspace.documents_dir / "note-1.md").rename(workspace.documents_dir / "renamed.md")
    (workspace.documents_dir / "note-2.md").unlink()
    assert make(workspace.root)["embedding_computed"] == 0
    documents = workspace.tables.read("documents")
    states = dict(documents.select("uri", "status").iter_rows())
    assert [states[f"{name}.md"] for name in ("note-1", "renamed", "note-2")] == ["deleted", "ok", "deleted"]
    served = documents.filter(pl.col("status") == "ok")["document_id"]
    assert set(workspace.tables.read("document_chunks")["document_id"]) == set(served)


def test_a_chunker_for_a_format_that_nobody_reads_is_refused(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(f"{SETTINGS}chunks: {{chunkers: {{markdwon: page}}}}\n")
    build_table(workspace, "documents")
    with raises(SettingsError, "unknown_format", "chunks.chunkers"):
        build_table(workspace, "document_chunks")


def test_what_was_not_read_of_a_file_is_said_again_where_it_is_not_read_again(workspace: Workspace) -> None:
    (workspace.documents_dir / "broken.jsonl").write_text('{"a": 1}\nb\n', encoding="utf-8")
    reasons = []
    for _ in range(2):
        counts = build_table(open_workspace(workspace.root), "documents").counts
        reasons += workspace.tables.read("sources").filter(folder="documents")["reason"].to_list()
    assert counts["files_unchanged"] == 1
    assert reasons[0] == reasons[1]
    assert "line 2" in reasons[0]


@pytest.mark.parametrize("gone", [False, True], ids=["another text", "no file"])
def test_a_text_that_comes_back_is_read_by_the_settings_of_now(workspace: Workspace, gone: bool) -> None:
    note, settings = workspace.documents_dir / "note-1.md", workspace.root / "backstory.yaml"
    write(workspace.documents_dir, 1)
    write(workspace.documents_dir, 2)
    text, stated = note.read_bytes(), settings.read_text(encoding="utf-8")
    make(workspace.root)
    if gone:
        note.unlink()
    else:
        write(workspace.documents_dir, 1, "A fourth paragraph")
    zone = "conversations: {timezone: Asia/Tokyo, "
    settings.write_text(
        stated.replace("conversations: {", zone) + "documents: {kind: note, tenant: us}\n", encoding="utf-8"
    )
    assert zone in settings.read_text(encoding="utf-8")
    make(workspace.root)
    note.write_bytes(text)
    make(workspace.root)
    served = open_workspace(workspace.root).tables.read("documents").filter(pl.col("status") == "ok")
    assert set(served.select("uri", "kind", "tenant").rows()) == {
        ("note-1.md", "note", "us"),
        ("note-2.md", "note", "us"),
    }
