"""The probabilities of the hits of questions, against the plain computation by tables, bit for bit."""

import numpy as np
import polars as pl

from backstory.index.request import SearchRequest
from backstory.index.search import SearchIndex, open_index
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import read_pair_model
from backstory.retrieval.evidence.pairs import read_pairs
from backstory.retrieval.evidence.question_hits import COMPARED, estimate_questions
from backstory.retrieval.selection.strategies import FindVectors

QUESTIONS = (
    "When does the blight come?",
    "sourdough starter",
    "thanks!",
    "How do we water the beds in summer?",
)
SMALL_TALK = QUESTIONS.index("thanks!")


def find_only(vectors: Vectors) -> FindVectors:
    return lambda _: vectors


def estimate_plainly(
    hits: pl.DataFrame, chunks: pl.DataFrame, vectors: Vectors, index: SearchIndex
) -> list[float]:
    """Measure each list of hits as those of a window of one part: the first five, or a later one after four."""
    rows = []
    for (query,), found in hits.group_by("query", maintain_order=True):
        part = pl.DataFrame(
            {"window_id": "w", "granularity": "question", "text": QUESTIONS[query], "part_id": "p"}
        )
        for last in [min(COMPARED, len(found)) - 1, *range(COMPARED, len(found))]:
            some = found[[*range(min(COMPARED - 1, last)), last]].with_columns(query_chunk_id=pl.lit("p"))
            features = measure_pairs(read_pairs(some, part, chunks, find_only(vectors[[query]]), index))
            rows.append(pl.DataFrame(features)[0 if last < COMPARED else -1 :])
    together = pl.concat(rows)
    probability = read_pair_model().estimate({name: together[name].to_numpy() for name in together.columns})
    return [
        float(each) * (query != SMALL_TALK) for each, query in zip(probability, hits["query"], strict=True)
    ]


def test_probabilities_are_those_of_windows_of_one_part(made_workspace: Workspace) -> None:
    vectors = embed_texts(made_workspace.embedder, QUESTIONS, task="query", cache=None).vectors
    with open_index(made_workspace.index) as index:
        assert index.manifest.rows > COMPARED
        for top_k, asked in ((1, 1), (3, 4), (5, 4), (12, 1), (12, 4)):
            request = SearchRequest(
                top_k=top_k, ranking="hybrid", keyword_weight=index.manifest.calibration.keyword_weight
            )
            hits = index.search(vectors[:asked], request, texts=QUESTIONS[:asked]).hits
            found = index.describe(hits["chunk_id"].unique(maintain_order=True))
            described = {row["chunk_id"]: row for row in found.iter_rows(named=True)}
            for _ in range(2):  # the second time, the index remembers the words
                estimated = estimate_questions(hits, described, QUESTIONS[:asked], vectors[:asked], index)
                assert estimated.tolist() == estimate_plainly(hits, found, vectors, index)
            assert np.all((estimated > 0) == (hits["query"].to_numpy() != SMALL_TALK))
