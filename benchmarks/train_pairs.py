"""Fit the model of pairs on labelled sets, and measure it on each set with a fit on the others, and as shipped.

``python -m benchmarks.train_pairs DIR... [--unrelated DIR...] [--write]`` finds the hits of every set at the default
settings. A pair of a part and a chunk counts as positive if the chunk's document tells about a topic of the part. Pairs
of the windows of one set with the documents of another set are negative. Each window has the same weight. The documents
of the sets after ``--unrelated`` are used as such only: their own labels say nothing of parts. Another ``--embedder``
or ``--model`` shows how far the shipped model of pairs serves it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.base.environment import cache_folder
from backstory.index.search import SearchIndex
from backstory.models.choice import make_embedder
from backstory.models.embeddings.cache import EmbeddingCache
from backstory.models.embeddings.protocol import Vectors
from backstory.operations.evaluation.labelled_set import LabelledSet, read_labelled_set
from backstory.operations.evaluation.library_path import embed_windows, index_documents
from backstory.operations.evaluation.part_labels import label_parts
from backstory.operations.evaluation.scoring import name_group
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import MODEL_FILE, SERVES, PairModel, read_pair_model
from backstory.retrieval.evidence.pairs import list_parts, read_pairs
from backstory.retrieval.hits import find_hits, plan_queries
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state

Values = NDArray[np.float64]

_BINS = 10
_UNRELATED_SHARE = 0.25
"""Weight of a window among the documents of another set, beside 1 for a window among its own."""
_UNRELATED_WINDOWS = 16


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


def fit_model(sets: Sequence[Pairs]) -> PairModel:
    """Fit a model of pairs."""
    return PairModel.fit(
        {name: np.concatenate([pairs.features[name] for pairs in sets]) for name in sets[0].features},
        np.concatenate([pairs.serves for pairs in sets]),
        np.concatenate([pairs.weights for pairs in sets]),
        tuple(sorted({pairs.windows for pairs in sets})),
    )


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


def area_under_curve(confidence: Values, positive: Values) -> float | None:
    """Compute the probability that a positive pair has more confidence than a negative one (ties: half)."""
    is_positive = positive > 0
    pairs = int(is_positive.sum()) * int((~is_positive).sum())
    if not pairs:
        return None
    ranks = pl.Series(confidence).rank("average").to_numpy()
    return float((ranks[is_positive].sum() - is_positive.sum() * (is_positive.sum() + 1) / 2) / pairs)


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


def _find_pairs(windows: _Opened, documents: _Opened, settings: Settings) -> Pairs:
    """Search the documents of a set for the windows of a set, and measure the pairs of the hits."""
    is_own = windows is documents
    asked, chunks, vectors = windows.labelled.windows, windows.chunks, windows.vectors
    if not is_own:
        step = max(1, len(asked) // _UNRELATED_WINDOWS)
        asked = asked.filter(pl.int_range(pl.len()) % step == 0)
        mine = chunks["window_id"].is_in(asked["window_id"].to_list())
        chunks, vectors = chunks.filter(mine), vectors[mine.to_numpy()]
    rag = settings.rag.model_copy(update={"as_of": settings.rag.as_of and is_own})
    queries = plan_queries(asked, chunks, vectors, rag)
    hits = find_hits(queries, documents.index, rag).frame
    found = documents.index.describe(hits["chunk_id"].unique(maintain_order=True))
    features = measure_pairs(
        read_pairs(hits, list_parts(hits, chunks), found, queries.vectors_of, documents.index)
    )
    serves = np.zeros(len(hits))
    known = np.ones(len(hits), bool)
    if is_own:
        labels = label_parts(windows.labelled, chunks)
        serves = labels.serves(windows.labelled, hits).to_numpy().astype(np.float64)
        known = hits["query_chunk_id"].is_in(labels.topics["query_chunk_id"].unique().to_list()).to_numpy()
    counts = hits.filter(pl.Series(known)).select(1 / pl.len().over("window_id")).to_series().to_numpy()
    share = (1.0 if is_own else _UNRELATED_SHARE) / max(1, len(asked))
    return Pairs(
        windows.labelled.name,
        documents.labelled.name,
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
            if windows is documents or windows.labelled.name != documents.labelled.name
        ]
    report(found)
    if given.write:
        fit_model(found).write(MODEL_FILE)


def report(found: Sequence[Pairs]) -> None:
    """Print the measures of every set, with a fit on the other sets, with one on all, and with the shipped model."""
    names = list(dict.fromkeys(pairs.windows for pairs in found))
    rows = []
    for name in names:
        rest = [pairs for pairs in found if name not in (pairs.windows, pairs.documents)]
        fits = {"all sets": fit_model(found), "shipped": read_pair_model()}
        if rest:
            fits["other sets"] = fit_model(rest)
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
