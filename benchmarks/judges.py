"""What a reranker of known error is worth: a simulated rater, which knows the labels, in the place of a model.

``python -m benchmarks.judges DIR...`` makes the contexts of labelled sets as a run does: without a reranker, and with
raters that flip each rating, 0 or 5, with a known probability. The raters are rerankers like any other, so what is
measured is the selection that ships. Beside them stands the oracle: the best that any choice among the same candidates
could reach. A rater without errors has to reach it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl

from backstory.base.environment import cache_folder
from backstory.base.ids import digest
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache
from backstory.models.reranker import RATING, Judgements, RerankRequest, Topic
from backstory.operations.evaluation import LabelledSet, embed_windows, index_documents, read_labelled_set
from backstory.operations.scoring import name_group, score_runs
from backstory.retrieval.assembly import Retrieval
from backstory.retrieval.hits import plan_queries
from backstory.settings.models import RerankSettings, Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state
from benchmarks.train_pairs import sample_windows

SHIPPED = "no reranker"
ORACLE = "oracle"
ERRORS = (0.0, 0.1, 0.2, 0.3)
SEEDS = 5
"""Times that a rater with errors judges everything, each time with other errors."""

Relevant = Mapping[str, Mapping[str, Collection[str]]]
"""Relevant documents by window and topic."""


class SimulatedRater:
    """Rates 5 what the labels call relevant and 0 everything else, and errs with a known probability.

    Attributes:
        shown: The documents of the candidates that it was shown, by window.
    """

    api_calls = 0

    def __init__(self, relevant: Relevant, documents: Mapping[str, str], error: float, seed: int) -> None:
        """Set labels and errors.

        Args:
            relevant: The labels.
            documents: Document of each stored chunk.
            error: Probability that a rating is flipped.
            seed: Other seeds flip other ratings.
        """
        self.id = f"simulated:{error}:{seed}"
        self.shown: dict[str, list[str]] = {}
        self._relevant = relevant
        self._documents = documents
        self._error = error

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        """Rate every candidate of every window for every topic of the labels."""
        return [self._judge_window(request) for request in requests]

    def _judge_window(self, request: RerankRequest) -> Judgements:
        found = [self._documents[candidate.chunk_id] for candidate in request.candidates]
        self.shown[request.window_id] = found
        topics = self._relevant[request.window_id]
        right = np.array([[document in documents for document in found] for documents in topics.values()])
        random = np.random.default_rng(int(digest([self.id, request.window_id], length=16), 16))
        rated = right ^ (random.random(right.shape) < self._error)
        rows = tuple(Topic(topic, ()) for topic in topics)
        return Judgements(rows, np.where(rated, RATING.most, 0.0), RATING)


def cover_most(found: Sequence[str], topics: Mapping[str, Collection[str]], count: int) -> list[str]:
    """Choose the documents that together cover most topics.

    Args:
        found: Documents to choose from.
        topics: Relevant documents of each topic.
        count: Most documents to choose.
    """
    by_topics: dict[frozenset[str], str] = {}
    for document in found:
        covered = frozenset(topic for topic, documents in topics.items() if document in documents)
        by_topics.setdefault(covered, document)
    maximal = [
        covered for covered in by_topics if covered and not any(covered < other for other in by_topics)
    ]
    choices = combinations(maximal, min(count, len(maximal)))
    best = max(choices, key=lambda choice: len(frozenset[str]().union(*choice)), default=())
    return [by_topics[covered] for covered in best]


def judge_set(labelled: LabelledSet, settings: Settings) -> pl.DataFrame:
    """Make and score the contexts of a set for every rater.

    Args:
        labelled: The set.
        settings: Settings of retrieval, embedder and number of candidates.

    Returns:
        The columns of :func:`backstory.operations.scoring.score_runs` for every window and method, and
        ``documents``, the number of documents in the context.
    """
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    relevant = _list_relevant(labelled)
    with tempfile.TemporaryDirectory(prefix="backstory-judges-") as scratch:
        index, document_chunks = index_documents(Path(scratch), labelled, settings, embedder, cache)
        documents = dict(document_chunks.select("chunk_id", "document_id").iter_rows())
        with index:
            chunks, vectors = embed_windows(labelled, settings, embedder, cache)
            retrieval = Retrieval.from_settings(settings, index)
            queries = plan_queries(labelled.windows, chunks, vectors, settings.rag)
            hits = retrieval.find_hits(queries).frame

            def choose(rater: SimulatedRater | None, method: str) -> pl.DataFrame:
                judged = replace(retrieval, reranker=rater).judge(hits, chunks, queries.vectors_of)
                return _list_documents(judged.frame, method)

            perfect = SimulatedRater(relevant, documents, 0.0, seed=0)
            runs = [choose(None, SHIPPED), choose(perfect, _name(0.0))]
            runs += [
                choose(SimulatedRater(relevant, documents, error, seed), f"{_name(error)}#{seed}")
                for error in ERRORS
                if error
                for seed in range(SEEDS)
            ]
    rows = [
        (window_id, document, rank)
        for window_id, found in perfect.shown.items()
        for rank, document in enumerate(cover_most(found, relevant[window_id], settings.rag.top_k), start=1)
    ]
    columns = {"window_id": pl.String, "doc_id": pl.String, "rank": pl.Int64}
    oracle = pl.DataFrame(rows, schema=columns, orient="row").with_columns(method=pl.lit(ORACLE))
    unasked = runs[0].filter(~pl.col("window_id").is_in(list(perfect.shown)))
    runs.append(pl.concat([oracle, unasked.with_columns(method=pl.lit(ORACLE))], how="diagonal"))
    found = pl.concat(runs, how="diagonal")
    scores = score_runs(found, labelled.qrels, name=labelled.name)
    counts = found.group_by("method", "window_id").agg(documents=pl.len())
    return scores.join(counts, on=["method", "window_id"], how="left").with_columns(
        pl.col("documents").fill_null(0)
    )


def tabulate(scores: pl.DataFrame) -> pl.DataFrame:
    """Average the scores of each group and method, over all windows and seeds."""
    return (
        scores.with_columns(pl.col("method").str.replace(r"#\d+$", ""))
        .group_by("group", "method", maintain_order=True)
        .agg(pl.col("window_id").n_unique().alias("windows"), pl.col("ncov@5", "documents").mean())
        .sort("group", pl.col("method").replace_strict(_ORDER))
    )


def keep_groups(labelled: LabelledSet, groups: Sequence[str]) -> LabelledSet:
    """Keep the windows of some groups of a set, such as ``mtrag-mix-n5``, with their labels."""
    kept = [
        window_id
        for window_id in labelled.windows["window_id"]
        if name_group(window_id, labelled.name) in groups
    ]
    return replace(
        labelled,
        windows=labelled.windows.filter(pl.col("window_id").is_in(kept)),
        messages=labelled.messages.filter(pl.col("conversation_id").is_in(kept)),
        qrels=labelled.qrels.filter(pl.col("window_id").is_in(kept)),
    )


def _name(error: float) -> str:
    return f"{error:.0%} wrong"


_ORDER = {SHIPPED: 0, **{_name(error): 1 + place for place, error in enumerate(ERRORS)}, ORACLE: 9}


def _list_relevant(labelled: LabelledSet) -> Relevant:
    relevant: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for window_id, topic, document in labelled.qrels.select("window_id", "topic", "doc_id").iter_rows():
        relevant[window_id][topic].add(document)
    return relevant


def _list_documents(decisions: pl.DataFrame, method: str) -> pl.DataFrame:
    kept = decisions.filter("kept").group_by("window_id", "document_id").agg(pl.col("rank").min())
    return kept.select("window_id", "rank", doc_id="document_id", method=pl.lit(method)).sort(
        "window_id", "rank"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the sets given on the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judges", description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="labelled sets")
    parser.add_argument(
        "--group", action="append", help="only these groups, such as mtrag-mix-n5 (default: all)"
    )
    parser.add_argument("--per-group", type=int, help="most windows per group of a set (default: all)")
    parser.add_argument("--candidates", type=int, default=RerankSettings().candidates)
    parser.add_argument("--embedder", choices=["local", "hashing"], default="local")
    given = parser.parse_args(arguments)
    settings = Settings.model_validate(
        {"embedding": {"provider": given.embedder}, "rerank": {"candidates": given.candidates}}
    )
    for folder in given.folders:
        labelled = read_labelled_set(folder)
        if given.group:
            labelled = keep_groups(labelled, given.group)
        if given.per_group is not None:
            labelled = sample_windows(labelled, given.per_group)
        scores = judge_set(labelled, settings)
        with pl.Config(
            tbl_rows=-1, float_precision=3, tbl_hide_column_data_types=True, tbl_hide_dataframe_shape=True
        ):
            print(tabulate(scores))


if __name__ == "__main__":
    main()
