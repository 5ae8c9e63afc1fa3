"""A question -> an answer, step by step: route it, complete it, search, answer from what was found, or refuse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from time import perf_counter
from typing import Final, Protocol

from backstory.base.progress import announce
from backstory.retrieval.depth import DEPTH, AnswerDepth
from backstory.retrieval.found import DocumentEntry, Hit
from backstory.writing.answers.answer import (
    UNSEARCHED,
    Answerer,
    AskedQuestion,
    AskedRoute,
    Kind,
    MadeAnswer,
    Part,
    Refusal,
    Route,
    Turn,
)
from backstory.writing.answers.catalog import (
    CatalogQuery,
    find_relative_time,
    read_catalog_query,
    select_documents,
)
from backstory.writing.answers.followups import asks_more, complete_question, names_another, selects_from
from backstory.writing.answers.parts import split_question
from backstory.writing.answers.routing import route_question

SERVES: Final = 0.5
"""A passage tells something about the topic of a list of documents from this probability on."""

_WIDER: Final = ("list", "compare", "summarize")
"""Classes that a follow-up takes over from the question that it goes on from."""


class Sources(Protocol):
    """The documents, as an answer reads them."""

    @property
    def stemmer(self) -> str:
        """Stemmer of most of the documents."""

    @property
    def today(self) -> date:
        """The day on which "last year" and the like depend."""

    def search(self, parts: Sequence[str], depth: AnswerDepth) -> list[Hit]:
        """Search for the parts of a question.

        Args:
            parts: The parts, at least one.
            depth: How many passages are wanted.

        Returns:
            The passages, best first, with the ids ``p1``, ``p2`` and so on.
        """

    def list_documents(self) -> list[DocumentEntry]:
        """List the documents that the filters admit."""


class QuestionModels(Protocol):
    """A model that is asked about questions before the documents are searched."""

    def route(self, question: str, by_rules: Callable[[str], Route]) -> AskedRoute:
        """Tell what a question asks for: by the model if the settings want that, else by the rules."""

    def condense(self, question: str, history: Sequence[Turn]) -> AskedQuestion:
        """Ask for a question that can be understood alone."""


@dataclass(frozen=True, kw_only=True)
class AnsweredQuestion:
    """What became of a question.

    Attributes:
        route: What is asked for.
        rewritten: The question as a follow-up was completed; None if it stands alone.
        made: The answer.
        passages: What was found, best first.
        listed: The documents of the catalog that a list asks for, all of them; None for no such list.
        query: What a list says of these documents.
        seconds: Seconds of the clock: to route and complete, to search, and to answer.
        model: What answered; None if nothing did.
    """

    route: Route
    rewritten: str | None = None
    made: MadeAnswer
    passages: tuple[Hit, ...] = ()
    listed: tuple[DocumentEntry, ...] | None = None
    query: CatalogQuery | None = None
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)
    model: str | None = None


@dataclass(frozen=True)
class _Understood:
    """A question before the search, and what understanding it used."""

    route: Route
    question: str
    rewritten: str | None
    tokens: int = 0
    cost: float | None = 0.0
    notes: tuple[str, ...] = field(default=())


def answer_question(
    question: str,
    history: Sequence[Turn],
    sources: Sources,
    answerer: Answerer,
    models: QuestionModels | None = None,
) -> AnsweredQuestion:
    """Answer a question from the documents alone.

    Args:
        question: The question, not blank.
        history: The conversation so far, the last turn last.
        sources: The documents.
        answerer: Answers from passages.
        models: Routes and completes questions; None for rules.

    Returns:
        The answer; refused, with a reason, if the documents do not tell.

    Raises:
        ModelError: The model could not be used.
        BudgetExhaustedError: A call would exceed a budget.
    """
    started = perf_counter()
    understood = _understand(question, history, sources.stemmer, models)
    routed = perf_counter()
    kind = understood.route.kind
    if kind in UNSEARCHED:
        refused: Refusal | None = "outside" if kind == "outside" else None
        nothing = _add_use(MadeAnswer((), (), refused), understood)
        return AnsweredQuestion(route=understood.route, made=nothing, seconds=(routed - started, 0.0, 0.0))
    parts = split_question(understood.question, kind, sources.stemmer)
    depth = _choose_depth(kind, parts)
    announce("searching", 0, 1)
    passages = sources.search(parts, depth)
    query, listed = _list(understood, sources, passages)
    searched = perf_counter()
    made = _answer(understood, parts, passages, answerer, kind, query, listed)
    if query is None and (words := find_relative_time(understood.question)):
        told = f"“{words}” restricts only lists of documents: what is cited may tell of another time"
        made = replace(made, notes=(*made.notes, told))
    done = perf_counter()
    return AnsweredQuestion(
        route=understood.route,
        rewritten=understood.rewritten,
        made=_add_use(made, understood),
        passages=tuple(passages),
        listed=listed,
        query=query,
        seconds=(routed - started, searched - routed, done - searched),
        model=answerer.id if made.claims else None,
    )


def _understand(
    question: str, history: Sequence[Turn], stemmer: str, models: QuestionModels | None
) -> _Understood:
    """Tell what is asked for, and complete a follow-up."""
    tokens, notes = 0, []
    cost: float | None = 0.0
    route = route_question(question)
    if models is not None:
        asked = models.route(question, route_question)
        route, tokens, cost = asked.route, asked.tokens, asked.cost
    if route.kind == "casual" and asks_more(question, history):
        route = Route("lookup", "it asks more about the last question")
    if route.kind in UNSEARCHED:
        return _Understood(route, question, None, tokens, cost)
    rewritten = complete_question(question, history, stemmer)
    if rewritten is not None and models is not None:
        condensed = models.condense(question, history)
        rewritten = condensed.question or rewritten
        tokens += condensed.tokens
        cost = None if cost is None or condensed.cost is None else cost + condensed.cost
        notes += [condensed.note] if condensed.note else []
    if rewritten is not None and route.kind == "lookup":
        # "And of 2024?" goes on from a list, which only the completed question or the last one shows.
        goes_on = names_another(question, history) or selects_from(question)
        asked_before = [rewritten, *([history[-1].question] if goes_on else [])]
        wider = [each for each in map(route_question, asked_before) if each.kind in _WIDER]
        route = wider[0] if wider else route
    return _Understood(route, rewritten or question, rewritten, tokens, cost, tuple(notes))


def _choose_depth(kind: Kind, parts: Sequence[str]) -> AnswerDepth:
    compared = 2 if kind == "compare" else 1
    return DEPTH.of_answer(parts=max(len(parts), compared), is_wide=kind in ("list", "summarize"))


def _list(
    understood: _Understood, sources: Sources, passages: Sequence[Hit]
) -> tuple[CatalogQuery | None, tuple[DocumentEntry, ...] | None]:
    """Find the documents of the catalog, if a list asks for documents."""
    if understood.route.kind != "list":
        return None, None
    documents = sources.list_documents()
    query = read_catalog_query(understood.question, documents, sources.stemmer, sources.today)
    if query is None:
        return None, None
    serving = {passage.document_id for passage in passages if passage.probability >= SERVES}
    return query, tuple(select_documents(query, documents, serving, sources.stemmer))


def _answer(
    understood: _Understood,
    parts: Sequence[str],
    passages: Sequence[Hit],
    answerer: Answerer,
    kind: Kind,
    query: CatalogQuery | None,
    listed: Sequence[DocumentEntry] | None,
) -> MadeAnswer:
    """Answer from the passages.

    The catalog alone answers how many documents there are, and a list that only names a kind, a time or a tag, also if
    it does not call it a tag.
    """
    if query is not None and not query.topic:
        return MadeAnswer((), ()) if listed else _refuse(parts)
    if query is not None and listed and (query.asks_number or query.is_tagged):
        return MadeAnswer((), ())
    if listed:
        # What other documents say is not of those that the list names.
        ids = {document.document_id for document in listed}
        passages = [passage for passage in passages if passage.document_id in ids]
    if not passages:
        return MadeAnswer((), ()) if listed else _refuse(parts)
    made = answerer.answer(understood.question, parts, passages, kind=kind)
    if listed and made.refused == "not_in_documents":
        return replace(made, refused=None, parts=(), nearest=())
    return made


def _refuse(parts: Sequence[str]) -> MadeAnswer:
    return MadeAnswer((), tuple(Part(part, is_found=False) for part in parts), "not_in_documents")


def _add_use(made: MadeAnswer, understood: _Understood) -> MadeAnswer:
    """Add what understanding the question used."""
    cost = None if made.cost is None or understood.cost is None else made.cost + understood.cost
    return replace(
        made, tokens=made.tokens + understood.tokens, cost=cost, notes=(*understood.notes, *made.notes)
    )
