"""Search the index for queries; the same path serves the CLI, MCP and the library."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from backstory.base.errors import InputError
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex, SearchResult
from backstory.interfaces.library.filters import SearchFilters, admit
from backstory.interfaces.library.results import Hit, Mode, SearchAnswer
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.interfaces.library.text_positions import cite
from backstory.pipeline.query_index import embed_queries
from backstory.retrieval.depth import Depth
from backstory.retrieval.evidence.pair_model import SERVES
from backstory.retrieval.evidence.question_hits import COMPARED, estimate_questions
from backstory.text.content_words import list_content_words
from backstory.text.stemmers import NO_LANGUAGE
from backstory.text.words import find_words

_SPECIAL_TOKENS: Final = 8
"""More than the special tokens that any model adds."""


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """Options of a search.

    Attributes:
        top_k: Most hits of a question; None leaves it to ``depth``.
        filters: Which documents and pages may be found.
        mode: How hits are ordered; None for the setting ``rag.ranking``.
        expand: Whether several search keys are made of a question.
        rerank: Whether the reranker of the settings orders the hits.
        depth: The policy of depth.

    Raises:
        InputError: ``top_k`` is below 1.
    """

    top_k: int | None
    filters: SearchFilters
    mode: Mode | None
    expand: bool
    rerank: bool
    depth: Depth

    def __post_init__(self) -> None:
        if self.top_k is not None and self.top_k < 1:
            raise InputError(f"top_k {self.top_k} must be at least 1")
        if self.mode not in (None, "hybrid", "dense", "keyword"):
            raise InputError(
                f"mode {self.mode!r} is not known; use hybrid, dense or keyword", code="unknown_value"
            )


def search(
    snapshot: OpenSnapshot, questions: Sequence[str], plan: SearchPlan, notes: Sequence[str] = ()
) -> list[SearchAnswer]:
    """Search for questions in one snapshot.

    Args:
        snapshot: The open snapshot.
        questions: The questions, none blank.
        plan: How to search.
        notes: Notes to add to those of every answer.

    Returns:
        One answer per question.

    Raises:
        InputError: A question is blank, a filter fits no document or a name several, or there is no reranker.
        ModelError: The reranker could not be used.
    """
    for question in questions:
        if not question.strip():
            raise InputError("the question is blank; give some words to look for")
    parts = [cut_long(snapshot, question) for question in questions]
    keys = [
        some or list_keys(snapshot.index, question, expand=plan.expand)
        for question, some in zip(questions, parts, strict=True)
    ]
    together = [key for some in keys for key in some]
    settings = snapshot.workspace.settings.rag
    filters = admit(plan.filters, settings, snapshot, len(together))
    searched = _Searched(snapshot, plan, [*notes, *filter(None, [snapshot.served.degraded])])
    if filters is None or not snapshot.index.rows:
        return [
            searched.answer_nothing(question, some) for question, some in zip(questions, keys, strict=True)
        ]
    admitted = _count_admitted(snapshot.index, filters)
    if not admitted:
        return [
            searched.answer_nothing(question, some) for question, some in zip(questions, keys, strict=True)
        ]
    wanted = plan.top_k or plan.depth.count_hits(admitted)
    result = _search_keys(snapshot, together, plan, filters, wanted)
    hits = _fuse(result.hits, keys)
    described = snapshot.describe([row["chunk_id"] for rows in hits for row in rows])
    return [
        searched.answer(question, some, found, described, wanted, admitted, result)
        for question, some, found in zip(questions, keys, hits, strict=True)
    ]


def cut_long(snapshot: OpenSnapshot, question: str) -> tuple[str, ...]:
    """Cut a question that is longer than the embedder's input into parts, as a context does; none for any other."""
    embedder = snapshot.workspace.embedder
    # No token has less than a byte, so that most questions need no tokenizer.
    if len(question.encode("utf-8", "replace")) + _SPECIAL_TOKENS <= embedder.max_input_tokens:
        return ()
    if int(embedder.count_tokens([question])[0]) <= embedder.max_input_tokens:
        return ()
    from backstory.interfaces.library.contexts import divide_text

    return divide_text(snapshot, question)


