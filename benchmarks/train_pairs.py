"""Fit the model of pairs on labelled sets, and measure it on each set with a fit on the others, and as shipped.

``python -m benchmarks.train_pairs DIR... [--unrelated DIR...] [--write]`` finds the hits of every set at the default
settings. A pair of a part and a chunk counts as positive if the chunk's document tells about a topic of the part.
Pairs of the windows of one set with the documents of another set are negative. Where messages have topics, each
window is asked twice: among all documents, and without those of half of its topics. Each window has the same weight.
The documents of the sets after ``--unrelated`` are used as such only: their own labels say nothing of parts. With
``--single``, the weights of all pairs stay as shipped, and those that short messages have besides are fitted. Sets
that share a document are left out together. Another ``--embedder`` or ``--model`` shows how far the shipped model of
pairs serves it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.environment import cache_folder
from backstory.index.search import SearchIndex
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache
from backstory.models.embeddings.protocol import Vectors
from backstory.operations.evaluation import LabelledSet, embed_windows, index_documents, read_labelled_set
from backstory.operations.scoring import area_under_curve, name_group
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.evidence.asking_parts import find_small_talk_parts
from backstory.retrieval.evidence.logistic import LogisticModel
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import MODEL_FILE, OF_PARTS, SERVES, PairModel, read_pair_model
from backstory.retrieval.evidence.pairs import list_parts, read_pairs
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state
from benchmarks.part_labels import (
    NOTHING_HIDDEN,
    choose_half,
    find_hits_without,
    label_parts,
    list_hidden,
)

Values = NDArray[np.float64]

_BINS = 10
_UNRELATED_SHARE = 0.25
"""Weight of a window among the documents of another set, beside 1 for a window among its own."""
_UNRELATED_SHARE_OF_SINGLE = 1.0
"""The same for parts that are one short message, which are about what no document tells more often."""
_UNRELATED_WINDOWS = 16
_HALF = ", half"
"""Ends the name of a set that hides the documents of half of each window's topics: a chat has others, too."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of the windows of one set with the documents of a set.

    Attributes:
        windows: Name of the set of the windows.
        documents: Name of the set of the documents.
        features: From :func:`backstory.retrieval.evidence.pair_features.measure_pairs`.
        serves: 1 where the document tells about a topic of the part, else 0, shape ``(pairs,)``.
        weights: Weight of each pair; those of a window add up to its share.
    """

    windows: str
    documents: str
    features: dict[str, Values]
    serves: Values
    weights: Values


@dataclass(frozen=True)
class _Opened:
    labelled: LabelledSet
    index: SearchIndex
    chunks: pl.DataFrame
    vectors: Vectors


def fit_model(sets: Sequence[Pairs], *, single_alone: bool = False) -> PairModel:
    """Fit a model of pairs: the weights of all pairs, and those that the pairs of short messages have besides.

    Args:
        sets: The pairs. What none of them tells of stays as shipped.
        single_alone: Whether the weights of all pairs stay as shipped.
    """
    features = {name: np.concatenate([pairs.features[name] for pairs in sets]) for name in sets[0].features}
    serves = np.concatenate([pairs.serves for pairs in sets])
    weights = np.concatenate([pairs.weights for pairs in sets])
    names = tuple(sorted({pairs.windows for pairs in sets}))
    model = read_pair_model()
    single = features["is_single"] > 0
    if not single.all() and not single_alone:
        of_parts = {name: features[name][~single] for name in OF_PARTS}
        fitted = LogisticModel.fit(of_parts, serves[~single], weights[~single], names)
        model = replace(model, parts=fitted)
    if single.any():
        of_single = {name: values[single] for name, values in features.items()}
        model = model.fit_single(of_single, serves[single], weights[single], names)
    return model


def measure(model: PairModel, pairs: Pairs) -> dict[str, float | str | None]:
    """Measure a model on pairs: area under the curve, calibration, and precision and recall of claims."""
    found = model.estimate(pairs.features)
    claimed = found >= SERVES
    true = pairs.serves > 0
    return {
        "windows": pairs.windows,
        "documents": pairs.documents,
        "positive": float(np.average(pairs.serves, weights=pairs.weights)),
        "claimed": float(np.average(claimed, weights=pairs.weights)),
        "auc": area_under_curve(found, pairs.serves),
        "ece": calibration_error(found, pairs.serves, pairs.weights),
        "precision": _mean(true[claimed], pairs.weights[claimed]),
        "recall": _mean(claimed[true], pairs.weights[true]),
    }


def calibration_error(confidence: Values, positive: Values, weights: Values) -> float:
    """Compute the expected calibration error over ten bins of equal width (Naeini et al., AAAI 2015)."""
    bins = np.minimum((confidence * _BINS).astype(np.int64), _BINS - 1)
    gaps = weights * (confidence - positive)
    return float(sum(abs(gaps[bins == place].sum()) for place in range(_BINS)) / weights.sum())


def sample_windows(labelled: LabelledSet, per_group: int) -> LabelledSet:
    """Keep the first ``per_group`` windows of each group of a set, with their labels."""
    groups = [name_group(window_id, labelled.name) for window_id in labelled.windows["window_id"]]
    kept = labelled.windows.filter(pl.int_range(pl.len()).over(pl.Series(groups)) < per_group)
    ids = kept.select("window_id")
    return replace(
        labelled,
        windows=kept,
        messages=labelled.messages.join(
            ids, left_on="conversation_id", right_on="window_id", how="semi", maintain_order="left"
        ),
        qrels=labelled.qrels.join(ids, on="window_id", how="semi", maintain_order="left"),
    )


def _are_related(left: LabelledSet, right: LabelledSet) -> bool:
    """Return whether two sets share a document, or are the same."""
    keys = ["document_id", "text"]
    return not left.documents.join(right.documents, on=keys, how="semi").is_empty()


def _find_pairs(
    windows: _Opened, documents: _Opened, settings: Settings, hidden: pl.DataFrame = NOTHING_HIDDEN
) -> Pairs:
    """Search the documents of a set, without the hidden ones, for the windows of a set, and measure the pairs."""
    is_own = windows is documents
    asked, chunks, vectors = windows.labelled.windows, windows.chunks, windows.vectors
    if not is_own:
        step = max(1, len(asked) // _UNRELATED_WINDOWS)
        asked = asked.filter(pl.int_range(pl.len()) % step == 0)
        mine = chunks["window_id"].is_in(asked["window_id"].to_list())
        chunks, vectors = chunks.filter(mine), vectors[mine.to_numpy()]
    rag = settings.rag.model_copy(update={"as_of": settings.rag.as_of and is_own})
    retrieval = replace(Retrieval.from_settings(settings, documents.index), rag=rag)
    queries, hits = find_hits_without(hidden, retrieval, asked, chunks, vectors)
    found = documents.index.describe(hits["chunk_id"].unique(maintain_order=True))
    parts = list_parts(hits, chunks)
    features = measure_pairs(read_pairs(hits, parts, found, queries.vectors_of, documents.index))
    serves = np.zeros(len(hits))
    small_talk = pl.Series(find_small_talk_parts(parts["text"].to_list()), dtype=pl.Boolean)
    known = ~hits["query_chunk_id"].is_in(parts.filter(small_talk)["part_id"].to_list()).to_numpy()
    if is_own:
        labels = label_parts(windows.labelled, chunks)
        serves = labels.serves(windows.labelled, hits).to_numpy().astype(np.float64)
        known &= hits["query_chunk_id"].is_in(labels.topics["query_chunk_id"].unique().to_list()).to_numpy()
    counts = hits.filter(pl.Series(known)).select(1 / pl.len().over("window_id")).to_series().to_numpy()
    of_single = np.where(features["is_single"] > 0, _UNRELATED_SHARE_OF_SINGLE, _UNRELATED_SHARE)[known]
    share = (1.0 if is_own else of_single) / max(1, len(asked))
    return Pairs(
        windows.labelled.name,
        documents.labelled.name + (_HALF if len(hidden) else ""),
        {name: values[known] for name, values in features.items()},
        serves[known],
        counts * share,
    )


def _mean(values: NDArray[np.bool_], weights: Values) -> float | None:
    return float(np.average(values, weights=weights)) if len(values) else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit and measure on the sets given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train_pairs", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="labelled sets")
    parser.add_argument("--unrelated", nargs="*", type=Path, default=[], help="further sets of documents")
    parser.add_argument("--per-group", type=int, help="most windows per group of a set (default: all)")
    parser.add_argument("--embedder", choices=["local", "hashing"], default="local")
    parser.add_argument("--model", choices=["english", "multilingual"], help="the local model")
    parser.add_argument("--single", action="store_true", help="fit what short messages have besides, alone")
    parser.add_argument("--write", action="store_true", help="replace the model that the library ships")
    given = parser.parse_args(arguments)
    settings = Settings.model_validate({"embedding": {"provider": given.embedder, "model": given.model}})
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    with tempfile.TemporaryDirectory(prefix="backstory-pairs-") as scratch, ExitStack() as stack:
        opened = []
        for folder in (*given.folders, *given.unrelated):
            labelled = read_labelled_set(folder)
            if given.per_group is not None:
                labelled = sample_windows(labelled, given.per_group)
            index, _ = index_documents(Path(scratch) / labelled.name, labelled, settings, embedder, cache)
            stack.enter_context(index)
            opened.append(_Opened(labelled, index, *embed_windows(labelled, settings, embedder, cache)))
        own, others = opened[: len(given.folders)], opened
        found = [
            _find_pairs(windows, documents, settings)
            for windows in own
            for documents in others
            if windows is documents or not _are_related(windows.labelled, documents.labelled)
        ]
        for each in own:
            if label_parts(each.labelled, each.chunks).by_message:
                hidden = list_hidden(each.labelled, choose_half(each.labelled))
                found.append(_find_pairs(each, each, settings, hidden))
        related = {
            windows.labelled.name: [
                each.labelled.name for each in opened if _are_related(windows.labelled, each.labelled)
            ]
            for windows in own
        }
    report(found, related, single_alone=given.single)
    if given.write:
        fit_model(found, single_alone=given.single).write(MODEL_FILE)


def report(
    found: Sequence[Pairs], related: Mapping[str, Collection[str]], *, single_alone: bool = False
) -> None:
    """Print the measures of every set, with a fit on the other sets, with one on all, and with the shipped model.

    Args:
        found: The pairs of all sets.
        related: The sets that share documents with each set of windows. The fit on other sets knows none of them.
        single_alone: See :func:`fit_model`.
    """
    names = list(dict.fromkeys(pairs.windows for pairs in found))
    rows = []
    for name in names:
        rest = [
            pairs
            for pairs in found
            if not {pairs.windows, pairs.documents.removesuffix(_HALF)} & set(related[name])
        ]
        fits = {"all sets": fit_model(found, single_alone=single_alone), "shipped": read_pair_model()}
        if rest:
            fits["other sets"] = fit_model(rest, single_alone=single_alone)
        rows += [
            {"fitted on": fit, **measure(model, pairs)}
            for fit, model in fits.items()
            for pairs in found
            if pairs.windows == name
        ]
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, float_precision=3):
        print(pl.DataFrame(rows))


if __name__ == "__main__":
    main()
