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
from backstory.interfaces.library.answers import SearchAnswer
from backstory.interfaces.library.filters import SearchFilters, admit
from backstory.interfaces.library.results import Mode
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.pipeline.query_index import embed_queries
from backstory.retrieval.depth import Depth
from backstory.retrieval.evidence.pair_model import SERVES
from backstory.retrieval.evidence.question_hits import COMPARED, estimate_questions
from backstory.retrieval.found import Hit, cite
from backstory.text.content_words import list_content_words
from backstory.text.stemmers import NO_LANGUAGE
from backstory.text.words import find_words

_SPECIAL_TOKENS: Final = 8
"""More than the special tokens that any model adds."""


@dataclass(frozen=True, kw_only=True)
class SearchPlan:
    """The options of a search; see :meth:`backstory.interfaces.library.library.Library.search`."""

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
    """Search for questions in one snapshot; the notes are added to those of every answer."""
    for question in questions:
        if not question.strip():
            raise InputError("the question is blank; give some words to look for")
    index, workspace = snapshot.index, snapshot.workspace
    keys = [
        cut_long(snapshot, question) or list_keys(index, question, expand=plan.expand)
        for question in questions
    ]
    together = [key for some in keys for key in some]
    filters = admit(plan.filters, workspace.settings.rag, snapshot, len(together))
    # All keys have the same time.
    admitted = (
        0
        if filters is None or not index.manifest.rows
        else index.count_admitted(replace(filters, as_of=filters.as_of and filters.as_of[:1]))
    )
    wanted = plan.top_k or plan.depth.count_hits(admitted)
    hits: list[list[dict[str, Any]]] = [[] for _ in questions]
    engine, reason = (
        "none",
        "no chunk meets the filters" if index.manifest.rows else "the index holds no chunk",
    )
    if filters is not None and admitted:
        result = _search_keys(snapshot, together, plan, filters, wanted)
        hits = _fuse(result.hits, keys)
        engine, reason = result.engine, result.reason
    described = snapshot.describe([row["chunk_id"] for rows in hits for row in rows])
    answers = []
    for question, some, rows in zip(questions, keys, hits, strict=True):
        told, found, reranked = [*notes, *filter(None, [snapshot.degraded])], rows, False
        if question not in some:
            told.append(
                f"the question is longer than the model reads, and was searched as {len(some)} parts, the keys"
            )
        if plan.rerank:
            from backstory.interfaces.library.reranking import rerank_hits  # loads models' clients

            found, reranked, more = rerank_hits(workspace, question, rows, described)
            told += more
        found = found[:wanted]
        texts = [str(described[row["chunk_id"]]["text"]) for row in found]
        shown = len(found) if plan.top_k else plan.depth.count_within(texts)
        made = tuple(
            make_hit(place, row, described[row["chunk_id"]], snapshot.read_metadata)
            for place, row in enumerate(found[:shown], start=1)
        )
        answers.append(
            SearchAnswer(
                query=question,
                keys=some,
                mode=plan.mode or workspace.settings.rag.ranking,
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
    from backstory.interfaces.library.contexts import divide_text

    return divide_text(snapshot, question)


def list_keys(index: SearchIndex, question: str, *, expand: bool) -> tuple[str, ...]:
    """List the search keys of a question: the question, and others if it is to be expanded."""
    if not expand:
        return (question,)
    return expand_question(question, main_stemmer(index))


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
        keyword_weight=snapshot.index.manifest.calibration.keyword_weight,
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


def make_hit(
    rank: int,
    row: Mapping[str, Any],
    chunk: Mapping[str, Any],
    read_metadata: Callable[[str, str], Mapping[str, Any]],
) -> Hit:
    """Build a hit from a row of the search and the description of its chunk."""
    names = (
        *("chunk_id", "document_id", "revision", "uri", "title", "slug", "kind", "tenant", "heading"),
        *("page_start", "page_end", "line_start", "line_end", "char_start", "char_end", "text"),
    )
    return Hit(
        rank=rank,
        score=row["score"],
        cosine=row["similarity"],
        keywords=row["keyword_score"],
        probability=round(row["probability"], 3),
        above_threshold=row["probability"] >= SERVES,
        key=row["key"],
        **{name: chunk.get(name) for name in names},
        tags=tuple(chunk["tags"]),
        metadata=dict(read_metadata(chunk["uri"], chunk["revision"])),
        date=chunk["published_at"],
        cite=cite(
            chunk["uri"],
            pages=(chunk["page_start"], chunk["page_end"]),
            lines=(chunk.get("line_start"), chunk.get("line_end")),
            characters=(chunk["char_start"], chunk["char_end"]),
        ),
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
    """Build the search keys of a question: itself, its content words, if it has others, and what a template makes."""
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
