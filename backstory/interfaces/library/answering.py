"""Answer a question from one snapshot of the index and the tables of the documents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from backstory.base.errors import ModelError
from backstory.index.request import admit_documents
from backstory.interfaces.library.answers import Answer, AnswerTimings
from backstory.interfaces.library.filters import SearchFilters, admit
from backstory.interfaces.library.results import Confidence, DocumentEntry
from backstory.interfaces.library.search import SearchPlan, cut_long, main_stemmer, search
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.pipeline.query_index import embed_queries
from backstory.retrieval.depth import DEPTH, AnswerDepth
from backstory.retrieval.evidence.pairs import measure_noise
from backstory.retrieval.found import Hit
from backstory.retrieval.selection.strategies import cover_evidence
from backstory.text.stemmers import NO_LANGUAGE
from backstory.writing.answers.answer import UNSEARCHED, Answerer, MadeAnswer, Refusal, Turn
from backstory.writing.answers.answering import AnsweredQuestion, answer_question
from backstory.writing.answers.catalog import Listed
from backstory.writing.answers.extraction import ExtractiveAnswerer
from backstory.writing.answers.forms import choose_forms
from backstory.writing.answers.markdown import shown_documents, write_markdown
from backstory.writing.answers.routing import route_question

if TYPE_CHECKING:
    from backstory.interfaces.library.corpus import Corpus

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
    model = None
    if workspace.answer_models is not None:
        from backstory.interfaces.library.model_answers import ModelAnswers  # loads models' clients

        model = ModelAnswers(workspace, workspace.answer_models)
    comparison = SnapshotComparison(snapshot)
    answerer: Answerer = model or ExtractiveAnswerer(comparison, sources.stemmer)
    try:
        answered = answer_question(question, history, sources, answerer, model)
    except ModelError as error:
        error.hits = tuple(sources.hits.values())
        raise
    made = answered.made
    if made.refused == "not_in_documents" and not snapshot.index.manifest.rows:
        told = (*made.notes, "the index holds no chunk: `backstory run` reads the documents")
        answered = replace(answered, made=replace(made, refused="no_index", notes=told))
    # A list reads the documents of the tables, even if the index is older than they are.
    described = _describe(answered, sources, question, [*notes, *sources.notes])
    prompts = model.prompt_hash if model is not None and described.model is not None else None
    return described.model_copy(update={"embedded_tokens": comparison.tokens, "prompts": prompts})


def answer_without_index(question: str, reason: str) -> Answer:
    """Answer small talk, or refuse, where nothing is indexed."""
    route = route_question(question)
    refused: Refusal | None = (
        None if route.kind == "casual" else "outside" if route.kind == "outside" else "no_index"
    )
    answered = AnsweredQuestion(route=route, made=MadeAnswer((), (), refused))
    return _describe(answered, None, question, [reason] if refused == "no_index" else [])


@dataclass
class SnapshotSources:
    """Documents of a snapshot, and what was read of them."""

    snapshot: OpenSnapshot
    read_corpus: Callable[[], Corpus]
    filters: SearchFilters
    hits: dict[str, Hit] = field(default_factory=dict, init=False)
    notes: list[str] = field(default_factory=list, init=False)
    entries: dict[str, DocumentEntry] = field(default_factory=dict, init=False)

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
        plan = SearchPlan(
            top_k=depth.merged if len(parts) == 1 else depth.of_part,
            filters=self.filters,
            mode=None,
            expand=False,
            rerank=rerank,
            depth=DEPTH,
        )
        answers = search(self.snapshot, parts, plan)
        self.notes += dict.fromkeys(note for answer in answers for note in answer.notes)
        best: dict[str, Hit] = {}
        for hit in (hit for answer in answers for hit in answer.hits):
            if hit.chunk_id not in best or hit.probability > best[hit.chunk_id].probability:
                best[hit.chunk_id] = hit
        chosen = list(best)
        if len(parts) > 1 and chosen:
            evidence = np.zeros((len(parts), len(chosen)))
            place = {chunk_id: column for column, chunk_id in enumerate(chosen)}
            for row, answer in enumerate(answers):
                for hit in answer.hits:
                    evidence[row, place[hit.chunk_id]] = hit.probability
            order = cover_evidence(evidence, min(depth.merged, len(chosen)))
            chosen = [chosen[column] for column in order.tolist()]
        if rerank:
            chosen = chosen[: depth.kept]
        self.hits = {
            chunk_id: best[chunk_id].model_copy(update={"rank": rank})
            for rank, chunk_id in enumerate(chosen, start=1)
        }
        return list(self.hits.values())

    def list_documents(self) -> list[Listed]:
        """List the documents of the tables that the filters admit."""
        admitted = admit(self.filters, self.snapshot.workspace.settings.rag, self.snapshot, 1)
        if admitted is None:
            return []
        corpus = self.read_corpus()
        rows = admit_documents(admitted, corpus.documents)
        entries = [corpus.describe(row) for row in rows.iter_rows(named=True)]
        self.entries = {entry.document_id: entry for entry in entries}
        return [
            Listed(
                entry.document_id,
                entry.uri,
                entry.title,
                entry.kind,
                entry.tags,
                entry.date.date() if entry.date else None,
                entry.pages,
            )
            for entry in entries
        ]


@dataclass
class SnapshotComparison:
    """Compares a question with sentences by the embedder of a snapshot; of a long one the part that is nearest.

    The cosines are in deviations from what the question reaches by chance, which serves several embedders.

    Attributes:
        snapshot: The snapshot.
        tokens: Tokens that the embedder has read for comparisons; texts whose vectors were known count none.
    """

    snapshot: OpenSnapshot
    tokens: int = field(default=0, init=False)

    def __call__(self, question: str, texts: Sequence[str]) -> NDArray[np.float64]:
        """Compare a question with texts, see :data:`backstory.writing.answers.answer_features.Compare`."""
        workspace = self.snapshot.workspace
        asked = cut_long(self.snapshot, question) or (question,)
        embedded = embed_queries(workspace, asked)
        queries = embedded.vectors
        found, tokens = self.snapshot.embed_sentences(texts)
        self.tokens += embedded.stats.tokens + tokens
        noise = measure_noise(queries, self.snapshot.index)
        compared: NDArray[np.float64] = ((found @ queries.T - noise.mean) / noise.spread).max(axis=1)
        return compared.astype(np.float64)


def _describe(
    answered: AnsweredQuestion, sources: SnapshotSources | None, question: str, notes: Sequence[str]
) -> Answer:
    """Describe an answer, with what was read for it; without sources where nothing is indexed."""
    made, query, listed = answered.made, answered.query, answered.listed
    entries = {} if sources is None else sources.entries
    if query is not None:
        undated = sum(entry.date is None for entry in entries.values())
        unpaged = sum(entry.pages is None for entry in entries.values())
        if query.is_dated and undated:
            notes = [*notes, f"{undated} documents state no date, and are not in the list"]
        if query.pages is not None and unpaged:
            notes = [*notes, f"{unpaged} documents have no pages, and are not in the list"]
    shown = shown_documents(query, listed) if query is not None and listed is not None else []
    forms = choose_forms(answered.rewritten or question)
    is_searched = sources is not None and answered.route.kind not in UNSEARCHED
    return Answer(
        question=question,
        rewritten=answered.rewritten,
        kind=answered.route.kind,
        reason=answered.route.reason,
        language=forms.language,
        markdown=write_markdown(answered, forms),
        claims=made.claims,
        not_found=tuple(part.text for part in made.parts if not part.is_found),
        confidence=_tell_confidence(answered, {} if sources is None else sources.hits),
        refused=made.refused,
        nearest=made.nearest,
        documents=tuple(entries[each.document_id] for each in shown),
        document_count=None if listed is None else len(listed),
        hits=() if sources is None else tuple(sources.hits.values()),
        model=answered.model,
        timings=AnswerTimings(
            **dict(zip(("routing", "searching", "answering"), answered.seconds, strict=True))
        ),
        tokens=made.tokens,
        cost=made.cost,
        index_version=sources.snapshot.index.manifest.version
        if sources is not None and is_searched
        else None,
        degraded=None if sources is None else sources.snapshot.degraded,
        notes=tuple(dict.fromkeys(filter(None, [*notes, *made.notes, forms.note]))),
    )


def _tell_confidence(answered: AnsweredQuestion, hits: Mapping[str, Hit]) -> Confidence:
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
    cited = [citation.chunk_id for claim in supported for citation in claim.citations]
    best = max((hits[chunk_id].probability for chunk_id in cited), default=0.0)
    if best >= _SURE and all(part.is_found for part in made.parts):
        return "high"
    return "medium" if best >= _LIKELY else "low"
