"""Answer a question from one snapshot of the index and the tables of the documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import InputError, ModelError
from backstory.index.request import admit_documents
from backstory.interfaces.library.results import Answer, AnswerTimings, Confidence
from backstory.interfaces.library.search import SearchFilters, admit, cut_long, main_stemmer, search
from backstory.interfaces.library.shown_results import show
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.pipeline.chats.named_documents import NameView
from backstory.pipeline.query_index import embed_queries
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.depth import AnswerDepth
from backstory.retrieval.evidence.pairs import measure_noise
from backstory.retrieval.found import DocumentEntry, Hit
from backstory.retrieval.selection.strategies import cover_evidence
from backstory.text.words import NO_LANGUAGE
from backstory.writing.answers.answer import (
    UNSEARCHED,
    Answerer,
    AskedQuestion,
    AskedRoute,
    Citation,
    Kind,
    MadeAnswer,
    Refusal,
    Route,
    Turn,
)
from backstory.writing.answers.answering import AnsweredQuestion, answer_question
from backstory.writing.answers.extraction import ExtractiveAnswerer
from backstory.writing.answers.forms import choose_forms
from backstory.writing.answers.markdown import shown_documents, write_markdown
from backstory.writing.answers.routing import route_question

if TYPE_CHECKING:
    from backstory.interfaces.library.corpus import Corpus
    from backstory.writing.answers.choice import AnswerModels

_WITHHELD: Final = "it names a member of a chat, and privacy.documents is reject"
_SURE: Final = 0.75
_LIKELY: Final = 0.3
"""Probabilities of the best cited passage from which the answer of a model has high and medium confidence."""
_PROBABLE: Final = 0.65
"""Probability of each quote from which an answer without a model has medium confidence."""


def answer_from(
    snapshot: OpenSnapshot,
    read_corpus: Callable[[], Corpus],
    question: str,
    history: Sequence[Turn],
    filters: SearchFilters,
    notes: Sequence[str],
) -> Answer:
    """Answer a question that is not blank from a snapshot; ``read_corpus`` reads the tables for a list."""
    workspace = snapshot.workspace
    sources = SnapshotSources(snapshot, read_corpus, filters)
    models = workspace.answer_models
    model = None if models is None else ModelAnswers(workspace, models)
    answerer: Answerer = model or ExtractiveAnswerer(sources.compare, sources.stemmer)
    try:
        answered = answer_question(question, history, sources, answerer, model)
    except ModelError as error:
        error.hits = tuple(sources.hits)
        raise
    told = [*notes, *sources.notes]
    if answered.made.refused == "not_in_documents" and not snapshot.index.manifest.rows:
        answered = replace(answered, made=replace(answered.made, refused="no_index"))
        told.append("the index holds no chunk: `backstory run` reads the documents")
    return _describe(
        answered,
        question,
        told,
        sources.entries,
        embedded_tokens=sources.tokens,
        prompts=None if model is None or answered.model is None else model.prompt_hash,
        index_version=None if answered.route.kind in UNSEARCHED else snapshot.index.manifest.version,
        degraded=snapshot.degraded,
    )


def answer_without_index(question: str, reason: str) -> Answer:
    """Answer small talk, or refuse, where nothing is indexed."""
    route = route_question(question)
    unsearched: dict[str, Refusal | None] = {"casual": None, "outside": "outside"}
    answered = AnsweredQuestion(route=route, made=MadeAnswer((), (), unsearched.get(route.kind, "no_index")))
    return _describe(answered, question, [] if route.kind in unsearched else [reason], index_version=None)


@dataclass
class SnapshotSources:
    """Documents of a snapshot, and what was read of them."""

    snapshot: OpenSnapshot
    read_corpus: Callable[[], Corpus]
    filters: SearchFilters
    hits: list[Hit] = field(default_factory=list, init=False)
    notes: list[str] = field(default_factory=list, init=False)
    entries: list[DocumentEntry] = field(default_factory=list, init=False)
    tokens: int = field(default=0, init=False)
    """Tokens that the embedder has read to compare; texts whose vectors were known count none."""

    @cached_property
    def stemmer(self) -> str:
        """Stemmer of most of the documents."""
        return main_stemmer(self.snapshot.index) if self.snapshot.index.manifest.rows else NO_LANGUAGE

    @property
    def today(self) -> date:
        """The day of ``as_of``, or the present one, in the time zone of the conversations."""
        zone = ZoneInfo(self.snapshot.workspace.settings.conversations.timezone)
        return (self.filters.as_of or datetime.now(zone)).astimezone(zone).date()

    def search(self, parts: Sequence[str], depth: AnswerDepth) -> list[Hit]:
        """Search for the parts; those of several are chosen together, as the documents of a window are."""
        rerank = self.snapshot.workspace.reranker is not None
        most = depth.merged if len(parts) == 1 else depth.of_part
        answers = search(self.snapshot, parts, top_k=most, filters=self.filters, rerank=rerank)
        self.notes += dict.fromkeys(note for answer in answers for note in answer.notes)
        best: dict[str, Hit] = {}
        for hit in (hit for answer in answers for hit in answer.hits):
            if hit.chunk_id not in best or hit.probability > best[hit.chunk_id].probability:
                best[hit.chunk_id] = hit
        chosen = list(best.values())
        if len(parts) > 1 and chosen:
            found = [{hit.chunk_id: hit.probability for hit in answer.hits} for answer in answers]
            evidence = np.array([[each.get(chunk_id, 0.0) for chunk_id in best] for each in found])
            order = cover_evidence(evidence, min(depth.merged, len(best)))
            chosen = [chosen[column] for column in order.tolist()]
        kept = chosen[: depth.kept] if rerank else chosen
        self.hits = [hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(kept, start=1)]
        return self.hits

    def list_documents(self) -> list[DocumentEntry]:
        """List the documents of the tables that the filters admit, even if the index is older than they are."""
        admitted = admit(self.filters, self.snapshot.workspace.settings.rag, self.snapshot)
        if admitted is not None:
            corpus = self.read_corpus()
            rows = admit_documents(admitted, corpus.documents)
            self.entries = [corpus.describe(row) for row in rows.iter_rows(named=True)]
        return self.entries

    def compare(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Compare a question, of a long one the nearest part, with sentences by the embedder of the snapshot.

        The cosines are in deviations from what the question reaches by chance, which serves several embedders.
        """
        asked = cut_long(self.snapshot, question) or (question,)
        embedded = embed_queries(self.snapshot.workspace, asked)
        found, tokens = self.snapshot.embed_sentences(texts)
        self.tokens += embedded.stats.tokens + tokens
        noise = measure_noise(embedded.vectors, self.snapshot.index)
        compared = ((found @ embedded.vectors.T - noise.mean) / noise.spread).max(axis=1)
        return np.asarray(compared, np.float64)


