"""An answer by a chat model: claims with the ids that it was shown, each checked against its passage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from backstory.base.errors import BudgetExhaustedError, ModelError
from backstory.base.progress import announce
from backstory.base.wording import inflect
from backstory.models.chat_model import (
    AnswerForm,
    ChatModel,
    CountedModel,
    Messages,
    PriceUsage,
    UnusableAnswerError,
    ask_until_usable,
)
from backstory.models.reranker import Reranker
from backstory.retrieval.found import Hit
from backstory.text.chunking.units import estimate_tokens
from backstory.text.prompts.entries import cut_line
from backstory.writing.answers.answer import Claim, Kind, MadeAnswer, Part
from backstory.writing.answers.answer_prompts import (
    hash_prompts,
    make_claims_form,
    read_claims,
    write_answer_prompt,
    write_repair_prompt,
)
from backstory.writing.answers.citations import CheckedClaim, StatedClaim, check_claims
from backstory.writing.answers.claim_judge import ClaimJudge

PASSAGE_TOKENS: Final = 12_000
"""Most estimated tokens of the passages of one call; those beyond it are asked about in further calls."""
_UNSAFE: Final = ("blocked", "refused")
"""Beginnings of the reasons with which a service or a model declines to answer."""
_SHOWN_REASON: Final = 300

Unsupported: TypeAlias = Literal["remove", "mark"]


class ModelAnswerer:
    """Asks a chat model, from any thread. Nothing that it states is passed on as supported before it is checked."""

    def __init__(
        self,
        model: ChatModel,
        *,
        max_output_tokens: int,
        unsupported: Unsupported,
        price: PriceUsage,
        reranker: Reranker | None = None,
        passage_tokens: int = PASSAGE_TOKENS,
    ) -> None:
        """Set the model.

        Args:
            model: Answers the prompts.
            max_output_tokens: Most tokens that the model may write in one call.
            unsupported: What becomes of claims without support.
            price: Estimates the price of what calls used.
            reranker: Judges claims in other words than their quotes; None to take them for unsupported.
            passage_tokens: Most estimated tokens of the passages of one call.
        """
        self._model = model
        self._form: AnswerForm = make_claims_form(max_output_tokens)
        self._unsupported = unsupported
        self._price = price
        self._reranker = reranker
        self._passage_tokens = passage_tokens
        self.id = f"{model.id}:o{max_output_tokens}"

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompts."""
        return hash_prompts()

    def answer(
        self, question: str, parts: Sequence[str], passages: Sequence[Hit], *, kind: Kind
    ) -> MadeAnswer:
        """Answer a question; see :class:`backstory.writing.answers.answer.Answerer`.

        Passages that are too many for one call are asked about in further ones, which add to the claims so far. If one
        of these fails, the answer rests on the passages before it, and a note says so.

        Raises:
            ModelError: The model gave no answer to the first call, or none that can be read, also when it was asked to
                repair it.
            ModelSetupError: There is no key, or it was refused.
            BudgetExhaustedError: The first call would exceed a budget, or a quota or the credit is used up.
        """
        if not passages:
            return MadeAnswer((), _name_parts(parts, ()), "not_in_documents")
        model = CountedModel(self._model)
        checked: list[CheckedClaim] = []
        notes: list[str] = []
        judge = None if self._reranker is None else ClaimJudge(self._reranker)
        groups = _group(passages, self._passage_tokens)
        shown: list[Hit] = []
        for number, group in enumerate(groups):
            shown += group
            so_far = [each.claim.text for each in checked if each.fault is None]
            announce("answering", 2 * number + 1, 2 * len(groups) + 1)
            try:
                stated = self._ask(
                    model, write_answer_prompt(question, parts, group, kind=kind, claims=so_far)
                )
            except UnusableAnswerError as error:
                if number == 0:
                    return self._decline(error, parts, model)
                notes.append(_name_unread(groups[number:], len(passages), str(error)))
                break
            except (ModelError, BudgetExhaustedError) as error:
                if number == 0:
                    raise
                notes.append(_name_unread(groups[number:], len(passages), str(error)))
                break
            announce("checking citations", 2 * number + 2, 2 * len(groups) + 1)
            checked += check_claims(stated, shown, judge.judge if judge else None)
        notes += judge.notes if judge else []
        return self._conclude(_drop_repeated(checked), parts, notes, model)

    def _ask(self, model: CountedModel, messages: Messages) -> list[StatedClaim]:
        return ask_until_usable(model.ask, messages, self._form, read_claims, write_repair_prompt)

    def _decline(self, error: UnusableAnswerError, parts: Sequence[str], model: CountedModel) -> MadeAnswer:
        """Return the refusal of a service or a model that declines; raise for an answer that cannot be read."""
        if not error.reason.startswith(_UNSAFE):
            raise ModelError(
                f"{self.id} gave no answer that can be read: {cut_line(str(error), _SHOWN_REASON)}; ask once more, "
                "use other words, or set another model (answers.model)",
                code="unusable_answer",
            ) from None
        note = f"the model or its service declined to answer: {cut_line(str(error), _SHOWN_REASON)}."
        return self._make((), _name_parts(parts, ()), "unsafe", (note,), model)

    def _conclude(
        self, checked: Sequence[CheckedClaim], parts: Sequence[str], notes: list[str], model: CountedModel
    ) -> MadeAnswer:
        supported = [each for each in checked if each.fault is None]
        if missing := len(checked) - len(supported):
            done = "was removed" if missing == 1 else "were removed"
            if self._unsupported == "mark" and supported:
                done = "is marked" if missing == 1 else "are marked"
            statements = inflect(missing, "statement")
            notes.append(f"{missing} {statements} of the model {done}: what it cites does not say so.")
        if not supported:
            refused = _name_parts(parts, ())
            return self._make((), refused, "not_in_documents", tuple(notes), model)
        shown = checked if self._unsupported == "mark" else supported
        return self._make(
            tuple(each.claim for each in shown),
            _name_parts(parts, supported),
            None,
            tuple(notes),
            model,
        )

    def _make(
        self,
        claims: tuple[Claim, ...],
        parts: tuple[Part, ...],
        refused: Literal["not_in_documents", "unsafe"] | None,
        notes: tuple[str, ...],
        model: CountedModel,
    ) -> MadeAnswer:
        return MadeAnswer(claims, parts, refused, model.used.tokens, self._price(model.used), notes)


