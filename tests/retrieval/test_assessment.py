"""The assessment without labels: what serves the parts of a window, what does not, and what is advised."""

from collections.abc import Sequence
from typing import Any

import polars as pl
import pytest

from backstory import evaluate_retrieval
from backstory.base.ids import WHOLE_WINDOW
from backstory.retrieval.assessment import judge_parts
from backstory.settings.models import RAGSettings
from backstory.storage.tables.contracts import empty
from backstory.storage.tables.schemas import Decisions, WindowChunks, Windows
from tests.builders.decisions import make_decisions
from tests.builders.windows import make_window_chunks, make_windows

MEASURED = "local:granite-embedding-30m-english:0123456789ab:384"
"""A space with which the model of pairs was measured."""

WHOLE = f"w#{WHOLE_WINDOW}"

Hit = tuple[int, str, float, str]
"""Number of the part (-1 for the whole window), document, probability, and cause.

A cause like ``near_duplicate of lamp`` names the document whose chunk it gave way to.
"""


def cut(texts: Sequence[str], messages: int = 1) -> pl.DataFrame:
    rows = [
        {
            "chunk_id": f"q{place}",
            "text": text,
            "chunk_index": place,
            "first_message": place * messages,
            "last_message": (place + 1) * messages - 1,
        }
        for place, text in enumerate(texts)
    ]
    return make_window_chunks(rows, window_id="w") if rows else empty(WindowChunks)


def decide(hits: Sequence[Hit]) -> pl.DataFrame:
    rows = [
        {
            "query_chunk_id": WHOLE if place < 0 else f"q{place}",
            "chunk_id": f"c-{document}-{place}" if cause == "duplicate_document" else f"c-{document}",
            "document_id": document,
            "similarity": 0.7,
            "probability": probability,
            "kept": cause == "kept",
            "cause": cause.partition(" of ")[0],
            "because_of": f"c-{better}" if (better := cause.partition(" of ")[2]) else None,
        }
        for place, document, probability, cause in hits
    ]
    return make_decisions(rows, window_id="w") if rows else empty(Decisions)


def states(texts: Sequence[str], hits: Sequence[Hit]) -> list[str]:
    return judge_parts(cut(texts), decide(hits))["state"].to_list()