class ModelAnswers:
    """Asks the chat model about one question: an :class:`backstory.writing.answers.answer.Answerer`."""

    def __init__(self, workspace: Workspace, models: AnswerModels) -> None:
        """Set the model."""
        self._models = models
        self._view = NameView(workspace, workspace.settings.answers)
        self.id = models.answerer.id
        self.prompt_hash = models.answerer.prompt_hash

    def route(self, question: str, by_rules: Callable[[str], Route]) -> AskedRoute:
        """Tell what a question asks for: by the model if the settings want that, else by the rules."""
        if not self._models.routes:
            return AskedRoute(by_rules(question), 0, 0.0)
        if (sent := self._view.show(None, question)) is not None:
            return self._models.questions.route(sent, lambda _: by_rules(question))
        route = by_rules(question)
        return AskedRoute(Route(route.kind, f"{route.reason} (by rules, since {_WITHHELD})"), 0, 0.0)

    def condense(self, question: str, history: Sequence[Turn]) -> AskedQuestion:
        """Ask for a question that can be understood alone, from the turns that may be sent, at least one."""
        sent = self._view.show(None, question)
        turns = [
            Turn(asked, answered)
            for turn in history
            if (asked := self._view.show(None, turn.question)) is not None
            and (answered := self._view.show(None, turn.answer)) is not None
        ]
        if sent is None or not turns:
            return AskedQuestion(None, 0, 0.0, f"the question was completed by rules, since {_WITHHELD}.")
        return self._models.questions.condense(sent, turns)

    def answer(
        self, question: str, parts: Sequence[str], passages: Sequence[Hit], *, kind: Kind
    ) -> MadeAnswer:
        """Answer a question; see :class:`backstory.writing.answers.answer.Answerer`."""
        asked, *sent_parts = (self._view.show(None, text) for text in (question, *parts))
        if asked is None:
            remedy = "ask without the name, or set answers.provider to extractive"
            what = f"the question was not sent to the model: {_WITHHELD}; {remedy}"
            raise InputError(what, code="withheld_question")
        withheld = self._view.list_withheld([passage.document_id for passage in passages])
        sent = [one for one in passages if one.document_id not in withheld]
        shown = [show(one, self._view) for one in sent]
        made = self._models.answerer.answer(asked, [part or asked for part in sent_parts], shown, kind=kind)
        pairs = {own.chunk_id: (own, its) for own, its in zip(sent, shown, strict=True)}
        located = [
            tuple(_locate(one, *pairs[one.chunk_id]) for one in claim.citations) for claim in made.claims
        ]
        claims = tuple(
            claim.model_copy(update={"citations": places})
            for claim, places in zip(made.claims, located, strict=True)
        )
        named = tuple(replace(part, text=text) for part, text in zip(made.parts, parts, strict=True))
        notes = (*made.notes, *(f"for the model, {note}" for note in self._view.list_notes()))
        return replace(made, claims=claims, parts=named, notes=notes)


