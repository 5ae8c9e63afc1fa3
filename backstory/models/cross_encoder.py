"""A user's cross-encoder as a reranker: an ONNX model that reads two texts at once and scores the pair.

A window is far longer than what such a model reads, so each candidate is paired with the query chunks that found it
best, at most three. The judgement is the logistic function of the score: these models are trained with a logistic loss,
for which that is the probability that the pair is relevant. The longer text of a pair over the limit is truncated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelError, ModelSetupError
from backstory.models.onnx_text import OnnxText, find_model_folder, share
from backstory.models.reranker import PROBABILITY, Judgements, RerankRequest, Topic
from backstory.settings.models import RerankSettings

_MOST_QUERIES: Final = 3
"""Most query chunks that each candidate is scored with."""


class CrossEncoderReranker:
    """Scores pairs of query chunk and candidate. Constructing it loads neither onnxruntime nor the tokenizer."""

    api_calls = 0

    def __init__(self, settings: RerankSettings) -> None:
        """Find the model's files and hash them, or raise ``ModelSetupError`` if one is absent."""
        if settings.model_dir is None:
            raise ModelSetupError(
                "rerank.provider is cross_encoder, but rerank.model_dir names no folder; set it to a folder with "
                "model.onnx and tokenizer.json",
                code="absent_setting",
            )
        files = find_model_folder(settings.model_dir, "rerank.model_dir")
        self.id = f"cross_encoder:{files.name}:{files.checksum[:12]}:{settings.max_tokens}"
        onnx = OnnxText(
            files.model, files.tokenizer, limit="rerank.max_tokens", most_tokens=settings.max_tokens
        )
        self._onnx = share(onnx, files.checksum, settings.max_tokens)

    def judge(self, requests: Sequence[RerankRequest]) -> list[Judgements]:
        """Judge every candidate for the query chunks that found it best: a row per query, in order."""
        chosen = [_choose_pairs(request) for request in requests]
        pairs = [
            (request.queries[row].text, f"{candidate.title}\n\n{candidate.text}".strip())
            for request, places in zip(requests, chosen, strict=True)
            for row, column in places
            for candidate in [request.candidates[column]]
        ]
        scores = iter(
            self._onnx.run(self._onnx.tokenizer.encode(pairs), _read_scores).tolist() if pairs else ()
        )
        results = []
        for request, places in zip(requests, chosen, strict=True):
            values = np.full((len(request.queries), len(request.candidates)), np.nan)
            for place in places:
                values[place] = next(scores)
            topics = tuple(Topic("", (query.query_chunk_id,)) for query in request.queries)
            results.append(Judgements(topics, values, PROBABILITY))
        return results


def _choose_pairs(request: RerankRequest) -> list[tuple[int, int]]:
    """Return row and column of the pairs to score: for each candidate its highest-scoring queries."""
    ranked = np.argsort(-request.scores, axis=0, kind="stable")[:_MOST_QUERIES]
    return [
        (int(row), column)
        for column in range(len(request.candidates))
        for row in ranked[:, column]
        if np.isfinite(request.scores[row, column])
    ]


def _read_scores(output: NDArray[Any], mask: NDArray[np.int64]) -> NDArray[np.float64]:
    """Read the probability of each pair."""
    count = len(mask)
    if output.shape not in ((count,), (count, 1), (count, 2)):
        raise ModelError(
            f"the cross-encoder answered {count} pairs with an output of shape {output.shape}; it must give one score "
            f"per pair, shape ({count}, 1), or one for each of the classes irrelevant and relevant",
            code="unusable_scores",
        )
    logits = output.reshape(count, -1).astype(np.float64)
    # With two classes, the softmax of "relevant" grows with the difference of the two scores.
    scores = logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
    if not np.isfinite(scores).all():
        raise ModelError(
            "the cross-encoder answered with a score that is not finite; check its precision",
            code="unusable_scores",
        )
    probability: NDArray[np.float64] = np.exp(-np.logaddexp(0.0, -scores))
    return probability
