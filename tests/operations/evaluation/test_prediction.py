"""The correlation of the confidence with the coverage."""

import polars as pl

from backstory.operations.evaluation.prediction import measure_prediction


def test_windows_without_a_confidence_are_left_out_of_the_correlation() -> None:
    coverage = [0.0, 0.5, 1.0, 0.0]
    assessments = pl.DataFrame(
        {"confidence": [0.1, 0.5, 0.9, None], "ncov@5": coverage, "coverage@5": coverage}
    )
    rows = measure_prediction(assessments)
    assert rows["windows"].to_list() == [3, 3]
    assert rows["spearman"].to_list() == [1.0, 1.0]
