import numpy as np

from backstory.base.errors import ModelFileError
from backstory.models.choice import make_reranker
from backstory.models.reranker import PROBABILITY, RATING, Judgements, Topic
from backstory.settings.models import RerankSettings
from tests.errors import raises

ROWS = (Topic("soup", ("q1",)), Topic("trains", ("q2",)))


def test_what_was_not_asked_or_is_below_the_threshold_is_no_evidence() -> None:
    values = np.array([[np.nan, 5.0, 3.0], [2.0, 0.0, np.nan]])
    rated = Judgements(ROWS, values, RATING, separate=True)
    assert np.allclose(rated.evidence, [[0.0, 1.0, 0.6], [0.0, 0.0, 0.0]])
    assert rated.uncovered == (ROWS[1],)

    probable = Judgements(ROWS, values / 10, PROBABILITY, separate=False)
    assert np.allclose(probable.evidence, [[0.0, 0.5, 0.3], [0.2, 0.0, 0.0]])


def test_rows_without_a_label_are_not_listed_as_uncovered() -> None:
    assert Judgements((Topic("", ("q1",)),), np.zeros((1, 2)), RATING, separate=False).uncovered == ()


def test_withheld_judgements_hold_nothing() -> None:
    withheld = Judgements.withheld(3, RATING, "blocked (SAFETY)")
    assert (withheld.values.shape, withheld.uncovered, withheld.note) == ((0, 3), (), "blocked (SAFETY)")


def test_by_default_nothing_is_reranked() -> None:
    assert make_reranker(RerankSettings()) is None


def test_the_settings_choose_the_provider() -> None:
    gemini = make_reranker(RerankSettings(provider="gemini", model="models/gemini-2.5-flash-lite"))
    assert gemini is not None
    assert gemini.id.startswith("gemini:gemini-2.5-flash-lite:")
    local = make_reranker(
        RerankSettings(provider="openai", model="tiny", base_url="http://127.0.0.1:11434/v1")
    )
    assert local is not None
    assert local.id.startswith("openai:127.0.0.1:11434/v1:tiny:")
    with raises(ModelFileError, "absent_setting", "rerank.model_dir"):
        make_reranker(RerankSettings(provider="cross_encoder"))
