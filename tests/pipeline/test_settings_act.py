"""Every setting of the original ``rag:`` block acts: changing it changes the outcome."""

from collections.abc import Callable

import polars as pl
import pytest

from backstory import run_pipeline
from backstory.tables import read_table
from backstory.workspace import Workspace

BASE = {
    "enabled": "true", "top_k": "3", "mode": "exact", "chunks_per_query": "3", "dedup_strategy": "document",
    "dedup_max_per_doc": "1", "min_similarity": "0.05", "ranking": "dense",
}  # fmt: skip


@pytest.fixture
def outcome_of(make_workspace: Callable[..., Workspace]) -> Callable[..., dict[str, pl.DataFrame]]:
    made = 0

    def run(index: str = "{}", **changes: str) -> dict[str, pl.DataFrame]:
        nonlocal made
        made += 1
        rag = ", ".join(f"{name}: {value}" for name, value in {**BASE, **changes}.items())
        chunks = "chunks: {max_tokens: 16, overlap_tokens: 0}"
        workspace = make_workspace(
            f"embedding: {{provider: hashing}}\nrag: {{{rag}}}\nindex: {index}\n{chunks}\n",
            f"workspace{made}",
        )
        post = workspace.posts / "sourdough.md"
        more = "\n\n".join(
            f"Sourdough starter and flour, part {part}, to feed twice a day." for part in range(3)
        )
        post.write_text(f"{post.read_text(encoding='utf-8')}\n{more}\n", encoding="utf-8")
        run_pipeline(workspace)
        return {
            table: read_table(workspace.tables, table)
            for table in ("hits", "decisions", "contexts", "window_contexts")
        }

    return run


@pytest.mark.parametrize(
    ("changes", "table", "column"),
    [
        ({"enabled": "false"}, "window_contexts", "status"),
        ({"top_k": "1"}, "window_contexts", "kept_count"),
        ({"chunks_per_query": "1"}, "window_contexts", "hit_count"),
        ({"dedup_strategy": "none"}, "window_contexts", "after_dedup_count"),
        ({"dedup_max_per_doc": "2"}, "window_contexts", "after_dedup_count"),
        ({"min_similarity": "0.6"}, "window_contexts", "above_threshold_count"),
        ({"strategy": "mmr", "mmr_lambda": "0.1"}, "decisions", "rank"),
        ({"plan": "hybrid"}, "hits", "query_chunk_id"),
        ({"plan": "adaptive"}, "hits", "query_chunk_id"),
        ({"ranking": "hybrid"}, "hits", "score"),
        ({"ranking": "keyword"}, "hits", "engine"),
        ({"tags": "[sourdough]"}, "hits", "document_id"),
        ({"as_of": "false"}, "hits", "document_id"),
    ],
)
def test_changing_a_setting_changes_the_outcome(
    outcome_of: Callable[..., dict[str, pl.DataFrame]], changes: dict[str, str], table: str, column: str
) -> None:
    before, after = outcome_of(), outcome_of(**changes)
    assert not before[table][column].equals(after[table][column])


@pytest.mark.parametrize(("name", "value"), [("keyword_weight", "0.9"), ("keyword_terms", "1")])
def test_the_settings_of_keywords_change_hybrid_scores(
    outcome_of: Callable[..., dict[str, pl.DataFrame]], name: str, value: str
) -> None:
    before, after = outcome_of(ranking="hybrid"), outcome_of(ranking="hybrid", **{name: value})
    assert not before["hits"]["score"].equals(after["hits"]["score"])


def test_the_mode_decides_the_engine(outcome_of: Callable[..., dict[str, pl.DataFrame]]) -> None:
    vss = "{ann_min_rows: 0}"
    assert set(outcome_of(vss, mode="ann")["hits"]["engine"]) == {"vss"}
    assert set(outcome_of(vss, mode="exact")["hits"]["engine"]) == {"exact"}
    assert set(outcome_of(mode="ann")["hits"]["engine"]) == {"exact"}


def test_nprobe_and_overfetch_reach_the_engine(outcome_of: Callable[..., dict[str, pl.DataFrame]]) -> None:
    vss = "{ann_min_rows: 0}"
    with pytest.warns(UserWarning, match="ef_search"):
        narrow = outcome_of(vss, mode="ann", nprobe="1")
    assert set(narrow["hits"]["engine"]) == {"vss"}
    assert len(outcome_of(vss, mode="ann", overfetch="2")["hits"]) > 0
