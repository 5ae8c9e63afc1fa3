"""Claims against labels: what serves what, what is missing, and what another set's documents serve."""

from pathlib import Path

import polars as pl
import pytest

from backstory.operations.evaluation import read_labelled_set
from backstory.settings.models import Settings
from benchmarks.claims import (
    ALL_DOCUMENTS,
    HALF_OF_TOPICS,
    OTHER_DOCUMENTS,
    SMALL_TALK,
    measure_claims,
)
from benchmarks.part_labels import label_parts
from benchmarks.reliability import list_columns, measure_calibration_error, sum_bins
from tests.builders.windows import make_window_chunks

TOPICS = ["drip irrigation line", "clicking backup disk", "moths around lamp", "night train seats"]
SETTINGS = Settings.model_validate({"embedding": {"provider": "hashing"}})


def write_set(folder: Path, topics: list[str], *, with_messages: bool = True) -> Path:
    folder.mkdir()
    moment = pl.Series(["2025-03-13T09:00:00Z"]).str.to_datetime(time_unit="us", time_zone="UTC")[0]
    names = [f"d{place}" for place in range(len(topics))]
    pl.DataFrame(
        {"doc_id": names, "title": topics, "text": topics, "date": [None] * 4, "tags": [[]] * 4},
        schema_overrides={"date": pl.Datetime("us", "UTC"), "tags": pl.List(pl.String)},
    ).write_parquet(folder / "docs.parquet")
    pl.DataFrame(
        {
            "window_id": ["w"] * 4, "msg_no": range(4), "timestamp": [moment] * 4, "author": ["x"] * 4,
            "message": [f"have you seen the {topic} of ours, which is gone again?" for topic in topics],
        }
    ).write_parquet(folder / "windows.parquet")  # fmt: skip
    pl.DataFrame({"window_id": ["w"] * 4, "doc_id": names, "rel": [1] * 4, "topic": topics}).write_parquet(
        folder / "qrels.parquet"
    )
    if with_messages:
        pl.DataFrame({"window_id": ["w"] * 4, "msg_no": range(4), "topic": topics}).write_parquet(
            folder / "msg_topics.parquet"
        )
    return folder


def test_parts_have_the_topics_of_their_messages_or_of_their_window(tmp_path: Path) -> None:
    chunks = make_window_chunks(
        [
            {"chunk_id": "q0", "text": "a", "chunk_index": 0, "first_message": 0, "last_message": 0},
            {"chunk_id": "q1", "text": "b", "chunk_index": 1, "first_message": 1, "last_message": 3},
        ],
        window_id="w",
    )
    labelled = read_labelled_set(write_set(tmp_path / "set", TOPICS))
    labels = label_parts(labelled, chunks)
    by_part = dict(labels.topics.group_by("query_chunk_id").agg(pl.col("topic").sort()).iter_rows())
    assert labels.by_message
    assert by_part == {"q0": [TOPICS[0]], "q1": sorted(TOPICS[1:])}
    pairs = pl.DataFrame(
        {"window_id": ["w"] * 3, "query_chunk_id": ["q0", "q0", "q1"], "document_id": ["d0", "d1", "d1"]}
    )
    assert labels.serves(labelled, pairs).to_list() == [True, False, True]
    without = read_labelled_set(write_set(tmp_path / "without", TOPICS, with_messages=False))
    by_window = label_parts(without, chunks)
    assert not by_window.by_message
    assert by_window.serves(without, pairs).to_list() == [True, True, True]


def test_claims_are_measured_under_every_condition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    own = write_set(tmp_path / "own", TOPICS)
    other = write_set(
        tmp_path / "other", [f"{word} quark {word}" for word in ("muon", "pion", "kaon", "gluon")]
    )
    talk = tmp_path / "talk.txt"
    talk.write_text("thanks!\n\nok see you tomorrow\nhahaha\n", encoding="utf-8")
    claims = measure_claims(own, SETTINGS, other, talk)
    table = {(row["condition"], row["measure"]): row for row in claims.table.to_dicts()}
    assert {condition for condition, _ in table} == {
        *(ALL_DOCUMENTS, HALF_OF_TOPICS, OTHER_DOCUMENTS, SMALL_TALK)
    }
    assert table[ALL_DOCUMENTS, "recall of claims"]["mean"] > 0.5
    assert ("all documents", "removed topics named uncovered") not in table
    assert {
        (HALF_OF_TOPICS, f"removed topics {said}") for said in ("named uncovered", "said to be served")
    } <= set(table)
    assert table[OTHER_DOCUMENTS, "parts served"]["mean"] < table[ALL_DOCUMENTS, "parts served"]["mean"]
    assert table[SMALL_TALK, "verdict nothing_asked"]["mean"] == 1
    assert table[SMALL_TALK, "parts held for small talk"]["mean"] == 1
    assert table[SMALL_TALK, "parts named uncovered"]["mean"] == 0
    assert (SMALL_TALK, "parts served") not in table
    assert table[ALL_DOCUMENTS, "parts with a topic held for small talk"]["mean"] == 0
    assert all(row["low"] <= row["mean"] <= row["high"] for row in table.values())
    assert claims.as_record()["set"] == "own"


def test_the_calibration_error_is_the_gap_in_each_bin() -> None:
    pairs = pl.DataFrame(
        {
            "window_id": ["w", "w", "w", "x"],
            "probability": [0.31, 0.39, 0.95, 1.0],
            "true": [True, False, True, False],
        }
    )
    binned = sum_bins(pairs, "any")
    assert set(binned.columns) == {"window_id", *list_columns("any")}
    sums = binned.select(pl.col(list_columns("any")).sum()).row(0, named=True)
    error = measure_calibration_error("any")
    assert error(sums) == pytest.approx((abs(0.7 - 1) + abs(1.95 - 1)) / 4)
    assert error(dict.fromkeys(sums, 0.0)) is None
