"""Contexts: rows that trace back, and a summary per window."""

from collections.abc import Sequence
from datetime import UTC, datetime

import polars as pl

from backstory.retrieval.contexts import make_contexts, make_window_contexts
from backstory.settings.models import ContextSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Contexts, WindowContexts
from backstory.text.chunking.units import estimate_tokens
from backstory.text.prompts.entries import HEADING
from tests.builders.decisions import make_decisions
from tests.builders.windows import make_window_chunks, make_windows

DAY = datetime(2025, 1, 15, 10, 30, tzinfo=UTC)


def chunk_rows() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "chunk_id": ["c1", "c2"],
            "document_id": ["d1", "d2"],
            "revision": ["r1", "r2"],
            "chunk_index": [0, 3],
            "page_start": [None, 2],
            "page_end": [None, 3],
            "char_start": [0, 100],
            "char_end": [11, 120],
            "heading": ["", "Part"],
            "text": ["Hello world", "## Forged\nbody"],
            "token_count": [2, 4],
            "uri": ["a.md", "b.md"],
            "title": ["First [post]", "Second"],
            "slug": ["first", "second"],
            "published_at": [DAY, None],
            "tags": [["x", "y"], []],
            "kind": ["post", "post"],
            "tenant": ["", ""],
        },
        schema_overrides={
            "page_start": pl.Int64,
            "page_end": pl.Int64,
            "published_at": pl.Datetime("us", "UTC"),
        },
    )


def decision_rows() -> pl.DataFrame:
    rows = [
        {"query_chunk_id": "q1", "chunk_id": "c1", "document_id": "d1", "similarity": 0.7, "rank": 1},
        {"query_chunk_id": "q2", "chunk_id": "c1", "document_id": "d1", "similarity": 0.9, "rank": 1},
        {"query_chunk_id": "q2", "chunk_id": "c2", "document_id": "d2", "similarity": 0.8, "rank": 2},
        {"query_chunk_id": "q3", "chunk_id": "c3", "document_id": "d3", "similarity": 0.1, "kept": False,
         "cause": "below_threshold"},
    ]  # fmt: skip
    return make_decisions(rows, window_id="w1", uncovered_topics=["frost (message 2)"])


def window_rows() -> pl.DataFrame:
    first = {"window_id": "w1", "message_count": 3, "token_count": 9, "message_ids": ["m1", "m2", "m3"]}
    return make_windows([first, {"window_id": "w2", "message_ids": ["m4"]}])


def query_chunk_rows() -> pl.DataFrame:
    rows = [
        {
            "chunk_id": f"q{place + 1}",
            "text": text,
            "chunk_index": place,
            "first_message": place,
            "last_message": place,
        }
        for place, text in enumerate("abc")
    ]
    return make_window_chunks([*rows, {"chunk_id": "q4", "text": "d", "window_id": "w2"}], window_id="w1")


def hit_rows() -> pl.DataFrame:
    return pl.DataFrame({"window_id": ["w1", "w1"], "engine": ["vss", "vss"], "index_version": ["v1", "v1"]})


def known_words(_texts: Sequence[str]) -> pl.DataFrame:
    """Know no word, as an empty index does."""
    return pl.DataFrame(schema={"text": pl.UInt32, "term": pl.Int64, "rarity": pl.Float64})


def gather_rows(decisions: pl.DataFrame, settings: ContextSettings | None = None) -> pl.DataFrame:
    around = chunk_rows().select("chunk_id", "char_start", "text")
    return make_contexts(
        decisions,
        chunk_rows(),
        query_chunk_rows(),
        alike=chunk_rows(),
        around=around,
        terms_of=known_words,
        settings=settings or ContextSettings(),
    )


def test_contexts_join_decisions_and_chunks_best_first() -> None:
    contexts = validate(gather_rows(decision_rows()), Contexts)
    assert contexts.select("rank", "document_id", "revision", "chunk_id", "content").rows() == [
        (1, "d1", "r1", "c1", "Hello world"),
        (2, "d2", "r2", "c2", "## Forged\nbody"),
    ]
    assert contexts["similarity"].to_list() == [0.9, 0.8]
    assert contexts["matched_query_chunks"].to_list() == [["q2", "q1"], ["q2"]]
    assert contexts.select("page_start", "char_start", "char_end").row(1) == (2, 100, 120)
    assert contexts.select("citation", "passage", "passage_start", "passage_end").rows() == [
        (1, "Hello world", 0, 11),
        (2, "## Forged\nbody", 100, 114),
    ]
    assert contexts["serves"].to_list() == ['messages 1 to 2, such as "b"', 'message 2, such as "b"']


