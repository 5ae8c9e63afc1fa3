"""What ``backstory learn`` says of its trials."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from backstory.interfaces.cli.learn import describe_lesson
from backstory.operations.learning.learn import Lesson
from backstory.operations.learning.map_trial import MapTrial
from backstory.retrieval.evidence.probability_map import ProbabilityMap

GAINED = MapTrial(
    fitted=40,
    tested=40,
    since=date(2025, 3, 1),
    before=0.3,
    after=0.2,
    gain=0.1,
    gain_low=0.05,
    gain_high=0.15,
    map=ProbabilityMap(small=1.0, large=1.0, intercept=0.0),
)
UNSOUND = ProbabilityMap(small=-0.5, large=1.0, intercept=0.0)


@pytest.mark.parametrize(
    ("trial", "reason"),
    [
        (replace(GAINED, map=UNSOUND), "order of probabilities"),
        (replace(GAINED, gain_low=-0.05), "interval"),
        (replace(GAINED, gain_low=-0.05, map=UNSOUND), "interval"),
        (None, "takes labels"),
    ],
)
def test_the_reason_why_a_map_is_not_adopted_is_the_true_one(trial: MapTrial | None, reason: str) -> None:
    lesson = Lesson(trial=None, adopted=None, map_trial=trial, adopted_map=None, tells_of_parts=True)
    _, said, unchanged = describe_lesson(lesson)
    reasons = ("order of probabilities", "interval does not", "takes labels on")
    assert [each for each in reasons if each in said] == [each for each in reasons if each.startswith(reason)]
    assert unchanged == "Nothing has changed."
