from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.errors import ModelFileError
from backstory.rerankers import make_reranker
from backstory.rerankers.protocol import restore_candidates
from backstory.settings import RerankSettings


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        (["c", "b", "a"], ("c", "b", "a")),
        (["c", "x", "b", "a"], ("c", "b", "a")),
        (["c"], ("c", "a", "b")),
        (["c", "c", "b", "c", "a"], ("c", "b", "a")),
        ([], ("a", "b", "c")),
        (["x", "y"], ("a", "b", "c")),
    ],
    ids=["whole", "unknown", "missing", "repeated", "empty", "nothing known"],
)
def test_an_answer_becomes_an_order_of_all_candidates(answered: list[str], expected: Sequence[str]) -> None:
    assert restore_candidates(["a", "b", "c"], answered) == expected


@given(st.lists(st.integers(0, 9).map(str), unique=True), st.lists(st.integers(0, 19).map(str)))
def test_no_answer_adds_or_loses_a_candidate(given_ids: list[str], answered: list[str]) -> None:
    order = restore_candidates(given_ids, answered)
    assert sorted(order) == sorted(given_ids)
    named = [chunk_id for chunk_id in dict.fromkeys(answered) if chunk_id in given_ids]
    assert list(order[: len(named)]) == named


def test_by_default_nothing_is_reranked() -> None:
    assert make_reranker(RerankSettings()) is None


def test_the_settings_choose_the_provider() -> None:
    reranker = make_reranker(RerankSettings(provider="gemini", model="models/gemini-2.5-flash-lite"))
    assert reranker is not None
    assert reranker.id.startswith("gemini:gemini-2.5-flash-lite:")
    with pytest.raises(ModelFileError, match=r"rerank\.model_dir names no folder"):
        make_reranker(RerankSettings(provider="cross_encoder"))
