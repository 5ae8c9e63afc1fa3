"""The file of what was learned: a fit, a map, both or neither."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from backstory.base.errors import WorkspaceError
from backstory.retrieval.evidence.document_fit import FEATURES, DocumentFit, LearnedFit
from backstory.retrieval.evidence.learned import Learned, read_learned
from backstory.retrieval.evidence.probability_map import LearnedMap, ProbabilityMap
from tests.errors import raises

FIT = LearnedFit(
    fit=DocumentFit(dict.fromkeys(FEATURES, 0.5), intercept=-2.0, strength=0.5),
    embedder="e",
    source="set",
    windows=9,
    links=20,
    gain=0.1,
    gain_low=0.02,
    gain_high=0.2,
)
MAP = LearnedMap(
    map=ProbabilityMap(small=1.1, large=0.6, intercept=-0.4),
    embedder="f",
    source="set",
    pairs=900,
    gain=0.02,
    gain_low=0.01,
    gain_high=0.03,
)


@pytest.mark.parametrize(
    "learned", [Learned(), Learned(documents=FIT), Learned(probabilities=MAP), Learned(FIT, MAP)]
)
def test_what_was_learned_is_the_same_after_it_was_written(learned: Learned, tmp_path: Path) -> None:
    learned.write(tmp_path / "deep" / "learned.json")
    assert read_learned(tmp_path / "deep" / "learned.json") == learned
    assert read_learned(tmp_path / "absent.json") == Learned()


def test_only_what_was_learned_from_hits_of_the_embedder_is_used() -> None:
    learned = Learned(FIT, MAP)
    assert learned.of_embedder("e") == Learned(documents=FIT)
    assert learned.of_embedder("f") == Learned(probabilities=MAP)
    assert learned.of_embedder("g").describe() == ""
    assert all(part in learned.describe() for part in (FIT.fit.digest, MAP.map.digest))


@pytest.mark.parametrize(
    "change", [{"map": {**asdict(MAP.map), "large": -0.6}}, {"gain": "x"}], ids=["order", "number"]
)
def test_a_map_that_turns_the_order_and_a_gain_that_is_no_number_are_damage(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = tmp_path / "learned.json"
    Learned(probabilities=MAP).write(path)
    record = json.loads(path.read_text("utf-8"))
    record["probabilities"] |= change
    path.write_text(json.dumps(record), "utf-8")
    with raises(WorkspaceError, "damaged_record", path):
        read_learned(path)
