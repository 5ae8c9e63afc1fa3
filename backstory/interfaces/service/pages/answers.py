"""An answer as its page shows it: each claim with the numbers of its places, and each place with its passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from backstory.interfaces.pages.report.palette import name_paint
from backstory.storage.conversations import Feedback, KeptTurn
from backstory.writing.answers.answer import UNSEARCHED
from backstory.writing.answers.forms import Forms, make_forms


@dataclass(frozen=True, slots=True)
class ShownPlace:
    """A place of a document that an answer cites.

    Attributes:
        number: Its number in the answer, from 1.
        paint: CSS classes of its colour.
        title: Title of the document.
        uri: Its path.
        where: Page or line, in words; empty if neither is known.
        quote: Words of the document.
        document_id: Id of the document.
        start: First character of the quote in the document's text, from 0.
        end: Character after the last one.
    """

    number: int
    paint: str
    title: str
    uri: str
    where: str
    quote: str
    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ShownClaim:
    """A statement of an answer.

    Attributes:
        text: The statement, Markdown.
        places: The places that say it.
        is_supported: Whether one of them passed the check.
    """

    text: str
    places: tuple[ShownPlace, ...]
    is_supported: bool


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A question of a conversation, and its answer.

    Attributes:
        number: Its number in the conversation, from 1.
        asked: When it was asked, UTC.
        question: The question; empty if it was removed.
        answer: The answer as values for JSON; None if it was removed.
        claims: The statements of the answer.
        places: The places that they cite, by number.
        nearest: The places that come nearest to an answer to what has none, which claim nothing; numbered further.
        forms: What the answer says around its statements and quotes, in its language.
        feedback: What was said of it; None for nothing.
    """

    number: int
    asked: datetime
    question: str
    answer: Mapping[str, Any] | None
    claims: tuple[ShownClaim, ...]
    places: tuple[ShownPlace, ...]
    nearest: tuple[ShownPlace, ...]
    forms: Forms
    feedback: Feedback | None

    @property
    def is_refused(self) -> bool:
        """Whether there is no answer, for a reason that is told."""
        return self.answer is not None and self.answer["refused"] is not None

    @property
    def told(self) -> tuple[str, str]:
        """What a refusal says before and after the places that come nearest; nothing after it without any."""
        if self.answer is None:
            return "", ""
        text = str(self.answer["markdown"])
        return (text.partition("\n")[0], text.rpartition("\n")[2]) if self.nearest else (text, "")

    @property
    def was_searched(self) -> bool:
        """Whether documents were searched for the answer."""
        return self.answer is not None and self.answer["kind"] not in UNSEARCHED

    @property
    def is_unsure(self) -> bool:
        """Whether no model has judged that the statements answer the question."""
        claims = () if self.answer is None else self.answer["claims"]
        return any(claim["probability"] is not None for claim in claims)

    @property
    def listed(self) -> str:
        """What an answer says of the documents that it lists, such as whether these are all; empty without a list."""
        if self.answer is None or not self.answer["documents"]:
            return ""
        return str(self.answer["markdown"]).partition("\n")[0]


def show_turn(turn: KeptTurn) -> ShownTurn:
    """Prepare a turn of a conversation for its page."""
    claims: Sequence[Mapping[str, Any]] = () if turn.answer is None else turn.answer["claims"]
    nearest: Sequence[Mapping[str, Any]] = () if turn.answer is None else turn.answer["nearest"]
    cited = [place for claim in claims for place in claim["citations"]]
    places = _number_places([*cited, *nearest])
    numbers = {places[_key(place)].number for place in cited}
    shown = tuple(
        ShownClaim(
            claim["text"],
            tuple(dict.fromkeys(places[_key(place)] for place in claim["citations"])),
            claim["supported"],
        )
        for claim in claims
    )
    asked = datetime.fromtimestamp(turn.asked, UTC)
    forms = make_forms("en" if turn.answer is None else turn.answer["language"])
    return ShownTurn(
        number=turn.number,
        asked=asked,
        question=turn.question,
        answer=turn.answer,
        claims=shown,
        places=tuple(place for place in places.values() if place.number in numbers),
        nearest=tuple(place for place in places.values() if place.number not in numbers),
        forms=forms,
        feedback=turn.feedback,
    )


def _describe_place(place: Mapping[str, Any]) -> str:
    """Name the pages or the lines of a place in words; empty if neither is known."""
    for noun, first, last in (
        ("page", place["page_start"], place["page_end"]),
        ("line", place["line_start"], place["line_end"]),
    ):
        if first is not None:
            return f"{noun} {first}" if last in (None, first) else f"{noun}s {first}–{last}"
    return ""


def _number_places(cited: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int, int], ShownPlace]:
    """Number the cited places in the order in which they are first cited, as the text of the answer does."""
    places: dict[tuple[str, int, int], ShownPlace] = {}
    for place in cited:
        if _key(place) not in places:
            places[_key(place)] = ShownPlace(
                number=len(places) + 1,
                paint=name_paint(len(places)),
                title=place["title"],
                uri=place["uri"],
                where=_describe_place(place),
                quote=place["quote"],
                document_id=place["document_id"],
                start=place["char_start"],
                end=place["char_end"],
            )
    return places


def _key(place: Mapping[str, Any]) -> tuple[str, int, int]:
    return place["document_id"], place["char_start"], place["char_end"]
