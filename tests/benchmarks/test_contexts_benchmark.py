"""What contexts show of their relevant documents, on a set with topics and answers."""

from pathlib import Path

import polars as pl
import pytest

from backstory.settings.models import Settings
from benchmarks.contexts import Contexts, measure_contexts, measure_prediction

START = pl.Series(["2025-03-13T09:00:00Z"]).str.to_datetime(time_unit="us", time_zone="UTC")[0]
FILLER = " ".join(f"Sentence {number} tells of something else altogether." for number in range(20))
TEXT = f"{FILLER} The zinc washer seals the dripper. {FILLER}"
ANSWER = "the  zinc washer"
SETTINGS = Settings.model_validate(
    {"embedding": {"provider": "hashing"}, "context": {"max_tokens": 600}, "rag": {"min_similarity": -1}}
)


def write_set(folder: Path) -> Path:
    pl.DataFrame(
        {
            "doc_id": ["a", "b"], "title": ["Drippers", "Moths"], "text": [TEXT, "Moths come to a lamp."],
            "date": [None, None], "tags": [[], []],
        },
        schema_overrides={"date": pl.Datetime("us", "UTC"), "tags": pl.List(pl.String)},
    ).write_parquet(folder / "docs.parquet")  # fmt: skip
    pl.DataFrame(
        {
            "window_id": ["set-n1-001", "set-n1-002"], "msg_no": [0, 0], "timestamp": [START] * 2,
            "author": ["x", "y"], "message": ["which zinc washer seals the dripper?", "moths at the lamp"],
        }
    ).write_parquet(folder / "windows.parquet")  # fmt: skip
    labels = {
        "window_id": ["set-n1-001", "set-n1-002"],
        "doc_id": ["a", "b"],
        "rel": [1, 1],
        "topic": ["t1", "t2"],
    }
    pl.DataFrame({**labels, "answer": [ANSWER, None]}).write_parquet(folder / "qrels.parquet")
    topics = {"window_id": labels["window_id"], "msg_no": [0, 0], "topic": labels["topic"]}
    pl.DataFrame(topics).write_parquet(folder / "msg_topics.parquet")
    return folder


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return measure_contexts(write_set(tmp_path_factory.mktemp("set")), SETTINGS)


def test_the_passage_shows_the_asked_words_and_the_answer_and_the_beginning_does_not(
    contexts: Contexts,
) -> None:
    rows = {(row["method"], row["metric"]): row for row in contexts.excerpts.to_dicts()}
    assert rows["passage", "words shown"]["mean"] == 1.0
    assert rows["passage, as long as the beginning", "words shown"]["mean"] == 1.0
    assert 0.5 <= rows["beginning", "words shown"]["mean"] < 1.0
    assert rows["passage", "words shown"]["windows"] == 2
    answers = {method: row["mean"] for (method, metric), row in rows.items() if metric == "answer shown"}
    assert (answers["passage"], answers["passage, as long as the beginning"]) == (1.0, 1.0)
    assert answers["beginning"] == 0.0
    assert rows["passage", "answer shown"]["windows"] == 1
    short, head = (
        rows[method, "tokens"]["mean"] for method in ("passage, as long as the beginning", "beginning")
    )
    assert short <= head + 20


def test_windows_without_a_confidence_are_left_out_of_the_correlation() -> None:
    coverage = [0.0, 0.5, 1.0, 0.0]
    assessments = pl.DataFrame(
        {"confidence": [0.1, 0.5, 0.9, None], "ncov@5": coverage, "coverage@5": coverage}
    )
    rows = measure_prediction(assessments)
    assert rows["windows"].to_list() == [3, 3]
    assert rows["spearman"].to_list() == [1.0, 1.0]
