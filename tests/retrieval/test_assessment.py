"""The assessment without labels: what covers a window, what does not, and what is advised."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from backstory import evaluate_retrieval
from backstory.base.ids import WHOLE_WINDOW
from backstory.retrieval.assessment import estimate_confidence
from backstory.settings.models import RAGSettings
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Contexts, Decisions, WindowChunks, Windows

THRESHOLD = 0.6
# The words that the corpus knows, and how rare they are.
RARITY = {"frost": 1.0, "elbow": 1.0, "solar": 1.0, "panel": 1.0, "train": 1.0, "lamp": 1.0, "day": 0.1}


FITTED = "local:granite-embedding-30m-english:0123456789ab:384"
"""A space for which the confidence was fitted."""


def terms_of(texts: Sequence[str]) -> pl.DataFrame:
    numbers = {word: number for number, word in enumerate(RARITY)}
    rows = [
        (place, numbers[word], RARITY[word])
        for place, text in enumerate(texts)
        for word in sorted(set(text.split()) & set(RARITY))
    ]
    schema = {"text": pl.UInt32, "term": pl.Int64, "rarity": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def assess(
    texts: Sequence[str],
    hits: Sequence[tuple[int, str, float, str]],
    *,
    rag: RAGSettings | None = None,
    searchable: bool = True,
    embedder_id: str = FITTED,
    known_languages: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """Assess one window: the texts of its query chunks, and hits of (chunk, document, similarity, cause).

    A cause like ``near_duplicate of lamp`` names the document whose chunk it gave way to.
    """
    windows = pl.DataFrame({"window_id": ["w"]})
    chunks = empty(WindowChunks).clear()
    if texts:
        chunks = pl.DataFrame({"chunk_id": [f"q{i}" for i in range(len(texts))], "text": list(texts)})
        chunks = chunks.with_columns(window_id=pl.lit("w"), granularity=pl.lit("messages:1"))
    rows = [
        (
            "w", WHOLE if i < 0 else f"q{i}", f"c-{document}", document, similarity, cause == "kept",
            cause.partition(" of ")[0], f"c-{better}" if (better := cause.partition(" of ")[2]) else None,
        )
        for i, document, similarity, cause in hits
    ]  # fmt: skip
    names = (
        "window_id", "query_chunk_id", "chunk_id", "document_id", "similarity", "kept", "cause", "because_of",
    )  # fmt: skip
    decisions = empty(Decisions).select(names)
    if rows:
        decisions = pl.DataFrame(rows, schema=dict(decisions.schema), orient="row")
    kept = decisions.filter("kept").unique("document_id", maintain_order=True)
    contexts = kept.select("window_id", title="document_id", content=pl.lit(""))
    table = evaluate_retrieval(
        windows, chunks, decisions, contexts,
        terms_of=terms_of, min_similarity=THRESHOLD, settings=rag or RAGSettings(), searchable=searchable,
        embedder_id=embedder_id, known_languages=known_languages,
    )  # fmt: skip
    return table.row(0, named=True)


WHOLE = f"w#{WHOLE_WINDOW}"


def test_close_documents_for_every_part_suffice() -> None:
    found = assess(
        ["frost elbow", "solar panel"], [(0, "frost elbow", 0.85, "kept"), (1, "solar panel", 0.85, "kept")]
    )
    assert (found["served_share"], found["term_coverage"]) == (1.0, 1.0)
    assert found["score_margin"] == pytest.approx(0.25)
    assert (found["verdict"], found["recommendation"]) == ("sufficient", "nothing to do")
    assert found["confidence"] > 0.8


@pytest.mark.parametrize("known_languages", [None, ("de",)])
def test_without_any_document_no_window_has_what_it_needs(known_languages: tuple[str, ...] | None) -> None:
    texts = ["does anyone have a spare elbow", "the frost cracked the one that we had"]
    found = assess(texts, [], searchable=False, known_languages=known_languages)
    assert (found["verdict"], found["confidence"]) == ("insufficient", 0.0)
    assert found["recommendation"] == "add documents: there is none to search"


def test_a_part_is_shown_what_stands_for_a_near_duplicate() -> None:
    texts = ["frost elbow", "solar panel"]
    hits = [(0, "frost elbow", 0.9, "kept"), (1, "copy", 0.9, "near_duplicate of frost elbow")]
    assert assess(texts, hits)["score_margin"] == pytest.approx(0.3)
    dropped = [hits[0], (1, "copy", 0.9, "near_duplicate of another")]
    assert assess(texts, dropped)["score_margin"] == pytest.approx(0.15)


def test_words_without_weight_cover_nothing() -> None:
    RARITY["everywhere"] = 0.0
    try:
        assert assess(["everywhere"], [])["term_coverage"] == 0.0
    finally:
        del RARITY["everywhere"]


def test_terms_weigh_by_rarity_and_only_known_ones_count() -> None:
    found = assess(["frost day unheard"], [(0, "frost", 0.8, "kept")])
    assert found["term_coverage"] == pytest.approx(1 / 1.1)


def test_parts_that_no_place_was_left_for_ask_for_more_places() -> None:
    hits = [(i, f"d{i}", 0.85, "kept" if i < 2 else "not_selected") for i in range(10)]
    found = assess(["frost elbow train"] * 10, hits, rag=RAGSettings(top_k=2))
    assert found["verdict"] == "insufficient"
    assert found["served_share"] == 0.2
    assert found["recommendation"] == (
        "raise rag.top_k above 2: 8 of 10 parts found documents beyond this limit"
    )


def test_parts_that_did_not_fit_ask_for_more_tokens() -> None:
    hits = [(i, f"d{i}", 0.85, "kept" if i < 1 else "over_budget") for i in range(10)]
    found = assess(["frost elbow train"] * 10, hits)
    assert found["recommendation"].startswith("raise context.max_tokens: 9 of 10 parts")


def test_topics_that_the_corpus_lost_make_a_context_insufficient() -> None:
    hits = [(0, "frost elbow", 0.85, "kept")] + [(i, "other", 0.4, "below_threshold") for i in range(1, 6)]
    found = assess(["frost elbow lamp", *["solar panel train"] * 5], hits)
    assert found["verdict"] == "insufficient"
    assert found["recommendation"] == "add documents: 5 of 6 parts found nothing above 0.6"


def test_more_places_are_not_advised_where_they_would_not_help() -> None:
    hits = [(i, f"d{i}", 0.61, "kept" if i < 2 else "not_selected") for i in range(10)]
    found = assess(["frost elbow train"] * 10, hits)
    assert found["recommendation"].startswith("add documents: those found are barely above 0.6")


def test_hits_just_below_the_threshold_advise_to_lower_it() -> None:
    hits = [(i, f"d{i}", 0.58, "below_threshold") for i in range(4)]
    found = assess(["frost elbow train"] * 4, hits)
    assert found["recommendation"] == "lower rag.min_similarity: 4 of 4 parts came within 0.05 of 0.6"


def test_small_talk_does_not_speak_against_a_context() -> None:
    served = [(0, "frost elbow", 0.85, "kept")]
    talk = [(i, "other", 0.4, "below_threshold") for i in range(1, 9)]
    alone = assess(["frost elbow"], served)
    among = assess(["frost elbow", *["good day to you"] * 8], served + talk)
    assert among["verdict"] == alone["verdict"] == "sufficient"
    assert among["score_margin"] > 0.75 * alone["score_margin"]


def test_small_talk_alone_is_no_reason_to_act() -> None:
    found = assess(["good day to you"] * 3, [(0, "other", 0.4, "below_threshold")])
    assert (found["verdict"], found["confidence"]) == ("sufficient", 0.5)
    assert found["recommendation"].startswith("nothing to do: the window has no words of the corpus")


def test_another_chunk_of_a_shown_document_counts_for_a_part() -> None:
    kept = (0, "d", 0.85, "kept")
    shown = assess(["frost elbow", "frost train"], [kept, (1, "d", 0.8, "duplicate_document")])
    hidden = assess(["frost elbow", "frost train"], [kept, (1, "e", 0.8, "not_selected")])
    assert shown["score_margin"] == pytest.approx((0.25 + 0.2) / 2)
    assert hidden["score_margin"] == pytest.approx(0.25 / 2)


def test_no_hit_at_all_points_to_dates_and_filters() -> None:
    found = assess(["frost elbow train lamp"] * 2, [])
    assert found["verdict"] == "insufficient"
    assert "rag.as_of" in found["recommendation"]


def test_a_window_without_parts_gets_a_row() -> None:
    found = assess([], [])
    assert (found["served_share"], found["verdict"]) == (0.0, "sufficient")


def test_a_plan_that_asks_the_whole_window_has_one_part() -> None:
    found = assess(["frost", "elbow", "train"], [(-1, "frost elbow", 0.85, "kept")])
    assert found["served_share"] == 1.0
    both = assess(["frost", "elbow"], [(-1, "frost elbow", 0.85, "kept"), (0, "x", 0.4, "below_threshold")])
    assert both["served_share"] == pytest.approx(1 / 3)


def test_a_whole_window_that_found_nothing_close_counts_by_its_words() -> None:
    found = assess(["frost", "elbow", "train"], [(-1, "x", 0.4, "below_threshold")])
    assert found["recommendation"] == "add documents: 1 of 1 parts found nothing above 0.6"


def test_switched_off_retrieval_says_how_to_switch_it_on() -> None:
    found = assess(["frost elbow"], [], rag=RAGSettings(enabled=False))
    assert (found["verdict"], found["confidence"]) == ("insufficient", 0.0)
    assert found["recommendation"].startswith("set rag.enabled")


GERMAN = ["Ist der Tropfschlauch schon wieder kaputt?", "Ja, der Frost hat das Winkelstück gesprengt"]


@pytest.mark.parametrize("cause", ["kept", "below_threshold"])
def test_a_window_in_a_language_that_the_model_does_not_know_gets_no_verdict(cause: str) -> None:
    found = assess(GERMAN, [(0, "frost elbow", 0.85, cause)], known_languages=("en", "fr"))
    assert (found["language"], found["verdict"], found["confidence"]) == ("de", "unknown", None)
    assert "a service that knows German" in found["recommendation"]


@pytest.mark.parametrize("known", [None, ("en", "de")])
def test_a_window_in_a_language_that_the_model_knows_is_judged(known: tuple[str, ...] | None) -> None:
    found = assess(GERMAN, [(0, "a", 0.85, "kept"), (1, "b", 0.85, "kept")], known_languages=known)
    assert (found["language"], found["verdict"]) == ("de", "sufficient")


def test_a_window_whose_language_cannot_be_told_is_judged() -> None:
    found = assess(["frost"], [(0, "frost", 0.85, "kept")], known_languages=("en",))
    assert (found["language"], found["verdict"]) == (None, "sufficient")
    assert assess([], [], known_languages=("en",))["verdict"] == "sufficient"


def test_switched_off_retrieval_is_insufficient_in_every_language() -> None:
    found = assess(GERMAN, [], rag=RAGSettings(enabled=False), known_languages=("en",))
    assert (found["language"], found["verdict"], found["confidence"]) == ("de", "insufficient", 0.0)


def test_the_language_of_a_window_is_that_of_its_texts_taken_once() -> None:
    # The second granularity has nothing of the short English messages.
    chunks = pl.DataFrame(
        {
            "window_id": ["w"] * 4,
            "chunk_id": ["a", "b", "c", "d"],
            "granularity": ["messages:1"] * 3 + ["messages:2"],
            "text": [
                "the frost cracked the elbow",
                "does anyone have a spare one",
                GERMAN[0],
                " ".join(GERMAN),
            ],
        }
    )
    table = evaluate_retrieval(
        pl.DataFrame({"window_id": ["w"]}), chunks, empty(Decisions), empty(Contexts),
        terms_of=terms_of, min_similarity=THRESHOLD, settings=RAGSettings(), embedder_id=FITTED,
    )  # fmt: skip
    assert table["language"].to_list() == ["en"]


def test_confidence_rises_with_the_margin_as_a_share_of_what_the_threshold_leaves() -> None:
    margins = pl.DataFrame({"margin": [0.0, 0.05, 0.2]})
    low, middle, high = margins.select(estimate_confidence(pl.col("margin"), THRESHOLD)).to_series()
    assert 0 < low < middle < high < 1
    [strict] = margins[1:2].select(estimate_confidence(pl.col("margin") / 2, 0.8)).to_series()
    assert strict == pytest.approx(middle)


def test_a_space_without_a_fit_gets_no_probability_for_what_it_shows() -> None:
    shown = [(0, "frost", 0.9, "kept")]
    assert assess(["frost elbow"], shown)["verdict"] == "sufficient"
    found = assess(["frost elbow"], shown, embedder_id="hashing:words:256")
    assert (found["verdict"], found["confidence"], found["language_known"]) == ("unknown", None, True)
    assert "not known for hashing:words:256" in found["recommendation"]


@pytest.mark.parametrize("embedder_id", [FITTED, "hashing:words:256"])
def test_nothing_shown_is_insufficient_in_every_space(embedder_id: str) -> None:
    missed = [(0, "frost", 0.3, "below_threshold")]
    found = assess(["frost elbow solar panel"], missed, embedder_id=embedder_id)
    assert (found["verdict"], found["confidence"] < 0.01) == ("insufficient", True)


def test_no_windows_give_no_rows() -> None:
    assert evaluate_retrieval(
        empty(Windows), empty(WindowChunks), empty(Decisions), empty(Contexts),
        terms_of=terms_of, min_similarity=THRESHOLD, settings=RAGSettings(), embedder_id=FITTED,
    ).is_empty()  # fmt: skip
