"""Search the index for queries; the same path serves the CLI, MCP and the library."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypedDict

import numpy as np
import polars as pl
from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.index.request import Filters, SearchRequest, UnknownLabel, find_nearest, list_unknown_labels
from backstory.index.search import SearchIndex
from backstory.interfaces.library.names import DocumentNames, find_document, find_matching
from backstory.interfaces.library.results import Mode, SearchAnswer
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.pipeline.query_index import embed_queries
from backstory.retrieval.depth import DEPTH, Depth
from backstory.retrieval.evidence.pair_model import SERVES
from backstory.retrieval.evidence.question_hits import COMPARED, estimate_questions
from backstory.retrieval.found import Hit, cite
from backstory.settings.models import RAGSettings
from backstory.text.words import NO_LANGUAGE, find_words, list_content_words

if TYPE_CHECKING:
    from backstory.interfaces.library.snapshots import OpenSnapshot


_SPECIAL_TOKENS: Final = 8
"""More than the special tokens that any model adds."""
_Row: TypeAlias = dict[str, Any]
"""A hit of the search, with the search key that found it, its probability, and its chunk as the index describes it."""


class SearchOptions(TypedDict, total=False):
    """How a library is searched; each option may be left out."""

    top_k: int | None
    """Maximum number of hits; by default ``depth`` decides."""
    filters: SearchFilters | Mapping[str, Any]
    """Which documents and pages may be found."""
    mode: Mode | None
    """``hybrid`` orders by vectors and keywords, ``dense`` by vectors, ``keyword`` by words; None for the setting
    ``rag.ranking``."""
    expand: bool
    """Whether to search also for the content words of the question. A chunk gets the best score of both keys."""
    rerank: bool
    """Whether the reranker of the settings orders the hits."""
    depth: Depth
    """Number of hits without ``top_k``: more in a larger corpus, up to a cap of tokens."""


def search(
    snapshot: OpenSnapshot,
    questions: Sequence[str],
    notes: Sequence[str] = (),
    *,
    top_k: int | None = None,
    filters: SearchFilters | Mapping[str, Any] | None = None,
    mode: Mode | None = None,
    expand: bool = False,
    rerank: bool = False,
    depth: Depth = DEPTH,
) -> list[SearchAnswer]:
    """Search for questions in one snapshot; the notes are added to those of every answer."""
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k {top_k} must be at least 1")
    if mode not in (None, "hybrid", "dense", "keyword"):
        raise InputError(f"mode {mode!r} is not known; use hybrid, dense or keyword", code="unknown_value")
    if not all(map(str.strip, questions)):
        raise InputError("the question is blank; give some words to look for")
    index, workspace = snapshot.index, snapshot.workspace
    keys = [
        cut_long(snapshot, question)
        or (expand_question(question, main_stemmer(index)) if expand else (question,))
        for question in questions
    ]
    admitting = admit(SearchFilters.take(filters), workspace.settings.rag, snapshot)
    admitted = 0 if admitting is None else index.count_admitted(admitting)
    wanted = top_k or depth.count_hits(admitted)
    hits: list[list[_Row]] = [[] for _ in questions]
    engine = "none"
    reason = "no chunk meets the filters" if index.manifest.rows else "the index holds no chunk"
    if admitting is not None and admitted:
        candidates = workspace.settings.rerank.candidates if rerank else 0
        hits, engine, reason = _search_keys(snapshot, keys, admitting, mode, max(wanted, candidates))
    answers = []
    for question, some, rows in zip(questions, keys, hits, strict=True):
        told, found, reranked = [*notes, *filter(None, [snapshot.degraded])], rows, False
        if question not in some:
            told.append(f"the question is longer than the model reads, and was searched as {len(some)} keys")
        if rerank:
            found, reranked, more = _rerank(snapshot, question, rows)
            told += more
        found = found[:wanted]
        shown = len(found) if top_k else depth.count_within([row["chunk"]["text"] for row in found])
        made = tuple(make_hit(place, row, snapshot) for place, row in enumerate(found[:shown], start=1))
        answers.append(
            SearchAnswer(
                query=question,
                keys=some,
                mode=mode or workspace.settings.rag.ranking,
                hits=made,
                corpus_chunks=admitted,
                depth=wanted,
                left_out=len(found) - shown,
                weak=sum(not hit.above_threshold for hit in made),
                engine=engine,
                reason=reason if found or not admitted else "no chunk shares a word with the question",
                reranked=reranked,
                index_version=index.manifest.version,
                degraded=snapshot.degraded,
                notes=tuple(told),
            )
        )
    return answers


def cut_long(snapshot: OpenSnapshot, question: str) -> tuple[str, ...]:
    """Cut a question that is longer than the embedder's input into parts, as a context does; none for any other."""
    embedder = snapshot.workspace.embedder
    # No token has less than a byte, so that most questions need no tokenizer.
    if len(question.encode("utf-8", "replace")) + _SPECIAL_TOKENS <= embedder.max_input_tokens:
        return ()
    if int(embedder.count_tokens([question])[0]) <= embedder.max_input_tokens:
        return ()
    from backstory.interfaces.library.messages import divide

    return tuple(divide(snapshot, question)[1]["text"])


