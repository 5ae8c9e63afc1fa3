"""Search the index for queries; the same path serves the CLI, MCP and the library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, TypedDict

import numpy as np
import polars as pl

from backstory.base.errors import InputError
from backstory.base.ids import digest
from backstory.index.request import Filters, SearchRequest
from backstory.index.search import SearchIndex, SearchResult
from backstory.interfaces.library.filters import SearchFilters, admit
from backstory.interfaces.library.results import Mode, SearchAnswer
from backstory.interfaces.library.snapshots import OpenSnapshot
from backstory.pipeline.query_index import embed_queries
from backstory.retrieval.depth import DEPTH, Depth
from backstory.retrieval.evidence.pair_model import SERVES
from backstory.retrieval.evidence.question_hits import COMPARED, estimate_questions
from backstory.retrieval.found import Hit, cite
from backstory.text.content_words import list_content_words
from backstory.text.stemmers import NO_LANGUAGE
from backstory.text.words import find_words

_SPECIAL_TOKENS: Final = 8
"""More than the special tokens that any model adds."""


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
    """Whether to search for further keys: the content words of the question, and the results of templates such as
    "what is X" -> "X definition". A chunk gets the best score of all keys."""
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
    together = [key for some in keys for key in some]
    admitting = admit(SearchFilters.take(filters), workspace.settings.rag, snapshot)
    admitted = 0 if admitting is None else index.count_admitted(admitting)
    wanted = top_k or depth.count_hits(admitted)
    hits: list[list[dict[str, Any]]] = [[] for _ in questions]
    engine = "none"
    reason = "no chunk meets the filters" if index.manifest.rows else "the index holds no chunk"
    if admitting is not None and admitted:
        candidates = workspace.settings.rerank.candidates if rerank else 0
        result = _search_keys(snapshot, together, admitting, mode, max(wanted, candidates))
        hits = _fuse(result.hits, keys)
        engine, reason = result.engine, result.reason
    described = snapshot.describe([row["chunk_id"] for rows in hits for row in rows])
    answers = []
    for question, some, rows in zip(questions, keys, hits, strict=True):
        told, found, reranked = [*notes, *filter(None, [snapshot.degraded])], rows, False
        if question not in some:
            told.append(f"the question is longer than the model reads, and was searched as {len(some)} keys")
        if rerank:
            found, reranked, more = _rerank(snapshot, question, rows)
            told += more
        found = found[:wanted]
        texts = [str(described[row["chunk_id"]]["text"]) for row in found]
        shown = len(found) if top_k else depth.count_within(texts)
        made = tuple(
            make_hit(place, row, described[row["chunk_id"]], snapshot)
            for place, row in enumerate(found[:shown], start=1)
        )
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
    from backstory.interfaces.library.contexts import divide_text

    return divide_text(snapshot, question)


def _search_keys(
    snapshot: OpenSnapshot, keys: Sequence[str], filters: Filters, mode: Mode | None, wanted: int
) -> SearchResult:
    """Search for all keys at once, and add the probability of each hit. Known vectors come from the cache."""
    embedded, rag = embed_queries(snapshot.workspace, keys), snapshot.workspace.settings.rag
    request = SearchRequest(
        top_k=max(wanted, COMPARED),
        mode=rag.mode,
        ranking=mode or rag.ranking,
        keyword_weight=snapshot.index.manifest.calibration.keyword_weight,
        filters=replace(filters, as_of=filters.as_of and list(filters.as_of) * len(keys)),
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


def _rerank(
    snapshot: OpenSnapshot, question: str, found: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], bool, list[str]]:
    """Order hits by the ratings of the reranker of the settings; equal ones stay in their order.

    Beside the hits, tell whether the reranker ordered them, and in notes why not, and which documents it was not sent.
    """
    # These load models' clients.
    from backstory.models.reranking import Reranking, Shortlist
    from backstory.pipeline.chats.name_view import NameView

    workspace = snapshot.workspace
    if workspace.reranker is None:
        what = "there is no reranker; set `rerank: {provider: ...}` in backstory.yaml, or search without one"
        raise InputError(what, code="absent_setting")
    settings = workspace.settings.rerank
    view = NameView(workspace, settings)
    if view.show(None, question) is None:
        note = "the question was not sent to the reranker, since it names a member and privacy.documents is reject"
        return list(found), False, [note]
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
    if judged is not None and judged.note is not None:
        notes.insert(0, f"the reranker's answer was {judged.note}; the hits stay in the order of the search")
    if judged is None or judged.note is not None:
        return list(found), False, notes
    values = np.nan_to_num(judged.values, nan=0.0).max(axis=0).tolist()
    # What was not judged keeps its place.
    places = [place for place in range(len(candidates)) if place not in judged.unsent]
    ordered = list(found)
    for place, chosen in zip(places, sorted(places, key=lambda place: -values[place]), strict=True):
        ordered[place] = found[chosen]
    return ordered, True, notes


def make_hit(rank: int, row: Mapping[str, Any], chunk: Mapping[str, Any], snapshot: OpenSnapshot) -> Hit:
    """Build a hit from a row of the search and the description of its chunk."""
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
    made = (template.format(x=found["x"]) for form, template in _FORMS if (found := form.fullmatch(bare)))
    return tuple(dict.fromkeys([*keys, *islice(made, 1)]))
