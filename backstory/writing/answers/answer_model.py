"""The models of answers: how well a sentence answers a question, and the probability that a quote answers it.

Both are logistic regressions on the features of :mod:`backstory.writing.answers.answer_features`. ``python -m
benchmarks.train_answers`` fits them on labelled questions and writes ``answer_model.json``; docs/studies/answers.md has
the figures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from backstory.retrieval.evidence.logistic import LogisticModel

MODEL_FILE: Final = Path(__file__).with_name("answer_model.json")


@dataclass(frozen=True)
class AnswerModel:
    """The fitted models.

    Attributes:
        sentence: Orders the sentences of the passages of a question.
        quote: Estimates whether the quote that was chosen answers it.
    """

    sentence: LogisticModel
    quote: LogisticModel

    def write(self, path: Path) -> None:
        """Write the models as JSON."""
        record = {"sentence": self.sentence.as_record(), "quote": self.quote.as_record()}
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


@cache
def read_answer_model(path: Path = MODEL_FILE) -> AnswerModel:
    """Read the models that ship with the library, or others."""
    record = json.loads(path.read_text(encoding="utf-8"))
    return AnswerModel(*(LogisticModel.from_record(record[name]) for name in ("sentence", "quote")))