def _search_keys(
    snapshot: OpenSnapshot, keys: Sequence[Sequence[str]], filters: Filters, mode: Mode | None, wanted: int
) -> tuple[list[list[_Row]], str, str]:
    """Search for all keys at once: return the chunks of each question, by which engine, and why by that one."""
    texts = [key for some in keys for key in some]
    embedded, rag = embed_queries(snapshot.workspace, texts), snapshot.workspace.settings.rag
    request = SearchRequest(
        top_k=max(wanted, COMPARED),
        mode=rag.mode,
        ranking=mode or rag.ranking,
        keyword_weight=snapshot.index.manifest.calibration.keyword_weight,
        filters=replace(filters, as_of=filters.as_of and list(filters.as_of) * len(texts)),
        nprobe=rag.nprobe,
        overfetch=rag.overfetch,
    )
    result = snapshot.index.search(embedded.vectors, request, texts=texts)
    described = snapshot.describe(result.hits["chunk_id"].to_list())
    probability = estimate_questions(result.hits, described, texts, embedded.vectors, snapshot.index)
    owners = [(question, key) for question, some in enumerate(keys) for key in some]
    best: list[dict[str, _Row]] = [{} for _ in keys]
    for row in result.hits.with_columns(probability=probability).iter_rows(named=True):
        question, key = owners[row["query"]]
        known = best[question].get(row["chunk_id"])
        if known is None or row["score"] > known["score"]:
            # The question is the first key, and its probability counts where it found the chunk.
            chosen = {
                "key": key,
                "chunk": described[row["chunk_id"]],
                "probability": (known or row)["probability"],
            }
            best[question][row["chunk_id"]] = row | chosen

    def place(row: _Row) -> tuple[object, ...]:
        return -row["score"], -row["similarity"], row["rank"], row["chunk_id"]

    return [sorted(found.values(), key=place) for found in best], result.engine, result.reason


def _rerank(snapshot: OpenSnapshot, question: str, found: list[_Row]) -> tuple[list[_Row], bool, list[str]]:
    """Order hits by the reranker of the settings, tell whether it did, and note why not, and what it was not sent."""
    # These load models' clients.
    from backstory.models.reranking import Reranking, Shortlist
    from backstory.pipeline.chats.named_documents import NameView

    workspace = snapshot.workspace
    if workspace.reranker is None:
        what = "there is no reranker; set `rerank: {provider: ...}` in backstory.yaml, or search without one"
        raise InputError(what, code="absent_setting")
    settings = workspace.settings.rerank
    view = NameView(workspace, settings)
    if view.show(None, question) is None:
        note = "the question was not sent to the reranker, since it names a member and privacy.documents is reject"
        return found, False, [note]
    asked, candidates = digest([question], length=16), found[: settings.candidates]
    part = {"window_id": asked, "chunk_id": "question", "text": question, "granularity": ""}
    scores = np.array([[row["score"] for row in candidates]])
    reranking = Reranking(
        *(workspace.reranker, settings, pl.DataFrame([part]), snapshot.index.describe),
        cache=workspace.judgements,
        send=view.show,
    )
    shortlist = Shortlist(["question"], [row["chunk_id"] for row in candidates], scores)
    judged = reranking.judge({asked: shortlist}).get(asked)
    notes = [f"for the reranker, {note}" for note in view.list_notes()]
    if judged is None:
        return found, False, notes
    if judged.note is not None:
        note = f"the reranker's answer was {judged.note}; the hits stay in the order of the search"
        return found, False, [note, *notes]
    values = np.nan_to_num(judged.values, nan=0.0).max(axis=0).tolist()
    # What was not judged keeps its place.
    places = [place for place in range(len(candidates)) if place not in judged.unsent]
    ordered = list(found)
    for place, chosen in zip(places, sorted(places, key=lambda place: -values[place]), strict=True):
        ordered[place] = found[chosen]
    return ordered, True, notes


def make_hit(rank: int, row: _Row, snapshot: OpenSnapshot) -> Hit:
    """Build a hit from a row of the search."""
    chunk = row["chunk"]
    known = {name: value for name, value in chunk.items() if name in Hit.model_fields}
    return Hit(
        **known,
        rank=rank,
        score=row["score"],
        cosine=row["similarity"],
        keywords=row["keyword_score"],
        probability=round(row["probability"], 3),
        above_threshold=row["probability"] >= SERVES,
        key=row["key"],
        metadata=dict(snapshot.read_metadata(chunk["uri"], chunk["revision"])),
        date=chunk["published_at"],
        cite=cite(
            chunk["uri"],
            pages=(chunk["page_start"], chunk["page_end"]),
            lines=(chunk.get("line_start"), chunk.get("line_end")),
            characters=(chunk["char_start"], chunk["char_end"]),
        ),
    )


def main_stemmer(index: SearchIndex) -> str:
    """Name the stemmer of most chunks of an index."""
    languages = index.manifest.languages
    return max(languages, key=lambda each: each.rows).stemmer if languages else NO_LANGUAGE


