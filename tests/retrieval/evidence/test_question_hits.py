"""The probabilities of the hits of questions, against the plain computation by tables, bit for bit."""

import numpy as np
import polars as pl

from backstory.index.request import SearchRequest
from backstory.index.search import SearchIndex
from backstory.index.snapshot.opening import open_index
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.protocol import Vectors
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.evidence.pair_features import measure_pairs
from backstory.retrieval.evidence.pair_model import read_pair_model
from backstory.retrieval.evidence.pairs import read_pairs
from backstory.retrieval.evidence.question_hits import COMPARED, estimate_questions

QUESTIONS = (
    "When does the blight come?",
    "sourdough starter",
    "thanks!",
    "How do we water the beds in summer?",
)
SMALL_TALK = QUESTIONS.index("thanks!")


def estimate_plainly(
    hits: pl.DataFrame, chunks: pl.DataFrame, vectors: Vectors, index: SearchIndex
) -> list[float]:
    """Measure each list of hits as the hits of a window of its own: the first five, or a later one after four."""
    lists, places = [], []
    for (query,), found in hits.group_by("query", maintain_order=True):
        for last in [min(COMPARED, len(found)) - 1, *range(COMPARED, len(found))]:
            members = [*range(min(COMPARED - 1, last)), last]
            name = f"{query}+{last}"
            lists.append(found[members].with_columns(window_id=pl.lit(name), query_chunk_id=pl.lit(name)))
            places.append((query, range(len(members)) if last < COMPARED else [COMPARED - 1]))
    names = [each["window_id"][0] for each in lists]
    parts = pl.DataFrame(
        {"window_id": names, "part_id": names, "text": [QUESTIONS[query] for query, _ in places]}
    ).with_columns(granularity=pl.lit("question"))
    rows = vectors[[query for query, _ in places]]
    measured = measure_pairs(read_pairs(pl.concat(lists), parts, chunks, lambda _: rows, index))
    probability = read_pair_model().estimate(measured)
    estimated, start = [], 0
    for each, (query, wanted) in zip(lists, places, strict=True):
        estimated += [0.0 if query == SMALL_TALK else float(probability[start + place]) for place in wanted]
        start += len(each)
    return estimated


def test_probabilities_are_those_of_windows_of_one_part(made_workspace: Workspace) -> None:
    vectors = embed_texts(made_workspace.embedder, QUESTIONS, task="query", cache=None).vectors
    with open_index(made_workspace.index) as index:
        assert index.rows > COMPARED
        for top_k, asked in ((1, 1), (3, 4), (5, 4), (12, 1), (12, 4)):
            request = SearchRequest(
                top_k=top_k, ranking="hybrid", keyword_weight=index.calibration.keyword_weight
            )
            hits = index.search(vectors[:asked], request, texts=QUESTIONS[:asked]).hits
            found = index.describe(hits["chunk_id"].unique(maintain_order=True))
            described = {row["chunk_id"]: row for row in found.iter_rows(named=True)}
            for _ in range(2):  # the second time, the index remembers the words
                estimated = estimate_questions(hits, described, QUESTIONS[:asked], vectors[:asked], index)
                assert estimated.tolist() == estimate_plainly(hits, found, vectors, index)
            assert np.all((estimated > 0) == (hits["query"].to_numpy() != SMALL_TALK))
