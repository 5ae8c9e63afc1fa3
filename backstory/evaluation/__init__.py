"""Retrieval quality against labelled data."""

from backstory.evaluation.comparison import Comparison, evaluate_folder, evaluate_set
from backstory.evaluation.labelled_set import LabelledSet, read_labelled_set
from backstory.evaluation.prediction import measure_prediction
from backstory.evaluation.scoring import METRICS, compare_methods, score_runs

__all__ = [
    "METRICS",
    "Comparison",
    "LabelledSet",
    "compare_methods",
    "evaluate_folder",
    "evaluate_set",
    "measure_prediction",
    "read_labelled_set",
    "score_runs",
]
