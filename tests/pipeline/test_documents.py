"""The stage of documents: what is served, what is counted, and what stands in the table ``sources``."""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from backstory import run_pipeline
from backstory.interfaces.cli.windows import print_context
from backstory.operations.inspection.windows import read_window_context
from backstory.pipeline.run.plan import is_fresh, record_run
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.privileges import NOBODY
from tests.workspaces import POSTS, SETTINGS, build_table, find_file, replace_recorded

UNDATED = "# Elbows\n\nHow we mended the plastic elbow of the drip irrigation line near the tomatoes.\n"


def states(workspace: Workspace) -> dict[str, str]:
    sources = workspace.tables.read("sources", ["documents"])
    return dict(sources.select("source", "status").rows())


def served(workspace: Workspace) -> set[str]:
    return set(workspace.tables.read("contexts")["slug"])


def test_every_file_is_a_row_and_is_counted(workspace: Workspace) -> None:
    (workspace.documents_dir / "draft.md").write_text("---\ndraft: true\n---\nText", encoding="utf-8")
    (workspace.documents_dir / "undated.md").write_text("Text", encoding="utf-8")
    (workspace.documents_dir / "broken.md").write_text("---\ndate: soon\n---\nText", encoding="utf-8")
    (workspace.documents_dir / "talk.mp3").write_bytes(b"ID3")
    report = build_table(workspace, "documents")
    new = {name: state for name, state in states(workspace).items() if state != "read"}
    assert new == {"posts/draft.md": "ignored", "posts/broken.md": "failed", "posts/talk.mp3": "unsupported"}
    assert report.counts == {
        "status_ok": 7, "status_error": 1, "files_read": 7, "files_failed": 1, "files_ignored": 1,
        "files_unsupported": 1, "drafts": 1, "undated": 1, "files_unchanged": 0,
    }  # fmt: skip


def test_a_lost_file_of_the_table_is_noticed_and_made_again(made_workspace: Workspace) -> None:
    keys = find_partitions(made_workspace)
    record_run(made_workspace, keys)
    assert is_fresh(made_workspace, keys)
    before = states(made_workspace)
    shutil.rmtree(made_workspace.tables_dir / "sources")
    assert not is_fresh(made_workspace, keys)
    build_table(made_workspace, "documents")
    assert states(made_workspace) == before


