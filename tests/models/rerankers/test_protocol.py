from dataclasses import replace

import numpy as np

from backstory.base.errors import ModelSetupError
from backstory.models.choice import make_reranker
from backstory.models.reranker import PROBABILITY, RATING, Judgements, QueryChunk, Topic, hash_request
from backstory.settings.models import RerankSettings
from tests.errors import raises
from tests.models.rerankers.rerank_requests import request_of

ROWS = (Topic("soup", ("q1",)), Topic("trains", ("q2",)))


def test_what_was_not_asked_or_is_below_the_threshold_is_no_evidence() -> None:
    values = np.array([[np.nan, 5.0, 3.0], [2.0, 0.0, np.nan]])
    rated = Judgements(ROWS, values, RATING)
    assert np.allclose(rated.evidence, [[0.0, 1.0, 0.6], [0.0, 0.0, 0.0]])
    assert rated.uncovered == (ROWS[1],)
    assert Judgements.withheld(3, RATING, "blocked (SAFETY)").values.shape == (0, 3)

    probable = Judgements(ROWS, values / 10, PROBABILITY)
    assert np.allclose(probable.evidence, [[0.0, 0.5, 0.3], [0.2, 0.0, 0.0]])


def test_the_settings_choose_the_provider() -> None:
    gemini = make_reranker(RerankSettings(provider="gemini", model="models/gemini-2.5-flash-lite"))
    assert gemini is not None
    assert gemini.id.startswith("gemini:gemini-2.5-flash-lite:")
    assert make_reranker(RerankSettings()) is None
    local = make_reranker(
        RerankSettings(provider="openai", model="tiny", base_url="http://127.0.0.1:11434/v1")
    )
    assert local is not None
    assert local.id.startswith("openai:127.0.0.1:11434/v1:tiny:")
    with raises(ModelSetupError, "absent_setting", "rerank.model_dir"):
        make_reranker(RerankSettings(provider="cross_encoder"))


def test_everything_that_is_shown_changes_the_hash() -> None:
    request = request_of("a", "b")
    chunk = QueryChunk("q1", "other")
    others = [
        replace(request, parts=(chunk, *request.parts[1:])),
        replace(request, queries=(chunk, *request.queries[1:])),
        replace(request, candidates=request.candidates[::-1]),
        replace(request, candidates=(replace(request.candidates[0], text="x"), request.candidates[1])),
        replace(request, scores=request.scores / 2),
    ]
    hashes = {hash_request("model", other) for other in [request, *others]} | {hash_request("other", request)}
    assert len(hashes) == len(others) + 2
    assert hash_request("model", request_of("a", "b")) == hash_request("model", request)