def assessment_rows(*, verdict: str = "sufficient") -> pl.DataFrame:
    return pl.DataFrame(
        {
            "window_id": ["w2", "w1"],
            "language": [None, "de"],
            "served_share": [0.0, 2 / 3],
            "part_count": [1, 3],
            "served_count": [0, 2],
            "beyond_limit_count": [0, 0],
            "unsure_count": [0, 1],
            "uncovered_count": [1, 0],
            "verdict": ["insufficient", verdict],
            "language_known": [True, verdict != "not_known"],
            "confidence": [0.1, None if verdict == "not_known" else 0.9],
            "recommendation": ["add documents", "nothing to do"],
        }
    )


def message_rows() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "window_id": ["w1", "w2"],
            "messages": ["- (1) 2025-01-15 10:30 **Alder**: a\n", ""],
            "said_count": [1, 0],
            "local_started_at": DAY.replace(tzinfo=None),
            "local_ended_at": DAY.replace(tzinfo=None),
        }
    )


def summarize(
    *, enabled: bool = True, rerank_note: str | None = None, verdict: str = "sufficient"
) -> pl.DataFrame:
    decisions = decision_rows().with_columns(rerank_note=pl.lit(rerank_note, dtype=pl.String))
    table = make_window_contexts(
        window_rows(),
        query_chunk_rows(),
        decisions if enabled else decisions.clear(),
        gather_rows(decision_rows() if enabled else decision_rows().clear()),
        assessment_rows(verdict=verdict),
        messages=message_rows(),
        settings=ContextSettings(),
        enabled=enabled,
        hits=hit_rows(),
        embedder_id="hashing",
        index_version="v",
        settings_hash="s",
    )
    return validate(table, WindowContexts)


def test_every_window_gets_a_row_with_the_counts_of_every_stage() -> None:
    first, second = summarize().to_dicts()
    assert (first["engine"], first["index_version"]) == ("vss", "v1")
    assert (second["engine"], second["index_version"]) == ("none", "v")
    counts = ("query_chunk_count", "hit_count", "above_threshold_count", "after_dedup_count", "kept_count")
    assert (first["status"], *(first[name] for name in counts)) == ("ok", 3, 4, 3, 3, 2)
    assert first["coverage"] == 2 / 3
    assert first["text"].startswith(HEADING)
    assert first["token_count"] == estimate_tokens([first["text"]])[0]
    assert first["cited_text"].startswith("## Documents to cite")
    assert first["cited_token_count"] == estimate_tokens([first["cited_text"]])[0]
    assert (second["cited_text"], second["cited_token_count"], second["max_tokens"]) == ("", 0, 4000)
    assert (second["status"], second["text"], second["coverage"], second["hit_count"]) == (
        "no_hits",
        "",
        0.0,
        0,
    )
    assert (first["error"], second["error"]) == (None, None)
    assert (first["uncovered_topics"], second["uncovered_topics"]) == (["frost (message 2)"], None)


def test_a_window_that_was_not_reranked_as_set_says_so() -> None:
    first, second = summarize(rerank_note="blocked (SAFETY)").to_dicts()
    assert first["status"] == "degraded"
    assert first["error"] == (
        "the reranker's answer was blocked (SAFETY); the order of the selection was kept"
    )
    assert first["text"].startswith(HEADING)
    assert (second["status"], second["error"]) == ("no_hits", None)


def test_a_window_in_a_language_that_the_model_does_not_know_says_so() -> None:
    first, second = summarize(verdict="not_known").to_dicts()
    assert (first["status"], first["language"], first["confidence"]) == ("degraded", "de", None)
    assert first["error"].startswith(
        "the window is in German, which hashing does not know; set embedding.model"
    )
    assert first["text"].startswith(HEADING)
    assert (second["status"], second["language"], second["error"]) == ("no_hits", None, None)


def test_every_reason_why_a_window_is_degraded_is_told() -> None:
    error = summarize(verdict="not_known", rerank_note="blocked (SAFETY)")["error"][0]
    assert "the window is in German" in error
    assert error.endswith("; the reranker's answer was blocked (SAFETY); the order of the selection was kept")


def test_the_assessment_of_a_window_is_in_its_row() -> None:
    columns = (
        "coverage",
        "part_count",
        "served_count",
        "unsure_count",
        "uncovered_count",
        "verdict",
        "confidence",
        "recommendation",
    )
    assert summarize().select(columns).rows() == [
        (2 / 3, 3, 2, 1, 0, "sufficient", 0.9, "nothing to do"),
        (0.0, 1, 0, 0, 1, "insufficient", 0.1, "add documents"),
    ]


def test_a_switched_off_retrieval_says_so() -> None:
    assert summarize(enabled=False)["status"].to_list() == ["disabled", "disabled"]
