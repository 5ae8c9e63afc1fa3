"""What labels windows: links of documents to earlier ones, and the citations of posts that people have edited."""

import random
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.operations.labels import (
    ADDED,
    KEPT,
    LINKED,
    REMOVED,
    Labels,
    gather_labels,
)
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.writing.post_files import draft_path
from tests.workspaces import DIGEST, write_workspace
from tests.world import run


def list_pairs(labels: Labels) -> set[tuple[str, str]]:
    return set(labels.frame.select("window_id", "doc_id").iter_rows())


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A workspace with posts of random days, before and after the chat, each with links to some others."""
    workspace = write_workspace(tmp_path_factory.mktemp("linked") / "workspace")
    rng = random.Random(5)
    for number in range(40):
        day = date(2025, 3, 13) + timedelta(days=rng.randint(-2, 3))
        moment = rng.choice(["", f"date: {day}\n", f"date: {day}T{rng.randint(0, 23):02}:00:00Z\n"])
        links = " ".join(f"[{each}](post-{each}.md)" for each in rng.sample(range(40), 6))
        (workspace.documents_dir / f"post-{number}.md").write_text(
            f"---\ntitle: Post {number}\n{moment}---\n\n{links}\n", "utf-8"
        )
    run(workspace.root)
    return workspace


def test_a_document_labels_the_windows_of_its_day_with_the_earlier_ones_that_it_links_to(
    linked: Workspace,
) -> None:
    labels = gather_labels(linked)
    documents = {row["document_id"]: row for row in linked.tables.read("documents").to_dicts()}
    ids = {row["uri"]: document_id for document_id, row in documents.items()}
    expected = set()
    for window in linked.tables.read("windows").to_dicts():
        for number in range(40):
            source = documents[ids[f"post-{number}.md"]]
            moment = source["published_at"]
            if (
                moment is None
                or not window["started_at"].date() <= moment.date() <= window["ended_at"].date()
            ):
                continue
            for target in range(40):
                dated = documents[ids[f"post-{target}.md"]]["published_at"]
                is_linked = f"(post-{target}.md)" in source["text"] and target != number
                if is_linked and dated is not None and dated <= window["started_at"]:
                    expected.add((window["window_id"], ids[f"post-{target}.md"]))
    assert expected
    assert labels.later
    assert list_pairs(labels) == expected
    assert labels.sources == {LINKED: len(expected)}


@pytest.fixture
def written(tmp_path: Path) -> Workspace:
    workspace = write_workspace(tmp_path / "workspace", DIGEST)
    run(workspace.root)
    return workspace


def choose_post(workspace: Workspace) -> dict[str, Any]:
    posts = workspace.tables.read("posts")
    return posts.filter(pl.col("cited_documents").list.len() >= 2).row(0, named=True)


def edit_post(workspace: Workspace, post: dict[str, Any]) -> tuple[str, str, str]:
    """Cite one document less and another one instead; give the ids of the kept, the added and the removed one."""
    documents = {row["document_id"]: row["uri"] for row in workspace.tables.read("documents").to_dicts()}
    kept, removed, *rest = post["cited_documents"]
    added = next(
        key for key, uri in documents.items() if uri == "unrelated.md" and key not in post["cited_documents"]
    )
    path = workspace.root / post["path"]
    head = path.read_text("utf-8").partition("\n---\n\n")[0]
    links = " ".join(f"[it](../posts/{documents[key]})" for key in (kept, added, *rest))
    path.write_text(f"{head}\n---\n\n{links}\n[later](../posts/later.md)\n", "utf-8")
    return kept, added, removed


def test_the_post_that_a_person_has_edited_labels_its_window(written: Workspace) -> None:
    assert gather_labels(written).links == 0, "what Backstory cites is no label of its own"
    post = choose_post(written)
    kept, added, removed = edit_post(written, post)
    # Others link to what the person took out.
    gone = next(
        row["uri"] for row in written.tables.read("documents").to_dicts() if row["document_id"] == removed
    )
    (written.documents_dir / "news.md").write_text(
        f"---\ntitle: News\ndate: {post['published_at'].date()}T23:00:00Z\n---\n\n[it]({gone})\n", "utf-8"
    )
    run(written.root)
    labels = gather_labels(open_workspace(written.root))
    mine = labels.frame.filter(window_id=post["window_id"])
    sources = dict(mine.select("doc_id", "source").iter_rows())
    assert sources[kept] == KEPT
    assert sources[added] == ADDED
    assert removed not in sources
    assert labels.refused == {REMOVED: 1}
    assert labels.later == 1


def test_an_edited_letter_labels_the_windows_that_were_shown_the_document(tmp_path: Path) -> None:
    letters = DIGEST.replace("provider: digest", "provider: digest, grain: month")
    workspace = write_workspace(tmp_path / "workspace", letters)
    run(workspace.root)
    post = choose_post(workspace)
    kept, added, removed = edit_post(workspace, post)
    told = workspace.tables.read("posts").filter(slug=post["slug"])["window_id"].to_list()
    contexts = workspace.tables.read("contexts").filter(pl.col("window_id").is_in(told))
    shown = contexts.select("window_id", "document_id").unique()
    labels = gather_labels(workspace)
    assert len(told) > 1
    expected = {window for window, document in shown.iter_rows() if document == kept}
    assert set(labels.frame.filter(doc_id=kept)["window_id"]) == expected
    assert labels.frame.filter(doc_id=added).is_empty() == shown.filter(document_id=added).is_empty()
    assert labels.refused.get(REMOVED, 0) == shown.filter(document_id=removed).height


def test_what_a_later_draft_cites_was_removed_by_nobody(written: Workspace) -> None:
    post = choose_post(written)
    edit_post(written, post)
    draft_path(written.root / post["path"]).write_text("A later draft.\n", "utf-8")
    assert gather_labels(written).refused == {}
