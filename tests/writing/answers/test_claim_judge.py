"""A cross-encoder as a judge of claims in other words than what they cite."""

from __future__ import annotations

from pathlib import Path

from backstory.models.cross_encoder import CrossEncoderReranker
from backstory.settings.models import RerankSettings
from backstory.writing.answers.citations import StatedCitation, StatedClaim, check_claims
from backstory.writing.answers.claim_judge import ClaimJudge
from backstory.writing.answers.support import Evidence
from tests.models.rerankers.tiny_cross_encoder import write_cross_encoder
from tests.writing.answers.passages import make_passage

# The logistic function of 2 is .88, that of 1 is .73.
WEIGHTS = {"soup": 2.0, "trains": 1.0}


def open_judge(folder: Path) -> ClaimJudge:
    write_cross_encoder(folder, WEIGHTS)
    settings = RerankSettings.model_validate({"provider": "cross_encoder", "model_dir": str(folder)})
    return ClaimJudge(CrossEncoderReranker(settings))


def cite(*texts: str) -> list[Evidence]:
    return [Evidence(text, text, "", "en") for text in texts]


def test_a_claim_is_told_by_the_best_of_what_it_cites_from_four_fifths_on(tmp_path: Path) -> None:
    judge = open_judge(tmp_path / "model")
    claims = [("rust", cite("trains", "soup")), ("rust", cite("trains")), ("rust", cite("text"))]
    assert judge.judge(claims) == [True, False, False]
    assert [note[:1] for note in judge.notes] == ["1"]
    assert judge.judge([]) == []


def test_the_judge_is_asked_only_of_claims_that_lack_nothing_but_words(tmp_path: Path) -> None:
    passage = make_passage("They talk about soup.")
    cited = (StatedCitation("p1", "They talk about soup."),)
    claims = [
        StatedClaim(text, cited) for text in ("Broth matters.", "Broth matters at 9.", "Broth never matters.")
    ]
    alone = check_claims(claims, [passage])
    assert [each.fault for each in alone] == ["words", "number", "words"]
    judged = check_claims(claims, [passage], open_judge(tmp_path / "model").judge)
    assert [each.fault for each in judged] == [None, "number", "words"]
    assert [each.claim.supported for each in judged] == [True, False, False]
