"""The claims with and without evidence that the benchmark of answers draws from a labelled set."""

from pathlib import Path

import polars as pl
import pytest

from backstory.operations.evaluation import LabelledSet, read_labelled_set
from benchmarks.answers import WITH_EVIDENCE, WITHOUT_EVIDENCE, choose_claims, name_files, write_workspace


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> LabelledSet:
    """Eight claims, the first two of which share a document, one window of two messages, and four other documents."""
    folder = tmp_path_factory.mktemp("claims") / "set"
    folder.mkdir()
    moment = pl.Series(["2025-03-13T09:00:00Z"]).str.to_datetime(time_unit="us", time_zone="UTC")[0]
    documents = [f"d{number}" for number in range(8)] + [f"other{number}" for number in range(4)]
    pl.DataFrame(
        {"doc_id": documents, "title": documents, "text": documents, "date": None, "tags": [[]] * 12},
        schema_overrides={"date": pl.Datetime("us", "UTC"), "tags": pl.List(pl.String)},
    ).write_parquet(folder / "docs.parquet")
    windows = [*(f"c{number}" for number in range(8)), "two", "two"]
    pl.DataFrame(
        {
            "window_id": windows, "msg_no": [*[0] * 9, 1], "timestamp": [moment] * 10, "author": ["x"] * 10,
            "message": [f"claim of {window}" for window in windows],
        }
    ).write_parquet(folder / "windows.parquet")  # fmt: skip
    labels = [*((f"c{number}", f"d{number}") for number in range(8)), ("c0", "d1"), ("two", "d7")]
    pl.DataFrame(
        [(window, document, 1, window) for window, document in labels],
        schema=["window_id", "doc_id", "rel", "topic"],
        orient="row",
    ).write_parquet(folder / "qrels.parquet")
    return read_labelled_set(folder)


@pytest.mark.parametrize("seed", range(6))
def test_half_of_the_claims_have_lost_their_evidence_and_the_others_have_all_of_it(
    labelled: LabelledSet, seed: int
) -> None:
    questions, documents = choose_claims(labelled, 6, 5, seed)
    kept = set(documents["document_id"])
    relevant = {f"claim of c{number}": {f"d{number}"} for number in range(8)}
    relevant["claim of c0"] |= {"d1"}
    without = [each for each in questions if each.group == WITHOUT_EVIDENCE]
    others = [each for each in questions if each.group == WITH_EVIDENCE]
    assert len(without) == 3
    assert 2 <= len(others) <= 3
    assert all(each.answerable is False and not kept & relevant[each.question] for each in without)
    assert all(set(each.documents) == relevant[each.question] <= kept for each in others)
    assert len(kept) == 5
    assert questions == choose_claims(labelled, 6, 5, seed)[0]


def test_the_workspace_holds_the_documents_under_the_paths_that_are_expected(
    labelled: LabelledSet, tmp_path: Path
) -> None:
    questions, documents = choose_claims(labelled, 6, 5, 1)
    write_workspace(tmp_path / "made", documents, "embedding: {provider: hashing}\n")
    written = {path.name for path in (tmp_path / "made" / "posts").iterdir()}
    assert len(written) == 5
    assert {uri for each in name_files(questions) for uri in each.documents} <= written


def test_scifact_has_as_many_claims_with_their_evidence_as_without(shared_data: Path) -> None:
    questions, documents = choose_claims(
        read_labelled_set(shared_data / "eval" / "scifact"), claims=200, documents=1000, seed=1
    )
    groups = [each.group for each in questions]
    assert (groups.count(WITH_EVIDENCE), groups.count(WITHOUT_EVIDENCE), len(documents)) == (100, 100, 1000)
