"""Further sources of documents: which there are, what a run reads of them, and what becomes of one that is gone."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.errors import InputError, RemovalError, SettingsError, WorkspaceError
from backstory.ingest.sources.listing import (
    DocumentLinks,
    add_source,
    list_sources,
    read_record,
    remove_source,
)
from backstory.interfaces.library.indexing import exclude_document
from backstory.interfaces.pages.site.state import hash_inputs
from backstory.operations.backup import write_backup
from backstory.operations.forgetting import forget
from backstory.operations.inspection.preview import preview_run
from backstory.pipeline.run.plan import fingerprint_documents
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.errors import raises
from tests.ingest.sources.source_tables import read_again, served, states
from tests.workspaces import SETTINGS, build_table, is_stale


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere" / "My Notes"
    (folder / "garden").mkdir(parents=True)
    (folder / "moths.md").write_text("# Moths\n\nBy lamp.\n", encoding="utf-8")
    (folder / "garden" / "frost.md").write_text("# Frost\n\nAt night.\n", encoding="utf-8")
    return folder


Make = Callable[..., Workspace]


@pytest.fixture
def added(workspace: Workspace, notes: Path) -> Workspace:
    """Give a workspace that has read the notes as a source."""
    add_source(workspace, notes)
    build_table(workspace, "documents")
    return workspace


def test_documents_of_an_added_folder_are_read_under_its_name(workspace: Workspace, notes: Path) -> None:
    added = add_source(workspace, notes)
    assert (added.name, added.path) == ("my-notes", str(notes))
    assert is_stale(workspace, "documents")
    build_table(workspace, "documents")
    assert set(served(workspace)) == {"my-notes://moths.md", "my-notes://garden/frost.md"}
    assert [status for status, _ in states(workspace).values()] == ["read", "read"]
    assert not is_stale(open_workspace(workspace.root), "documents")


def test_ids_follow_the_name_and_not_the_place(with_sources: Make, notes: Path, tmp_path: Path) -> None:
    workspace = with_sources(f"{{path: '{notes}', name: notes}}")
    build_table(workspace, "documents")
    before = served(workspace, "document_id")
    moved = tmp_path / "moved"
    shutil.move(notes, moved)
    file = workspace.root / "backstory.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(str(notes), str(moved)), encoding="utf-8")
    assert served(read_again(workspace), "document_id") == before


def test_the_same_name_in_two_sources_and_in_the_folder_are_three_documents(
    workspace: Workspace, notes: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / "My Notes"
    shutil.copytree(notes, other)
    shutil.copytree(notes, workspace.documents_dir, dirs_exist_ok=True)
    assert [add_source(workspace, folder).name for folder in (notes, other)] == ["my-notes", "my-notes-2"]
    build_table(workspace, "documents")
    documents = workspace.tables.read("documents").filter(title="Moths")
    named = set(documents["uri"]) - {"unrelated.md"}
    assert named == {"moths.md", "my-notes://moths.md", "my-notes-2://moths.md"}
    assert documents["document_id"].n_unique() == len(documents)


def test_a_source_that_cannot_be_reached_keeps_its_documents_and_says_so(
    added: Workspace, notes: Path
) -> None:
    before = served(added, "document_id")
    shutil.move(notes, notes.with_name("unplugged"))
    assert is_stale(open_workspace(added.root), "documents")
    assert served(read_again(added), "document_id") == before
    [(source, (status, reason))] = states(added).items()
    assert (source, status, str(notes) in reason) == ("my-notes://", "failed", True)
    shutil.move(notes.with_name("unplugged"), notes)
    assert served(read_again(added), "document_id") == before
    assert {status for status, _ in states(added).values()} == {"read"}


def test_documents_of_a_removed_source_leave_and_its_files_stay(added: Workspace, notes: Path) -> None:
    [source] = list_sources(added)
    remove_source(added, source)
    assert read_record(added.added_sources) == ()
    read_again(added)
    assert served(added) == {}
    assert len(served(added, status="deleted")) == 2
    assert (notes / "moths.md").is_file()


def test_all_documents_of_a_workspace_are_not_dropped_unasked(workspace: Workspace, notes: Path) -> None:
    shutil.rmtree(workspace.documents_dir)
    add_source(workspace, notes)
    build_table(workspace, "documents")
    remove_source(workspace, list_sources(workspace)[0])
    with pytest.raises(RemovalError):
        build_table(open_workspace(workspace.root), "documents")


def test_a_single_file_can_be_a_source(workspace: Workspace, notes: Path) -> None:
    add_source(workspace, notes / "moths.md")
    build_table(workspace, "documents")
    assert set(served(workspace)) == {"moths://moths.md"}


def test_a_path_in_the_workspace_is_recorded_relative_to_it(workspace: Workspace) -> None:
    (workspace.root / "notes").mkdir()
    assert add_source(workspace, workspace.root / "notes").path == "notes"


def test_patterns_and_files_of_patterns_leave_out_what_they_name(with_sources: Make, notes: Path) -> None:
    for name in ("draft.md", "garden/plan.md", "garden/old/plan.md", "private/diary.md", "note.txt"):
        (notes / name).parent.mkdir(parents=True, exist_ok=True)
        (notes / name).write_text(f"# {name}\n", encoding="utf-8")
    (notes / ".backstoryignore").write_text("# mine\nplan.md\n", encoding="utf-8")
    (notes / "garden" / ".backstoryignore").write_text("!/plan.md\n", encoding="utf-8")
    source = f"{{path: '{notes}', name: notes, include: ['*.md'], exclude: [draft.md, private/]}}"
    workspace = with_sources(source)
    build_table(workspace, "documents")
    ignored = {
        name.removeprefix("notes://"): reason
        for name, (status, reason) in states(workspace).items()
        if status == "ignored"
    }
    assert set(served(workspace)) == {
        "notes://moths.md",
        "notes://garden/frost.md",
        "notes://garden/plan.md",
    }
    assert ignored == {
        ".backstoryignore": "hidden file: its name begins with a dot",
        "draft.md": "`exclude: draft.md` of source notes leaves it out",
        "garden/.backstoryignore": "hidden file: its name begins with a dot",
        "garden/old/plan.md": "`plan.md` in .backstoryignore leaves it out",
        "note.txt": "no pattern of `include` of source notes names it",
        "private/": "`exclude: private/` of source notes leaves it out",
    }


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\n[z-a]\n", b"x" * 70_000])
def test_a_folder_whose_patterns_cannot_be_used_is_not_read(
    added: Workspace, notes: Path, content: bytes
) -> None:
    before = served(added, "document_id")
    (notes / "garden" / ".backstoryignore").write_bytes(content)
    (notes / "garden" / "private.md").write_text("# Private\n", encoding="utf-8")
    assert served(read_again(added), "document_id") == before
    status, reason = states(added)["my-notes://garden/"]
    assert (status, ".backstoryignore" in reason) == ("failed", True)


def test_a_source_has_defaults_for_kind_and_tenant(with_sources: Make, notes: Path) -> None:
    workspace = with_sources(f"{{path: '{notes}', kind: note, tenant: home}}")
    build_table(workspace, "documents")
    documents = workspace.tables.read("documents")
    assert set(documents.select("kind", "tenant").rows()) == {("post", ""), ("note", "home")}
    file = workspace.root / "backstory.yaml"
    file.write_text(file.read_text("utf-8").replace("kind: note", "kind: paper"), "utf-8")
    read_again(workspace)
    assert set(workspace.tables.read("documents")["kind"]) == {"post", "paper"}


def test_a_source_inside_another_one_is_read_once(with_sources: Make, notes: Path) -> None:
    workspace = with_sources(
        {"path": f"{notes}", "name": "all"}, {"path": f"{notes / 'garden'}"}, "{path: posts/inner}"
    )
    (workspace.documents_dir / "inner").mkdir()
    (workspace.documents_dir / "inner" / "deep.md").write_text("# Deep\n", encoding="utf-8")
    build_table(workspace, "documents")
    assert set(served(workspace)) == {"all://moths.md", "garden://frost.md", "inner://deep.md"}
    assert "inner/deep.md" not in set(workspace.tables.read("documents")["uri"])


def test_everything_that_looks_at_the_documents_sees_the_sources(workspace: Workspace, notes: Path) -> None:
    hashes = [(fingerprint_documents(workspace), hash_inputs(workspace).whole)]
    add_source(workspace, notes)
    hashes.append((fingerprint_documents(workspace), hash_inputs(workspace).whole))
    (notes / "moths.md").write_text("# Moths\n\nBy moon.\n", encoding="utf-8")
    hashes.append((fingerprint_documents(workspace), hash_inputs(workspace).whole))
    assert all(len(set(column)) == 3 for column in zip(*hashes, strict=True))
    looked_at = {row["source"] for row in preview_run([], workspace.root).files}
    assert "my-notes://moths.md" in looked_at


def test_files_that_are_excluded_at_once_are_all_left_out(added: Workspace, notes: Path) -> None:
    names = [f"{number}.md" for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: exclude_document(added, f"my-notes://{name}", notes / name), names))
    assert sorted(list_sources(added)[0].settings.exclude) == sorted(f"/{name}" for name in names)


def test_only_added_sources_can_be_removed(with_sources: Make, notes: Path) -> None:
    workspace = with_sources(f"{{path: '{notes}'}}")
    with raises(InputError, "source_of_settings", "my-notes"):
        remove_source(workspace, list_sources(workspace)[0])


@pytest.mark.parametrize(
    ("sources", "code", "setting"),
    [
        ("{path: a/notes}, {path: b/notes}", "invalid_setting", "documents.sources"),
        ("{path: notes, name: No}", "invalid_setting", "documents.sources.0.name"),
        ("{path: notes, name: https}", "invalid_setting", "documents.sources.0.name"),
        ("{path: ' '}", "invalid_setting", "documents.sources.0"),
        ("{path: notes, exclude: ['[z-a]']}", "invalid_setting", "documents.sources.0.exclude"),
        ("{path: chats}", "other_use", "documents.sources"),
        ("{path: posts}", "read_already", "documents.sources"),
    ],
)
def test_sources_that_cannot_be_are_refused_in_the_settings(
    with_sources: Make, sources: str, code: str, setting: str
) -> None:
    with raises(SettingsError, code, setting):
        list_sources(with_sources(sources))


def test_a_name_in_the_settings_and_in_the_list_is_refused(workspace: Workspace, notes: Path) -> None:
    add_source(workspace, notes)
    file = workspace.root / "backstory.yaml"
    stated = f"{SETTINGS}documents: {{sources: [{{path: near, name: my-notes}}]}}\n"
    file.write_text(stated, encoding="utf-8")
    with raises(SettingsError, "duplicate_source", "my-notes"):
        list_sources(open_workspace(workspace.root))


@pytest.mark.parametrize("content", ["", "[]", '{"sources": 3}', '{"sources": [{"path": 3}]}'])
def test_a_damaged_list_is_said_and_not_taken_for_an_empty_one(workspace: Workspace, content: str) -> None:
    workspace.added_sources.parent.mkdir(exist_ok=True)
    workspace.added_sources.write_text(content, encoding="utf-8")
    with raises(WorkspaceError, "damaged_record", workspace.added_sources):
        list_sources(workspace)


def test_a_document_of_a_source_can_be_forgotten(workspace: Workspace, notes: Path) -> None:
    add_source(workspace, notes)
    run_pipeline(workspace)
    report = forget(open_workspace(workspace.root), "document", "my-notes://moths.md")
    assert [str(notes / "moths.md")] == list(report.inputs)
    assert set(served(read_again(workspace))) == {"my-notes://garden/frost.md"}
    assert states(workspace)["my-notes://moths.md"][0] == "ignored"


def test_a_backup_holds_the_sources_of_the_workspace_and_names_the_others(
    workspace: Workspace, notes: Path, tmp_path: Path
) -> None:
    near = workspace.root / "near"
    near.mkdir()
    (near / "elbow.md").write_text("# Elbow\n", encoding="utf-8")
    for path in (notes, near):
        add_source(workspace, path)
    build_table(workspace, "documents")
    backup = write_backup(workspace, tmp_path / "backup.tar.gz")
    with tarfile.open(Path(backup.place)) as tar:
        names = tar.getnames()
    assert {"near/elbow.md", ".backstory/sources.json"} <= set(names)
    assert [reason.partition(",")[0] for reason in backup.left_out if str(notes) in reason] == [str(notes)]


def test_links_lead_to_files_of_folders_and_to_addresses_of_what_was_fetched(
    with_sources: Make, notes: Path
) -> None:
    workspace = with_sources(
        f"{{path: '{notes}', name: notes}}", "{name: pages, urls: ['https://example.org/a']}"
    )
    mirror = workspace.mirrors / "pages"
    mirror.mkdir(parents=True)
    record = {"files": {"a.html": {"key": "https://example.org/a", "stamp": ""}}}
    (mirror / "state.json").write_text(json.dumps(record), encoding="utf-8")
    link = DocumentLinks(workspace).link
    beside = os.path.relpath(notes.resolve(), workspace.root.resolve())
    assert link("frost.md") == "posts/frost.md"
    assert link("notes://garden/frost.md") == f"{beside}/garden/frost.md"
    assert link("pages://a.html") == "https://example.org/a"
    assert workspace.root / link("pages://b.html") == mirror / "files" / "b.html"
    assert link("gone://a.md") == ""