def test_a_post_that_may_not_be_read_neither_stops_a_run_nor_is_taken_for_unchanged(
    workspace: Workspace, open_folder: Path, shut: Callable[[Path, int], AbstractContextManager[None]]
) -> None:
    root = open_folder / "workspace"
    shutil.copytree(workspace.root, root)
    run_pipeline(open_workspace(root))
    keys = find_partitions(open_workspace(root))
    record_run(open_workspace(root), keys)
    if os.geteuid() == 0:
        for path in (root, *root.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    with shut(root / "posts" / "unrelated.md", 0):
        assert not is_fresh(open_workspace(root), keys)
        run_pipeline(open_workspace(root))
        assert states(open_workspace(root))["posts/unrelated.md"] == "failed"
        record_run(open_workspace(root), keys)
        assert is_fresh(open_workspace(root), keys)
    assert not is_fresh(open_workspace(root), keys)


def test_a_row_goes_with_its_file(workspace: Workspace) -> None:
    build_table(workspace, "documents")
    for post in workspace.documents_dir.iterdir():
        post.unlink()
    build_table(open_workspace(workspace.root, accept_removals=True), "documents")
    assert workspace.tables.keys("sources") == []


@pytest.mark.parametrize(
    ("leave", "state"),
    [(True, "posts/ holds no document that can be served"), (False, "posts/ does not exist")],
)
def test_without_posts_a_run_goes_on_and_says_so(
    made_workspace: Workspace, caplog: pytest.LogCaptureFixture, leave: bool, state: str
) -> None:
    shutil.rmtree(made_workspace.documents_dir)
    if leave:
        made_workspace.documents_dir.mkdir()
    reports = {
        report.table: report
        for report in run_pipeline(open_workspace(made_workspace.root, accept_removals=True))
    }
    notice = reports["documents"].counts["notice"]
    assert str(notice).startswith(f"{state}, so windows get no context; put documents into it")
    assert str(notice) in caplog.text
    contexts = made_workspace.tables.read("window_contexts")
    assert set(contexts.select("status", "verdict", "confidence").rows()) == {
        ("no_hits", "insufficient", 0.0)
    }
    assert set(contexts["recommendation"]) == {"add documents: there is none to search"}
    assert set(made_workspace.tables.read("documents")["status"]) == {"deleted"}


@pytest.mark.parametrize(("setting", "expected"), [("serve", True), ("hide", False)])
def test_a_setting_says_whether_undated_documents_are_served(
    make_workspace: Callable[..., Workspace], setting: str, expected: bool
) -> None:
    rag = f"rag: {{top_k: 3, min_similarity: 0.05, undated: {setting}}}"
    workspace = make_workspace(SETTINGS.replace("rag: {top_k: 3}", rag))
    (workspace.documents_dir / "elbows.md").write_text(UNDATED, encoding="utf-8")
    run_pipeline(workspace)
    assert ("elbows" in served(workspace)) == expected
    assert "drip-irrigation" in served(workspace)


def test_a_setting_says_whether_drafts_are_served(make_workspace: Callable[..., Workspace]) -> None:
    workspace = make_workspace(f"{SETTINGS}documents: {{drafts: true}}\n")
    draft = f"---\ndraft: true\ndate: 2024-01-01\n---\n{UNDATED}"
    (workspace.documents_dir / "elbows.md").write_text(draft, encoding="utf-8")
    run_pipeline(workspace)
    assert "elbows" in served(workspace)
    (workspace.root / "backstory.yaml").write_text(SETTINGS, encoding="utf-8")
    run_pipeline(open_workspace(workspace.root))
    assert "elbows" not in served(workspace)
    assert states(workspace)["posts/elbows.md"] == "ignored"


def test_unchanged_documents_are_parsed_again_only_if_they_are_read_in_another_way(
    workspace: Workspace,
) -> None:
    build_table(workspace, "documents")
    path = find_file(workspace.root, "documents", "all")
    older = pl.read_parquet(path).with_columns(title=pl.lit("Of an older version"))
    replace_recorded(workspace, "documents", "all", older)
    (workspace.documents_dir / "elbows.md").write_text(UNDATED, encoding="utf-8")
    build_table(workspace, "documents")
    taken_over = workspace.tables.read("documents")["title"].to_list()
    assert sorted(set(taken_over)) == ["Elbows", "Of an older version"]
    read = workspace.catalog.read("sources")["documents"]
    workspace.catalog.record("sources", {"documents": replace(read, inputs="read in another way")})
    (workspace.documents_dir / "elbows.md").write_text(f"{UNDATED}\nmore\n", encoding="utf-8")
    build_table(workspace, "documents")
    titles = {title for title, _, _ in POSTS.values()}
    assert set(workspace.tables.read("documents")["title"]) == titles | {"Elbows"}


def test_the_workspace_itself_can_be_the_folder_of_documents(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(f"{SETTINGS}documents: {{folder: .}}\n")
    run_pipeline(workspace)
    first = states(workspace)
    run_pipeline(workspace)
    assert states(workspace) == first
    assert set(first.values()) == {"read"}
    assert "posts/sourdough.md" in first


def test_dates_are_asked_for_where_there_are_chats(workspace: Workspace, tmp_path: Path) -> None:
    chats = workspace.chats_dir.rename(tmp_path / "chats")
    (workspace.documents_dir / "undated.md").write_text("Text", encoding="utf-8")

    def read_reason() -> str | None:
        report = build_table(open_workspace(workspace.root), "documents")
        assert report.counts["undated"] == 1
        sources = workspace.tables.read("sources", ["documents"])
        reason: str | None = sources.filter(source="posts/undated.md")["reason"].item()
        return reason

    assert read_reason() is None
    chats.rename(workspace.chats_dir)
    assert (read_reason() or "").startswith("it states no date")


def test_a_history_that_cannot_be_read_is_said_to_be_lost(workspace: Workspace) -> None:
    assert "notice" not in build_table(workspace, "documents").counts
    former = workspace.tables.read("documents").drop("unread", "chunker")
    replace_recorded(workspace, "documents", "all", former)
    (workspace.documents_dir / "moths.md").write_text("Text", encoding="utf-8")
    report = build_table(open_workspace(workspace.root), "documents")
    assert "lacks earlier revisions and deleted documents" in str(report.counts["notice"])
    assert "notice" not in build_table(open_workspace(workspace.root), "documents").counts


def test_kinds_and_tags_of_the_settings_that_no_document_has_are_told(
    made_workspace: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SETTINGS.replace("rag: {top_k: 3}", "rag: {top_k: 3, kinds: [letter], tags: [moths, wool]}")
    (made_workspace.root / "backstory.yaml").write_text(settings, encoding="utf-8")
    [report] = [one for one in run_pipeline(open_workspace(made_workspace.root)) if one.table == "hits"]
    notice = str(report.counts["notice"])
    assert "the setting rag.kinds names 'letter'" in notice
    assert "the setting rag.tags names 'wool'" in notice
    assert "names 'moths'" not in notice
    assert notice in caplog.text


def test_copies_of_a_file_take_one_place_in_a_context_and_are_named_beside_it(workspace: Workspace) -> None:
    text = (workspace.documents_dir / "sourdough.md").read_text(encoding="utf-8")
    for copy in ("copy of sourdough.md", "a/sourdough (1).md"):
        (workspace.documents_dir / copy).parent.mkdir(exist_ok=True)
        (workspace.documents_dir / copy).write_text(text, encoding="utf-8")
    other_title = text.replace("title: ", "title: Once more, ")
    assert other_title != text
    (workspace.documents_dir / "z.sourdough.md").write_text(other_title, encoding="utf-8")
    run_pipeline(workspace)
    shown = workspace.tables.read("contexts").filter(pl.col("uri").str.contains("sourdough"))
    assert {(uri, *also_in) for uri, also_in in shown.select("uri", "also_in").iter_rows()} == {
        ("sourdough.md", "a/sourdough (1).md", "copy of sourdough.md", "z.sourdough.md")
    }
    console = Console(record=True, width=200)
    print_context(console, read_window_context(workspace, shown["window_id"][0]))
    assert "a/sourdough (1).md, copy of sourdough.md and z.sourdough.md" in console.export_text()