def assess(
    texts: Sequence[str],
    hits: Sequence[Hit],
    *,
    rag: RAGSettings | None = None,
    searchable: bool = True,
    embedder_id: str = MEASURED,
    known_languages: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """Assess one window by the texts of its parts and their hits."""
    chunks = cut(texts)
    table = evaluate_retrieval(
        make_windows([{"window_id": "w", "message_ids": ["m"]}]),
        chunks,
        judge_parts(chunks, decide(hits)),
        settings=rag or RAGSettings(),
        searchable=searchable,
        embedder_id=embedder_id,
        known_languages=known_languages,
    )
    return table.row(0, named=True)


TOPICS = ["the frost cracked the elbow", "the solar panel makes no power", "the night train was full"]


def test_each_part_has_the_state_that_its_hits_give_it() -> None:
    hits: list[Hit] = [
        (0, "frost", 0.9, "kept"), (0, "solar", 0.8, "not_selected"),
        (1, "solar", 0.6, "not_selected"), (1, "frost", 0.2, "kept"),
        (2, "frost", 0.39, "kept"), (2, "solar", 0.49, "not_selected"),
        (3, "frost", 0.19, "kept"),
    ]  # fmt: skip
    expected = ["served", "beyond_limit", "unsure", "uncovered", "not_asked"]
    assert states([*TOPICS, "the whale costume tore", "thanks!"], hits) == expected


def test_what_was_chosen_for_several_parts_serves_one_from_a_lower_probability() -> None:
    hits: list[Hit] = [(0, "frost", 0.4, "kept"), (1, "solar", 0.4, "not_selected")]
    assert states(TOPICS[:2], hits) == ["served", "unsure"]
    assert states(TOPICS[:1], hits[:1]) == ["unsure"]


@pytest.mark.parametrize("cause", ["kept", "not_selected"])
def test_an_unsure_part_names_the_chunk_to_look_at(cause: str) -> None:
    hits: list[Hit] = [(0, "frost", 0.9, "kept"), (1, "solar", 0.3, cause), (1, "lamp", 0.25, "not_selected")]
    part = judge_parts(cut(TOPICS[:2]), decide(hits)).row(1, named=True)
    assert (part["state"], part["chunk_id"], part["probability"]) == ("unsure", "c-solar", 0.3)
    assert part["documents"] == []


def test_the_answer_names_the_chunk_and_the_documents_of_a_part() -> None:
    hits: list[Hit] = [(0, "a", 0.7, "kept"), (0, "b", 0.9, "kept"), (0, "c", 0.95, "not_selected")]
    row = judge_parts(cut(TOPICS[:1]), decide(hits)).row(0, named=True)
    assert (row["chunk_id"], row["document_id"], row["probability"]) == ("c-b", "b", 0.9)
    assert row["documents"] == ["b", "a"]


def test_any_chunk_of_a_chosen_document_serves_a_part() -> None:
    assert states(TOPICS[:2], [(0, "d", 0.9, "kept"), (1, "d", 0.8, "duplicate_document")]) == ["served"] * 2
    assert states(TOPICS[:2], [(0, "d", 0.9, "kept"), (1, "e", 0.8, "not_selected")])[1] == "beyond_limit"


def test_what_nearly_repeats_a_shown_chunk_counts_as_shown() -> None:
    kept = (0, "lamp", 0.9, "kept")
    assert states(TOPICS[:2], [kept, (1, "copy", 0.9, "near_duplicate of lamp")]) == ["served", "served"]
    [_, part] = judge_parts(
        cut(TOPICS[:2]), decide([kept, (1, "copy", 0.9, "near_duplicate of lamp")])
    ).to_dicts()
    assert part["documents"] == ["lamp"]
    assert states(TOPICS[:2], [kept, (1, "copy", 0.9, "near_duplicate of other")])[1] == "beyond_limit"


def test_small_talk_is_neither_served_nor_uncovered_nor_counted() -> None:
    found = assess([TOPICS[0], "thanks!", "ok see you"], [(0, "frost", 0.9, "kept")])
    assert (found["part_count"], found["served_count"], found["uncovered_count"]) == (1, 1, 0)
    assert (found["served_share"], found["verdict"]) == (1.0, "sufficient")


def test_a_window_of_small_talk_asks_for_nothing() -> None:
    found = assess(["thanks!", "ok see you tomorrow"], [(0, "frost", 0.9, "kept")])
    assert (found["verdict"], found["confidence"], found["part_count"]) == ("nothing_asked", None, 0)
    assert found["recommendation"] == "nothing to do: the window asks for nothing"
    assert assess([], [])["verdict"] == "nothing_asked"


@pytest.mark.parametrize(
    ("served", "of", "verdict"),
    [
        (10, 10, "sufficient"),
        (9, 10, "sufficient"),
        (8, 10, "partial"),
        (2, 10, "partial"),
        (1, 10, "insufficient"),
        (0, 10, "insufficient"),
    ],
)
def test_the_verdict_follows_the_share_of_the_messages(served: int, of: int, verdict: str) -> None:
    hits: list[Hit] = [(place, f"d{place}", 0.9, "kept") for place in range(served)]
    hits += [(place, "d", 0.1, "below_threshold") for place in range(served, of)]
    found = assess([TOPICS[0]] * of, hits)
    assert (found["verdict"], found["served_share"]) == (verdict, served / of)
    assert found["recommendation"].startswith(f"{served} of {of} parts served; ")
    assert ("nothing to do" in found["recommendation"]) == (served == of)


@pytest.mark.parametrize(("probability", "verdict"), [(0.12, "insufficient"), (0.3, "partial")])
def test_what_many_documents_may_serve_is_not_insufficient(probability: float, verdict: str) -> None:
    hits: list[Hit] = [(place, f"d{place}", probability, "kept") for place in range(1, 10)]
    assert assess([TOPICS[0]] * 10, hits)["verdict"] == "insufficient"
    assert assess([TOPICS[0]] * 10, [(0, "frost", 0.6, "kept"), *hits])["verdict"] == verdict


@pytest.mark.parametrize(
    ("served", "of", "verdict"),
    [(3, 100, "insufficient"), (4, 100, "partial"), (8, 400, "insufficient"), (9, 400, "partial")],
)
def test_a_long_window_of_which_more_is_served_than_by_chance_is_partial(
    served: int, of: int, verdict: str
) -> None:
    hits: list[Hit] = [(place, "frost", 0.9, "kept") for place in range(served)]
    hits += [(place, "frost", 0.01, "below_threshold") for place in range(served, of)]
    assert assess([TOPICS[0]] * of, hits)["verdict"] == verdict


def test_a_part_of_more_messages_weighs_more() -> None:
    chunks = cut(TOPICS[:2]).with_columns(last_message=pl.Series([0, 9], dtype=pl.Int64))
    parts = judge_parts(chunks, decide([(0, "frost", 0.9, "kept")]))
    assert parts["weight"].to_list() == [1, 9 - 1 + 1]


def test_the_confidence_is_the_expected_share() -> None:
    hits: list[Hit] = [
        (0, "frost", 0.9, "kept"),
        (1, "frost", 0.3, "kept"),
        (1, "solar", 0.8, "not_selected"),
    ]
    assert assess(TOPICS[:2], hits)["confidence"] == pytest.approx((0.9 + 0.3) / 2)


def test_what_to_do_is_said_for_every_reason() -> None:
    hits: list[Hit] = [
        (0, "a", 0.9, "kept"), (1, "b", 0.9, "over_budget"), (2, "c", 0.9, "not_selected"),
        (3, "d", 0.1, "kept"), (4, "e", 0.3, "kept"),
    ]  # fmt: skip
    texts = [*TOPICS, "the whale costume tore", "the loaf sank"]
    found = assess(texts, hits, rag=RAGSettings(top_k=2))
    assert found["recommendation"].split("; ") == [
        "1 of 5 parts served",
        "raise context.max_tokens: documents for 1 more part did not fit",
        "raise rag.top_k above 2: documents beyond this limit serve 1 more part",
        "look at the documents found: they may serve 1 more part",
        "add documents: nothing in the index serves 1 part",
    ]
    assert (found["beyond_limit_count"], found["unsure_count"], found["uncovered_count"]) == (2, 1, 1)


def test_no_hit_at_all_points_to_dates_and_filters() -> None:
    found = assess(TOPICS, [])
    assert found["verdict"] == "insufficient"
    assert "rag.as_of" in found["recommendation"]


@pytest.mark.parametrize("known_languages", [None, ("de",)])
def test_without_any_document_no_window_has_what_it_needs(known_languages: tuple[str, ...] | None) -> None:
    found = assess(TOPICS, [], searchable=False, known_languages=known_languages)
    assert (found["verdict"], found["confidence"]) == ("insufficient", 0.0)
    assert found["recommendation"] == "add documents: there is none to search"


def test_switched_off_retrieval_says_how_to_switch_it_on() -> None:
    found = assess(TOPICS, [], rag=RAGSettings(enabled=False))
    assert (found["verdict"], found["confidence"]) == ("insufficient", 0.0)
    assert found["recommendation"].startswith("set rag.enabled")


def test_a_plan_that_asks_the_whole_window_has_one_part() -> None:
    found = assess(TOPICS, [(-1, "frost", 0.9, "kept")])
    assert (found["part_count"], found["served_share"]) == (1, 1.0)
    both = assess(TOPICS[:2], [(-1, "frost", 0.9, "kept"), (0, "frost", 0.9, "kept")])
    assert (both["part_count"], both["served_share"]) == (2, 0.5)


GERMAN = ["Ist der Tropfschlauch schon wieder kaputt?", "Ja, der Frost hat das Winkelstück gesprengt"]


def test_a_window_in_a_language_that_the_model_does_not_know_gets_no_verdict() -> None:
    found = assess(GERMAN, [(0, "frost", 0.9, "kept")], known_languages=("en", "fr"))
    assert (found["language"], found["verdict"], found["confidence"]) == ("de", "not_known", None)
    assert found["language_known"] is False
    assert "a service that knows German" in found["recommendation"]


@pytest.mark.parametrize("known", [None, ("en", "de")])
def test_a_window_in_a_language_that_the_model_knows_is_judged(known: tuple[str, ...] | None) -> None:
    found = assess(GERMAN, [(0, "a", 0.9, "kept"), (1, "b", 0.9, "kept")], known_languages=known)
    assert (found["language"], found["verdict"]) == ("de", "sufficient")


def test_a_model_that_was_not_measured_gives_counts_and_no_verdict() -> None:
    found = assess(TOPICS[:1], [(0, "frost", 0.9, "kept")], embedder_id="gemini:some-model:768")
    assert (found["verdict"], found["confidence"], found["served_count"]) == ("not_known", None, 1)
    assert "not measured with gemini:some-model:768" in found["recommendation"]


def test_the_language_of_a_window_is_that_of_its_texts_taken_once() -> None:
    # The second granularity has nothing of the short English messages.
    texts = ["the frost cracked the elbow", "does anyone have a spare one", GERMAN[0], " ".join(GERMAN)]
    chunks = cut(texts).with_columns(granularity=pl.Series(["messages:1"] * 3 + ["messages:2"]))
    table = evaluate_retrieval(
        make_windows([{"window_id": "w", "message_ids": ["m"]}]),
        chunks,
        judge_parts(chunks, empty(Decisions)),
        settings=RAGSettings(),
        embedder_id=MEASURED,
    )
    assert table["language"].to_list() == ["en"]


def test_no_windows_give_no_rows() -> None:
    parts = judge_parts(empty(WindowChunks), empty(Decisions))
    table = evaluate_retrieval(
        empty(Windows), empty(WindowChunks), parts, settings=RAGSettings(), embedder_id=MEASURED
    )
    assert table.is_empty()
