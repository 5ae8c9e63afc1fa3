"""The benchmark of raters on a small set: the rater without errors and the oracle, through the selection that ships."""

from pathlib import Path

import polars as pl
import pytest

from backstory.operations.evaluation import read_labelled_set
from backstory.settings.models import Settings
from benchmarks.judges import cover_most, judge_set, keep_groups, tabulate
from tests.interfaces.cli.test_evaluation import labelled_set

SETTINGS = Settings.model_validate({"embedding": {"provider": "hashing"}, "rag": {"min_similarity": -1}})


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    folder = labelled_set(tmp_path_factory.mktemp("judges") / "set")
    return judge_set(read_labelled_set(folder), SETTINGS)


def test_a_rater_without_errors_reaches_the_oracle_and_shows_nothing_else(scores: pl.DataFrame) -> None:
    table = {method: row for method, *row in tabulate(scores).drop("group").select(
        "method", "windows", "ncov@5", "documents"
    ).iter_rows()}  # fmt: skip
    assert list(table) == ["no reranker", "0% wrong", "10% wrong", "20% wrong", "30% wrong", "oracle"]
    assert table["0% wrong"] == table["oracle"] == [1, 1.0, 2.0]
    assert table["no reranker"][2] >= table["oracle"][2]


def test_errors_are_the_same_in_every_run(scores: pl.DataFrame, tmp_path: Path) -> None:
    again = judge_set(read_labelled_set(labelled_set(tmp_path / "set")), SETTINGS)
    assert again.equals(scores)


def test_the_oracle_covers_most_topics_with_the_places_there_are() -> None:
    topics = {"one": {"a"}, "two": {"a", "b"}, "three": {"b", "c"}, "four": {"d"}}
    assert set(cover_most(["c", "a", "b", "d", "e"], topics, 3)) == {"a", "d"} | {"b"}
    assert len(cover_most(["c", "a", "b", "d"], topics, 2)) == 2
    assert cover_most(["e"], topics, 5) == []


def test_only_the_wanted_groups_are_kept(tmp_path: Path) -> None:
    labelled = read_labelled_set(labelled_set(tmp_path / "set"))
    assert keep_groups(labelled, ["set-n2"]).windows.equals(labelled.windows)
    assert keep_groups(labelled, ["set-n5"]).qrels.is_empty()