def _locate(citation: Citation, own: Hit, shown: Hit) -> Citation:
    """Find a quote in the passage itself; one that holds a replaced name, or stands there twice, is the whole one."""
    start, end = 0, len(own.text)
    if shown.text == own.text:
        start, end = citation.char_start - own.char_start, citation.char_end - own.char_start
    elif own.text.count(citation.quote) == 1:
        start = own.text.index(citation.quote)
        end = start + len(citation.quote)
    return Citation.quoting(own, start, end)


def _describe(
    answered: AnsweredQuestion,
    question: str,
    notes: Sequence[str],
    entries: Sequence[DocumentEntry] = (),
    **of_snapshot: Any,
) -> Answer:
    """Describe an answer, with the documents that were read for it."""
    made, query, listed = answered.made, answered.query, answered.listed
    told = list(notes)
    if query is not None and query.is_dated and (undated := sum(one.date is None for one in entries)):
        told.append(f"{undated} documents state no date, and are not in the list")
    if query is not None and query.pages and (unpaged := sum(one.pages is None for one in entries)):
        told.append(f"{unpaged} documents have no pages, and are not in the list")
    forms = choose_forms(answered.rewritten or question)
    routing, searching, answering = answered.seconds
    return Answer.of(
        made,
        question=question,
        rewritten=answered.rewritten,
        kind=answered.route.kind,
        reason=answered.route.reason,
        language=forms.language,
        markdown=write_markdown(answered, forms),
        not_found=tuple(part.text for part in made.parts if not part.is_found),
        confidence=_tell_confidence(answered),
        documents=tuple(shown_documents(query, listed)) if query is not None and listed else (),
        document_count=None if listed is None else len(listed),
        hits=answered.passages,
        model=answered.model,
        timings=AnswerTimings(routing=routing, searching=searching, answering=answering),
        notes=tuple(dict.fromkeys(filter(None, [*told, *made.notes, forms.note]))),
        **of_snapshot,
    )


def _tell_confidence(answered: AnsweredQuestion) -> Confidence:
    if answered.route.kind == "casual":
        return "high"
    made = answered.made
    if made.refused is not None:
        return "low"
    if answered.listed and answered.query is not None and not made.claims:
        return "medium" if answered.query.topic else "high"
    supported = [claim for claim in made.claims if claim.supported]
    if answered.model == ExtractiveAnswerer.id:
        # Words, form and cosine hardly tell a near miss from an answer (docs/studies/answers.md): never "high".
        estimated = [claim.probability for claim in supported if claim.probability is not None]
        return "medium" if min(estimated, default=1.0) >= _PROBABLE else "low"
    cited = {citation.chunk_id for claim in supported for citation in claim.citations}
    best = max((hit.probability for hit in answered.passages if hit.chunk_id in cited), default=0.0)
    if best >= _SURE and all(part.is_found for part in made.parts):
        return "high"
    return "medium" if best >= _LIKELY else "low"
