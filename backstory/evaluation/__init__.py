"""Quality of retrieval and of posts against labelled data."""

from backstory.evaluation.comparison import Comparison, evaluate_folder, evaluate_set
from backstory.evaluation.excerpts import ANSWER_METRIC, EXCERPT_METRICS, compare_excerpts, score_excerpts
from backstory.evaluation.labelled_set import LabelledSet, read_labelled_set
from backstory.evaluation.post_scoring import POST_METRICS
from backstory.evaluation.posts import PostComparison, evaluate_posts
from backstory.evaluation.prediction import measure_prediction
from backstory.evaluation.scoring import METRICS, compare_methods, score_runs

__all__ = [
    "ANSWER_METRIC",
    "EXCERPT_METRICS",
    "METRICS",
    "POST_METRICS",
    "Comparison",
    "LabelledSet",
    "PostComparison",
    "compare_excerpts",
    "compare_methods",
    "evaluate_folder",
    "evaluate_posts",
    "evaluate_set",
    "measure_prediction",
    "read_labelled_set",
    "score_excerpts",
    "score_runs",
]