def list_keys(index: SearchIndex, question: str, *, expand: bool) -> tuple[str, ...]:
    """List the search keys of a question: the question, and others if it is to be expanded."""
    if not expand:
        return (question,)
    return expand_question(question, main_stemmer(index))


def _count_admitted(index: SearchIndex, filters: Filters) -> int:
    """Count the chunks that the filters admit; all keys have the same time."""
    return index.count_admitted(replace(filters, as_of=filters.as_of and filters.as_of[:1]))


def _search_keys(
    snapshot: OpenSnapshot, keys: Sequence[str], plan: SearchPlan, filters: Filters, wanted: int
) -> SearchResult:
    """Search for all keys at once, and add the probability of each hit. Known vectors come from the cache."""
    workspace = snapshot.workspace
    settings = workspace.settings
    embedded = embed_queries(workspace, keys)
    rag = settings.rag
    request = SearchRequest(
        top_k=max(wanted, COMPARED, settings.rerank.candidates if plan.rerank else 0),
        mode=rag.mode,
        ranking=plan.mode or rag.ranking,
        keyword_weight=snapshot.index.calibration.keyword_weight,
        filters=filters,
        nprobe=rag.nprobe,
        overfetch=rag.overfetch,
    )
    result = snapshot.index.search(embedded.vectors, request, texts=list(keys))
    described = snapshot.describe(result.hits["chunk_id"].to_list())
    probability = estimate_questions(result.hits, described, keys, embedded.vectors, snapshot.index)
    return replace(result, hits=result.hits.hstack([pl.Series("probability", probability, dtype=pl.Float64)]))


def _fuse(hits: pl.DataFrame, keys: Sequence[Sequence[str]]) -> list[list[dict[str, Any]]]:
    """Return the chunks of each question, each once, with the best score of all its keys."""
    owners = [(question, key) for question, some in enumerate(keys) for key in some]
    best: list[dict[str, dict[str, Any]]] = [{} for _ in keys]
    for row in hits.iter_rows(named=True):
        question, key = owners[row["query"]]
        known = best[question].get(row["chunk_id"])
        if known is None or row["score"] > known["score"]:
            # The question is the first key, and its probability counts where it found the chunk.
            probability = known["probability"] if known else row["probability"]
            best[question][row["chunk_id"]] = {**row, "key": key, "probability": probability}
    return [
        sorted(
            found.values(), key=lambda row: (-row["score"], -row["similarity"], row["rank"], row["chunk_id"])
        )
        for found in best
    ]


@dataclass(frozen=True)
class _Searched:
    """Data shared by the answers to all questions of a search."""

    snapshot: OpenSnapshot
    plan: SearchPlan
    notes: Sequence[str]

    def answer(
        self,
        question: str,
        keys: tuple[str, ...],
        found: list[dict[str, Any]],
        described: Mapping[str, Mapping[str, Any]],
        wanted: int,
        admitted: int,
        result: SearchResult,
    ) -> SearchAnswer:
        notes, reranked = list(self.notes), False
        if question not in keys:
            notes.append(
                f"the question is longer than the model reads, and was searched as {len(keys)} parts, the keys"
            )
        if self.plan.rerank:
            from backstory.interfaces.library.reranking import rerank_hits  # loads models' clients

            found, reranked, told = rerank_hits(self.snapshot.workspace, question, found, described)
            notes += told
        found = found[:wanted]
        texts = [str(described[row["chunk_id"]]["text"]) for row in found]
        shown = len(found) if self.plan.top_k else self.plan.depth.count_within(texts)
        hits = tuple(
            make_hit(place, row, described[row["chunk_id"]], self.snapshot.read_metadata)
            for place, row in enumerate(found[:shown], start=1)
        )
        return SearchAnswer(
            query=question,
            keys=keys,
            mode=self._mode,
            hits=hits,
            corpus_chunks=admitted,
            depth=wanted,
            left_out=len(found) - shown,
            weak=sum(not hit.above_threshold for hit in hits),
            engine=result.engine,
            reason=result.reason if found else "no chunk shares a word with the question",
            reranked=reranked,
            index_version=self.snapshot.index.version,
            degraded=self.snapshot.served.degraded,
            notes=tuple(notes),
        )

    def answer_nothing(self, question: str, keys: tuple[str, ...]) -> SearchAnswer:
        """Build the answer if no chunk meets the filters."""
        return SearchAnswer(
            query=question,
            keys=keys,
            mode=self._mode,
            hits=(),
            corpus_chunks=0,
            depth=self.plan.top_k or self.plan.depth.count_hits(0),
            left_out=0,
            weak=0,
            engine="none",
            reason="no chunk meets the filters" if self.snapshot.index.rows else "the index holds no chunk",
            reranked=False,
            index_version=self.snapshot.index.version,
            degraded=self.snapshot.served.degraded,
            notes=tuple(self.notes),
        )

    @property
    def _mode(self) -> Mode:
        return self.plan.mode or self.snapshot.workspace.settings.rag.ranking