def _group(passages: Sequence[Hit], most: int) -> list[list[Hit]]:
    """Put passages together as long as they have at most so many tokens, at least one in each group."""
    groups: list[list[Hit]] = []
    total = 0
    tokens = estimate_tokens([f"{each.title}\n{each.heading}\n{each.text}" for each in passages])
    for passage, count in zip(passages, tokens.tolist(), strict=True):
        if groups and total + count <= most:
            groups[-1].append(passage)
            total += count
        else:
            groups.append([passage])
            total = count
    return groups


def _name_unread(groups: Sequence[Sequence[Hit]], of: int, reason: str) -> str:
    unread = sum(map(len, groups))
    return (
        f"{unread} of {of} passages were not read, so the answer may lack something: "
        f"{cut_line(reason, _SHOWN_REASON)}."
    )


def _name_parts(parts: Sequence[str], supported: Sequence[CheckedClaim]) -> tuple[Part, ...]:
    """Say of each part whether a claim answers it; a claim of no known part answers the only one."""
    if len(parts) == 1:
        return (Part(parts[0], bool(supported)),)
    found = {number for each in supported for number in each.parts}
    return tuple(Part(part, number in found) for number, part in enumerate(parts, start=1))


def _drop_repeated(checked: Sequence[CheckedClaim]) -> list[CheckedClaim]:
    """Keep of claims with the same text the first that is supported, else the first."""
    kept: dict[str, CheckedClaim] = {}
    for each in checked:
        key = " ".join(each.claim.text.casefold().split())
        if key not in kept or (kept[key].fault is not None and each.fault is None):
            kept[key] = each
    return list(kept.values())
