"""Posts are searched apart: what windows are given of people's documents is what they are given without posts."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.base.ids import WRITTEN_PREFIX
from backstory.index.search import open_index
from backstory.models.embeddings.embed import embed_texts
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.assembly import Retrieval, Retrieved
from backstory.settings.models import ContextSettings, RAGSettings
from tests.pipeline.feedback_workspaces import SETTINGS, TOPICS, write_chat, write_workspace

DAYS = 3
JUDGED = ["window_id", "verdict", "confidence", "coverage", "part_count", "served_count", "recommendation"]
RAG = {"top_k": 2, "posts_top_k": 2, "chunks_per_query": 2, "min_similarity": 0.05}
SEARCHES: tuple[dict[str, Any], ...] = (
    {},
    {"posts_top_k": 0},
    {"ranking": "dense", "strategy": "mmr", "chunks_per_query": 3},
    {"ranking": "keyword", "strategy": "similarity", "top_k": 1, "posts_top_k": 3, "chunks_per_query": 1},
    {"plan": "hybrid", "near_duplicate_similarity": 0.6, "top_k": 3, "dedup_max_per_doc": 2},
    {"plan": "adaptive", "dedup_strategy": "none", "chunks_per_query": 50, "top_k": 50, "posts_top_k": 50},
    {"undated": "hide", "kinds": ("post",), "min_similarity": 0.2},
)


def write(root: Path, settings: str) -> Workspace:
    workspace = write_workspace(root)
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    for topic in TOPICS[3:]:
        text = f"---\ntitle: The {topic}\ndate: 2025-01-02\n---\n\nHow is the {topic}? Worse than the moth trap.\n"
        (root / "posts" / f"{topic.replace(' ', '-')}.md").write_text(text, encoding="utf-8")
    write_chat(workspace.chats_dir, DAYS, windows=1)
    workspace = open_workspace(root)
    # The pseudonyms are words of the posts, and so decide by their key which posts are found.
    workspace.secret.parent.mkdir()
    workspace.secret.write_text("5e" * 32, encoding="ascii")
    workspace.secret.chmod(0o600)
    run_pipeline(workspace)
    return workspace


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Workspace]:
    """The same chat and documents, with posts as documents and without."""
    folder = tmp_path_factory.mktemp("apart")
    context = "context: {max_tokens: 400, excerpt: passage}"
    settings = SETTINGS.replace("rag: {top_k: 3, min_similarity: 0.05}", f"rag: {json.dumps(RAG)}\n{context}")
    fed = write(folder / "fed", settings)
    return fed, write(folder / "plain", settings.replace('feedback: "on"', 'feedback: "off"'))


def read(workspace: Workspace, table: str) -> pl.DataFrame:
    return workspace.tables.read(table).drop("index_version", strict=False)


def list_posts(workspace: Workspace) -> pl.DataFrame:
    documents = workspace.tables.read("documents")
    return documents.filter(pl.col("uri").str.starts_with(WRITTEN_PREFIX)).select("document_id")


def test_posts_change_nothing_of_what_people_wrote(both: tuple[Workspace, Workspace]) -> None:
    fed, plain = both
    posts = list_posts(fed)
    assert list_posts(plain).is_empty()
    for table in ("hits", "decisions", "contexts"):
        rows = read(fed, table)
        of_people = rows.join(posts, on="document_id", how="anti", maintain_order="left")
        assert of_people.height < rows.height, table
        assert of_people.equals(read(plain, table)), table
    assert read(fed, "window_contexts").select(JUDGED).equals(read(plain, "window_contexts").select(JUDGED))


def test_posts_have_places_numbers_and_tokens_after_those_of_people(
    both: tuple[Workspace, Workspace],
) -> None:
    fed, _ = both
    posts = list_posts(fed)["document_id"].to_list()
    rows = read(fed, "contexts").with_columns(is_post=pl.col("document_id").is_in(posts))
    most = fed.settings.rag.posts_top_k
    for _, window in rows.group_by("window_id", maintain_order=True):
        assert window["rank"].to_list() == list(range(1, window.height + 1))
        assert window["is_post"].is_sorted()
        assert window["is_post"].sum() <= most
        assert window["citation"].is_sorted()
        assert window["citation"].n_unique() == window["document_id"].n_unique()
    contexts = read(fed, "window_contexts")
    context = fed.settings.context
    assert set(contexts["max_tokens"]) == {context.max_tokens + context.posts_max_tokens}
    assert (contexts["token_count"] <= contexts["max_tokens"]).all()
    assert (contexts["cited_token_count"] <= contexts["max_tokens"]).all()


def test_hits_of_posts_follow_those_of_documents(both: tuple[Workspace, Workspace]) -> None:
    fed, _ = both
    posts = list_posts(fed)["document_id"].to_list()
    hits = read(fed, "hits").with_columns(is_post=pl.col("document_id").is_in(posts))
    for _, found in hits.group_by("query_chunk_id", maintain_order=True):
        assert found["rank"].to_list() == list(range(1, found.height + 1))
        assert found["is_post"].is_sorted()
        assert found["is_post"].sum() <= fed.settings.rag.chunks_per_query


@pytest.mark.parametrize("changes", SEARCHES, ids=lambda changes: ",".join(map(str, changes.values())))
def test_posts_change_nothing_under_other_settings(
    both: tuple[Workspace, Workspace], changes: dict[str, Any]
) -> None:
    posts = list_posts(both[0])
    assert posts.height == DAYS
    rag = RAGSettings.model_validate({**RAG, **changes})
    with_posts, without = (retrieve(workspace, rag) for workspace in both)
    for table in ("hits", "decisions", "contexts"):
        rows, wanted = (
            getattr(found, table).drop("index_version", strict=False) for found in (with_posts, without)
        )
        of_people = rows.join(posts, on="document_id", how="anti", maintain_order="left")
        assert wanted.height
        assert of_people.equals(wanted), table
        assert (of_people.height < rows.height) == (rag.posts_top_k > 0), table


def retrieve(workspace: Workspace, rag: RAGSettings) -> Retrieved:
    """Find the contexts of all windows in the documents that a workspace holds in the end."""
    windows = workspace.tables.read("windows")
    chunks = workspace.tables.read("window_chunks")
    embedded = embed_texts(
        workspace.embedder, chunks["text"].to_list(), task="query", cache=workspace.embeddings
    )
    with open_index(workspace.index, embedder_id=workspace.embedder.id) as index:
        retrieval = Retrieval(
            index=index,
            rag=rag,
            context=ContextSettings(max_tokens=300),
            separate_posts=workspace.feeds_back,
        )
        return retrieval.run(windows, chunks, embedded.vectors)
