"""The assembly in memory: the same tables as the stages make one step at a time, and a reranker that is asked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from backstory.index.search import open_index
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.models.reranker import RATING, Judgements, RerankRequest, Topic
from backstory.pipeline.chats.people import read_people, show_chunks
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.assembly import Retrieval
from backstory.settings.models import RAGSettings
from tests.workspaces import SETTINGS

RERANKED = SETTINGS.replace(
    "{top_k: 3}", "{top_k: 3, plan: hybrid, strategy: mmr, near_duplicate_similarity: 0.95}"
)


class LastOnlyReranker:
    """Rates the last candidate well, and no other."""

    id = "last only"
    api_calls = 0

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        return [
            Judgements((Topic("all", ()),), np.eye(len(request.candidates))[-1:] * 5, RATING)
            for request in requests
        ]


def tables_of(workspace: Workspace) -> tuple[pl.DataFrame, pl.DataFrame, Vectors]:
    windows, chunks = (workspace.tables.read(name) for name in ("windows", "window_chunks"))
    embedded = embed_texts(workspace.embedder, chunks["text"].to_list(), task="query", cache=None)
    return windows, chunks, embedded.vectors


@pytest.fixture
def retrieval(made_workspace: Workspace) -> Iterator[Retrieval]:
    with open_index(made_workspace.index) as index:
        yield Retrieval.from_settings(made_workspace.settings, index)


@pytest.mark.parametrize("settings", [SETTINGS, RERANKED], ids=["defaults", "others"])
def test_all_steps_in_memory_give_what_the_stages_write(
    make_workspace: Callable[..., Workspace], settings: str
) -> None:
    # The stages call people by the names that readers see, wherever people have pseudonyms.
    workspace = make_workspace(f"{settings}privacy: {{pseudonyms: false}}\n")
    run_pipeline(workspace)
    with open_index(workspace.index) as index:
        retrieval = Retrieval.from_settings(workspace.settings, index)
        windows, chunks, vectors = tables_of(workspace)
        found = retrieval.run(windows, chunks, vectors)
        shown = show_chunks(chunks, windows, read_people(workspace))
        contexts = retrieval.gather(found.decisions, chunks, shown)
    for name, frame in (("hits", found.hits), ("decisions", found.decisions), ("contexts", contexts)):
        written = workspace.tables.read(name)
        assert written.height
        assert set(frame.select(pl.struct(pl.all()).struct.json_encode()).to_series()) == set(
            written.select(pl.struct(frame.columns).struct.json_encode()).to_series()
        )


def test_the_reranker_selects_and_is_counted(made_workspace: Workspace, retrieval: Retrieval) -> None:
    by_similarity = replace(retrieval, rag=RAGSettings(strategy="similarity", top_k=3))
    windows, chunks, vectors = tables_of(made_workspace)
    plain = by_similarity.run(windows, chunks, vectors)
    rows = {chunk_id: row for row, chunk_id in enumerate(chunks["chunk_id"])}

    def vectors_of(ids: Sequence[str]) -> Vectors:
        return vectors[[rows[chunk_id] for chunk_id in ids]]

    judging = replace(by_similarity, reranker=LastOnlyReranker())
    reranked = judging.run(windows, chunks, vectors)
    before, after = (
        dict(found.contexts.group_by("window_id").agg("chunk_id").iter_rows()) for found in (plain, reranked)
    )
    judged = {window_id for window_id, chunk_ids in before.items() if len(chunk_ids) > 1}
    assert judged
    assert all(len(after[window_id]) == 1 for window_id in judged)
    counts = judging.judge(plain.hits, chunks, vectors_of).counts
    assert counts["reranked_windows"] >= len(judged)
    assert by_similarity.judge(plain.hits, chunks, vectors_of).counts == {}


def test_a_cosine_of_the_settings_drops_what_is_below_it(
    made_workspace: Workspace, retrieval: Retrieval
) -> None:
    assert not retrieval.run(*tables_of(made_workspace)).contexts.is_empty()
    stricter = made_workspace.settings.model_copy(update={"rag": RAGSettings(min_similarity=0.99)})
    strict = Retrieval.from_settings(stricter, retrieval.index)
    assert strict.run(*tables_of(made_workspace)).contexts.is_empty()