def expand_question(question: str, stemmer: str) -> tuple[str, ...]:
    """Build the search keys of a question: itself, and its content words, if it has others."""
    content = list_content_words(question, stemmer)
    has_others = 1 < len(content) < len(find_words(question))
    return (question, " ".join(content)) if has_others else (question,)


_CODES: Final = {"extra_forbidden": "unknown_value", "timezone_aware": "no_time_zone"}


class DocumentFilters(BaseModel, extra="forbid", frozen=True):
    """Which documents may be found; a filter that is empty does not restrict."""

    documents: Sequence[str] = Field(default=(), description="Paths, titles or ids.")
    paths: Sequence[str] = Field(default=(), description="Globs of paths, such as notes/**/*.md.")
    kinds: Sequence[str] = Field(default=(), description="Kinds, such as post.")
    tags: Sequence[str] = Field(default=(), description="Tags, at least one of which a document has.")
    pages: Sequence[int] | None = Field(
        default=None,
        min_length=2,
        max_length=2,
        description="First and last page; not for a whole conversation.",
    )
    metadata: Mapping[str, Any] = Field(default={}, description="Values that an added text was given.")


class SearchFilters(DocumentFilters):
    """Conditions that every hit must meet; an empty or absent one does not restrict.

    ``kinds``, ``tags`` and ``tenant`` override the settings ``rag.kinds``, ``rag.tags`` and ``rag.tenant``.
    ``rag.document_ids`` always applies. Of metadata that is a list, one value suffices. An :class:`InputError` means
    that a value does not have the required form.
    """

    tenant: str | None = Field(default=None, description="Owner of the documents.")
    as_of: AwareDatetime | None = Field(default=None, description="Hides later documents; not undated ones.")

    if not TYPE_CHECKING:  # for type checkers, the fields are the arguments

        def __init__(self, **given: Any) -> None:
            try:
                super().__init__(**given)
            except ValidationError as error:
                fault = error.errors(include_url=False)[0]
                name = ".".join(map(str, fault["loc"]))
                known = ", ".join(type(self).model_fields)
                what = f"filter {name}: {fault['msg']}, not {fault['input']!r}; the filters are {known}"
                raise InputError(what, code=_CODES.get(fault["type"], "wrong_type")) from None
            if self.pages is not None and not 1 <= self.pages[0] <= self.pages[1]:
                what = f"filter pages {self.pages}: pages count from 1, the first before the last"
                raise InputError(what, code="out_of_range")

    @classmethod
    def take(cls, given: DocumentFilters | Mapping[str, Any] | None, **others: Any) -> Self:
        """Take filters, or a mapping of their names to their values; others by name take precedence."""
        if not isinstance(given, DocumentFilters | Mapping | None):
            raise InputError(f"filters are {given!r}; pass SearchFilters or a mapping", code="unknown_value")
        return cls(**{**dict(given or {}), **others})


def admit(filters: SearchFilters, settings: RAGSettings, snapshot: OpenSnapshot) -> Filters | None:
    """Build the conditions of the index for one query; None if no document can meet them."""
    tenant = settings.tenant if filters.tenant is None else filters.tenant
    unknown = list_unknown_labels(snapshot.index.documents, filters.kinds, filters.tags, tenant)
    if unknown:
        raise InputError(f"{unknown[0].describe()}; `backstory documents` lists all", code="unknown_value")
    ids: set[str] | None = set(settings.document_ids) or None
    if filters.documents or filters.paths or filters.metadata:
        documents = snapshot.name_documents(tenant)
        named = {find_document(documents, name).document_id for name in filters.documents}
        for pattern in filters.paths:
            named |= {document.document_id for document in find_matching(documents, pattern)}
        if not (filters.documents or filters.paths):
            named = {document.document_id for document in documents}
        if filters.metadata:
            named = _match_metadata(filters.metadata, documents, named)
        ids = named if ids is None else ids & named
    if ids is not None and not ids:
        return None
    return Filters(
        as_of=None if filters.as_of is None else [filters.as_of],
        kinds=list(filters.kinds or settings.kinds),
        tags=list(filters.tags or settings.tags),
        document_ids=sorted(ids or ()),
        tenant=tenant,
        undated=settings.undated == "serve",
        pages=None if filters.pages is None else (filters.pages[0], filters.pages[1]),
    )


def _match_metadata(
    wanted: Mapping[str, Any], documents: Sequence[DocumentNames], named: Collection[str]
) -> set[str]:
    """Find those of some documents whose metadata has the wanted values, or of a list one value."""
    from backstory.interfaces.library.added_texts import read_metadata  # few searches need it

    found = {one.document_id: read_metadata(one.path, one.uri) for one in documents}
    known = set[str]().union(*found.values())
    unknown = [name for name in wanted if name not in known]
    if documents and unknown:
        label = UnknownLabel("metadata", unknown[0], find_nearest(unknown[0], sorted(known)))
        raise InputError(label.describe(), code="unknown_value")
    for name, value in wanted.items():
        stated = {one: found[one][name] for one in named if name in found[one]}
        named = {
            one for one, its in stated.items() if its == value or (isinstance(its, list) and value in its)
        }
    return set(named)
