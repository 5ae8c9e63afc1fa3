"""Fit the models of answers on labelled questions, and measure them on documents that they were not fitted on.

``python -m benchmarks.train_answers SET -w WORKSPACE [--write]`` asks the questions of a workspace, and takes the
sentences that share words with an expected quote for right. The questions of one document are in one of ten folds, and
what is printed of a fold is by models of the others. The model of quotes is fitted on odds of such models, too. Lists
and summaries are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from backstory.interfaces.library.answering import SnapshotSources
from backstory.interfaces.library.corpus import CorpusReader
from backstory.interfaces.library.evaluation import (
    Alternatives,
    LabelledQuestion,
    read_question_set,
    share_words,
)
from backstory.interfaces.library.search import SearchFilters
from backstory.interfaces.library.snapshots import Snapshots
from backstory.operations.scoring import area_under_curve
from backstory.pipeline.workspace import open_workspace
from backstory.retrieval.evidence.logistic import LogisticModel
from backstory.retrieval.evidence.shared_words import Values
from backstory.retrieval.found import Hit
from backstory.writing.answers.answer import Kind, MadeAnswer, Part
from backstory.writing.answers.answer_features import (
    Compare,
    choose_candidates,
    lacks_number,
    measure_quote,
    measure_sentences,
)
from backstory.writing.answers.answer_model import MODEL_FILE, AnswerModel
from backstory.writing.answers.answer_quotes import choose_spans
from backstory.writing.answers.answer_sentences import AnswerSentence, list_sentences
from backstory.writing.answers.answering import answer_question

_FOLDS: Final = 10
_RIDGE: Final = 0.01
_KINDS: Final = ("lookup", "compare")


@dataclass(frozen=True)
class AskedPart:
    """A part of a question with the sentences that may answer it.

    Attributes:
        fold: The fold of its document.
        candidates: The sentences.
        features: What is measured of them.
        is_right: Which of them answer, shape ``(candidates,)``.
        is_answerable: Whether the documents answer it.
        lacks_number: Which of them stand in a passage that lacks a number of the part, shape ``(candidates,)``.
    """

    fold: int
    candidates: list[AnswerSentence]
    features: dict[str, Values]
    is_right: NDArray[np.bool_]
    is_answerable: bool
    lacks_number: NDArray[np.bool_]


@dataclass(frozen=True)
class ChosenQuote:
    """The quote that was chosen for a part.

    Attributes:
        fold: Fold of the part.
        features: What is measured of the quote, one value each.
        is_right: Whether a sentence of it answers.
        is_answerable: Whether the documents answer the part.
        lacks_number: Whether its passage lacks a number of the part.
        characters: Length of the quote.
    """

    fold: int
    features: dict[str, Values]
    is_right: bool
    is_answerable: bool
    lacks_number: bool
    characters: int


class _Recorder:
    """An answerer that keeps what it was asked, and answers nothing."""

    id = "recorder"

    def __init__(self) -> None:
        self.asked: tuple[tuple[str, ...], tuple[Hit, ...]] | None = None

    def answer(
        self,
        question: str,  # noqa: ARG002
        parts: Sequence[str],
        passages: Sequence[Hit],
        *,
        kind: Kind,
    ) -> MadeAnswer:
        if kind in _KINDS:
            self.asked = tuple(parts), tuple(passages)
        return MadeAnswer((), tuple(Part(part, is_found=False) for part in parts), "not_in_documents")


def ask_parts(questions: Sequence[LabelledQuestion], root: Path) -> list[AskedPart]:
    """Ask a workspace questions, and measure the sentences that may answer each part."""
    workspace = open_workspace(root)
    read_corpus = CorpusReader(workspace).read
    found: list[AskedPart] = []
    with Snapshots(workspace).reading() as snapshot:
        for question in questions:
            sources = SnapshotSources(snapshot, read_corpus, SearchFilters())
            recorder = _Recorder()
            answer_question(question.question, question.history, sources, recorder)
            if recorder.asked is None:
                continue
            parts, passages = recorder.asked
            sentences = list_sentences(passages, sources.stemmer)
            for part, quotes in zip(parts, _list_quotes(question, len(parts)), strict=True):
                measured = _measure(
                    part, quotes, sentences, sources.stemmer, sources.compare, _find_fold(question, passages)
                )
                found += [measured] if measured else []
    return found


def _list_quotes(question: LabelledQuestion, parts: int) -> list[tuple[Alternatives, ...]]:
    """List the quotes that answer each part; those of the whole question where its parts were split otherwise."""
    if len(question.parts) == parts:
        return [part.quotes for part in question.parts]
    return [question.all_quotes()] * parts


def _find_fold(question: LabelledQuestion, passages: Sequence[Hit]) -> int:
    """Find the fold of a question by the first document that answers it, else the first that was found."""
    stated = question.documents[0] if question.documents else passages[0].uri if passages else ""
    name = Path(stated if isinstance(stated, str) else stated[0]).name
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % _FOLDS


def _measure(
    part: str,
    quotes: Sequence[Alternatives],
    sentences: Sequence[AnswerSentence],
    stemmer: str,
    compare: Compare,
    fold: int,
) -> AskedPart | None:
    candidates, shares = choose_candidates(part, sentences, stemmer)
    if not candidates:
        return None
    texts = [text for quote in quotes for text in ([quote] if isinstance(quote, str) else quote)]
    return AskedPart(
        fold,
        candidates,
        measure_sentences(part, candidates, shares, compare),
        np.array([any(share_words(each.text, text) for text in texts) for each in candidates]),
        bool(texts),
        np.array([lacks_number(part, each.passage) for each in candidates]),
    )


def fit_sentences(asked: Sequence[AskedPart], name: str) -> LogisticModel:
    """Fit the model of sentences on the parts with a right one, each of the same weight."""
    fitting = [part for part in asked if part.is_right.any()]
    right = np.concatenate([part.is_right for part in fitting])
    weights = np.concatenate(
        [
            np.where(part.is_right, 1 / part.is_right.sum(), 1 / max(1, (~part.is_right).sum()))
            for part in fitting
        ]
    )
    columns = {
        each: np.concatenate([part.features[each] for part in fitting]) for each in fitting[0].features
    }
    return LogisticModel.fit(columns, right.astype(np.float64), weights, (name,), ridge=_RIDGE)


def choose_quote(part: AskedPart, model: LogisticModel) -> ChosenQuote:
    """Choose the best quote of a part."""
    odds = model.find_odds(part.features)
    span = choose_spans(part.candidates, odds)[0]
    best = max(span.places, key=lambda place: (odds[place], -place))
    quoted = [part.candidates[place] for place in span.places]
    return ChosenQuote(
        part.fold,
        measure_quote(part.features, span.places, best, span.share),
        bool(part.is_right[span.places].any()),
        part.is_answerable,
        bool(part.lacks_number[span.places].any()),
        quoted[-1].end - quoted[0].start,
    )


def fit_quotes(chosen: Sequence[ChosenQuote], name: str) -> LogisticModel:
    """Fit the model of quotes."""
    columns = {
        each: np.concatenate([quote.features[each] for quote in chosen]) for each in chosen[0].features
    }
    right = np.array([quote.is_right for quote in chosen], np.float64)
    return LogisticModel.fit(columns, right, np.ones(len(chosen)), (name,), ridge=_RIDGE)


def fit_models(asked: Sequence[AskedPart], name: str) -> tuple[AnswerModel, list[ChosenQuote], Values]:
    """Fit the models on all parts, and estimate each part by models of the other folds.

    Returns:
        The models, the chosen quotes, and the probability that each answers.
    """
    by_fold = {
        fold: fit_sentences([part for part in asked if part.fold != fold], name)
        for fold in {part.fold for part in asked}
    }
    chosen = [choose_quote(part, by_fold[part.fold]) for part in asked]
    probability = np.zeros(len(chosen))
    for place, quote in enumerate(chosen):
        others = fit_quotes([each for each in chosen if each.fold != quote.fold], name)
        estimated = float(others.estimate(quote.features)[0])
        probability[place] = 0.0 if quote.lacks_number else estimated
    return AnswerModel(fit_sentences(asked, name), fit_quotes(chosen, name)), chosen, probability


def report(chosen: Sequence[ChosenQuote], probability: Values) -> dict[str, object]:
    """Measure quotes: how many are right, how well the probability tells it, and the curve of refusal."""
    right = np.array([quote.is_right for quote in chosen])
    answerable = np.array([quote.is_answerable for quote in chosen])
    curve = [_measure_bar(bar, probability, right, answerable) for bar in np.arange(0.1, 0.95, 0.05)]
    return {
        "parts": len(chosen),
        "answerable": int(answerable.sum()),
        "quote right, of answerable": float(right[answerable].mean()),
        "characters of a quote": float(np.mean([quote.characters for quote in chosen])),
        "AUROC, right": area_under_curve(probability, right.astype(np.float64)),
        "AUROC, answerable": area_under_curve(probability, answerable.astype(np.float64)),
        "curve": curve,
    }


def _measure_bar(
    bar: float, probability: Values, right: NDArray[np.bool_], answerable: NDArray[np.bool_]
) -> Mapping[str, float]:
    given = probability >= bar
    return {
        "bar": round(float(bar), 2),
        "unanswerable refused": round(float((~given[~answerable]).mean()), 3),
        "answerable refused": round(float((~given[answerable]).mean()), 3),
        "right, of the given": round(float(right[given].mean()), 3) if given.any() else 0.0,
        "right, of the given and answerable": round(float(right[given & answerable].mean()), 3)
        if (given & answerable).any()
        else 0.0,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, and print the measures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train_answers", description=__doc__)
    parser.add_argument("questions", type=Path, help="a set of labelled questions")
    parser.add_argument("-w", "--workspace", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="replace the models that the library ships")
    given = parser.parse_args(arguments)
    questions = [each for each in read_question_set(given.questions) if each.kind in (None, *_KINDS)]
    model, chosen, probability = fit_models(ask_parts(questions, given.workspace), given.questions.stem)
    sys.stdout.write(json.dumps(report(chosen, probability), indent=1) + "\n")
    if given.write:
        model.write(MODEL_FILE)


if __name__ == "__main__":
    main()