def make_hit(
    rank: int,
    row: Mapping[str, Any],
    chunk: Mapping[str, Any],
    read_metadata: Callable[[str, str], Mapping[str, Any]],
) -> Hit:
    """Build a hit from a row of the search and the description of its chunk."""
    pages = None if chunk["page_start"] is None else (chunk["page_start"], chunk["page_end"])
    first_line, last_line = chunk.get("line_start"), chunk.get("line_end")
    lines = None if first_line is None or last_line is None else (first_line, last_line)
    characters = (chunk["char_start"], chunk["char_end"])
    return Hit(
        rank=rank,
        score=row["score"],
        cosine=row["similarity"],
        keywords=row["keyword_score"],
        probability=round(row["probability"], 3),
        above_threshold=row["probability"] >= SERVES,
        key=row["key"],
        **{
            name: chunk[name]
            for name in (
                *("chunk_id", "document_id", "revision", "uri", "title", "slug", "kind", "tenant", "heading"),
                *("page_start", "page_end", "char_start", "char_end", "text"),
            )
        },
        tags=tuple(chunk["tags"]),
        metadata=dict(read_metadata(chunk["uri"], chunk["revision"])),
        date=chunk["published_at"],
        line_start=first_line,
        line_end=last_line,
        cite=cite(chunk["uri"], pages=pages, lines=lines, characters=characters),
    )


_TEMPLATES: Final = (
    (r"what(?: is|'s| are| was| were) (?:an? |the )?(?P<x>.+)", "{x} definition"),
    (r"what does (?P<x>.+) mean", "{x} definition"),
    (r"who(?: is|'s| was| are| were) (?P<x>.+)", "{x} person"),
    (r"when(?: is| was| did| does| will) (?P<x>.+)", "{x} date"),
    (r"where(?: is| was| are| were| do| does| did) (?P<x>.+)", "{x} place"),
    (r"why (?:is |are |was |were |do |does |did )?(?P<x>.+)", "{x} reason"),
    (r"how (?:do|does|can|should) (?:i|we|you|one) (?P<x>.+)", "{x} steps"),
    (r"how (?:many|much) (?P<x>.+)", "{x} number"),
    (r"was (?:ist|sind|war|waren) (?:ein |eine |der |die |das )?(?P<x>.+)", "{x} Definition"),
)
_FORMS: Final = tuple((re.compile(form, re.IGNORECASE | re.DOTALL), made) for form, made in _TEMPLATES)
_ENDS: Final = " \t\n?!.,;:¿¡\"'“”‘’«»"
_LEAST_WORDS: Final = 2


def main_stemmer(index: SearchIndex) -> str:
    """Name the stemmer of most chunks of an index."""
    languages = index.manifest.languages
    return max(languages, key=lambda each: each.rows).stemmer if languages else NO_LANGUAGE


def expand_question(question: str, stemmer: str) -> tuple[str, ...]:
    """Build the search keys of a question.

    Args:
        question: Any text.
        stemmer: Name of the stemmer whose stop words are no content.

    Returns:
        The question itself; its content words, if it has others; and the result of a template. Each key once.
    """
    keys = [question]
    content = list_content_words(question, stemmer)
    if len(content) >= _LEAST_WORDS and len(content) < len(find_words(question)):
        keys.append(" ".join(content))
    bare = " ".join(question.split()).strip(_ENDS)
    for form, made in _FORMS:
        found = form.fullmatch(bare)
        if found is not None:
            keys.append(made.format(x=found["x"]))
            break
    return tuple(dict.fromkeys(keys))
