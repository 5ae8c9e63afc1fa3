"""What the ten tools over documents do: calls of the library, in results with documented keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from statistics import fmean
from typing import Any, Final

from backstory.base.errors import InputError, NoIndexError, ReadError, SearchIndexError
from backstory.base.wording import count, inflect
from backstory.ingest.documents.files import SOURCE_MARK, name_source
from backstory.ingest.sources.listing import make_locator
from backstory.interfaces.agents.document_results import (
    FALLBACK_INSTRUCTION,
    INSTRUCTION,
    NOTHING_INDEXED,
    SUMMARY_INSTRUCTION,
    DebugInfo,
    DumpedDocument,
    FileReason,
    FoundChunk,
    FoundPlace,
    IndexedDirectory,
    IndexedDocument,
    JudgedRetrieval,
    JudgedStatus,
    ListedDocument,
    ListedDocuments,
    PatternResult,
    QueryResult,
    QueryStatus,
    RagStatus,
    SummarizedDocument,
)
from backstory.interfaces.agents.roots import list_readable, list_writable, require_inside
from backstory.interfaces.library.freshness import describe_indexing, explain_absence, is_made
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.names import CHUNK_MARK, resolve_path
from backstory.interfaces.library.results import (
    Chunk,
    DocumentList,
    FileOutcome,
    IndexReport,
    Match,
    SearchAnswer,
    Style,
)
from backstory.interfaces.library.search import DocumentFilters, SearchFilters
from backstory.retrieval.found import DocumentEntry, Hit
from backstory.text.prompts.entries import cut_line

MOST_MATCHES: Final = 100
_MEGABYTE: Final = 1_000_000
_NAME_CHARACTERS: Final = 60
_ID_CHARACTERS: Final = 16
_SHORT_ID: Final = 8
_UNCHANGED: Final = "it was indexed before, and has not changed"


def query(
    library: Library,
    text: str,
    *,
    document: str | None = None,
    debug: bool = False,
    top_k: int | None = None,
    max_chunks: int | None = None,
    filters: DocumentFilters | None = None,
    as_of: datetime | None = None,
) -> QueryResult:
    """Search all documents, or one of them, by several search keys."""
    if top_k is not None and max_chunks not in (None, top_k):
        raise InputError(f"top_k {top_k} and max_chunks {max_chunks} are the same number; give one of them")
    most = max_chunks if top_k is None else top_k
    wanted = SearchFilters.take(filters, as_of=as_of)
    if document is not None:
        if wanted.documents or wanted.paths:
            raise InputError("the call names its document already; leave the filters documents and paths out")
        wanted = SearchFilters.take(wanted, documents=[document])
    try:
        answer = library.search(text, filters=wanted, top_k=most, expand=True)
    except NoIndexError as error:
        return _find_nothing(None, "no_documents", str(error), NOTHING_INDEXED, search_keys_used=(text,))
    if not answer.hits:
        is_empty = not library.documents().count
        status: QueryStatus = "no_documents" if is_empty else "nothing_found"
        reason = "; ".join([f"no chunk was found: {answer.reason}", *answer.notes])
        instruction = NOTHING_INDEXED if is_empty else tell_nothing(library, text)
        return _find_nothing(answer, status, reason, instruction)
    is_evidence = answer.weak < len(answer.hits)
    found = len(answer.hits)
    left_out = (f"{answer.left_out} more were left out for want of room",) if answer.left_out else ()
    return QueryResult.of(
        answer,
        status="success" if is_evidence else "weak",
        message="; ".join([f"{count(found, 'chunk')} found", *_tell_weak(answer), *left_out, *answer.notes]),
        chunks=tuple(_describe_chunk(hit, debug=debug) for hit in answer.hits),
        num_chunks=found,
        source_files=tuple(dict.fromkeys(hit.uri for hit in answer.hits)),
        instruction=INSTRUCTION if is_evidence else FALLBACK_INSTRUCTION,
        debug_info=_debug(library, answer, wanted) if debug else None,
    )


def search_pattern(library: Library, pattern: str, *, regex: bool = False, offset: int = 0) -> PatternResult:
    """Find the places that a text or a regular expression matches, a hundred at a time."""
    answer = library.grep(pattern, regex=regex, limit=MOST_MATCHES, offset=offset)
    chunks = library.chunks((match.document_id, match.char_start) for match in answer.matches)
    return PatternResult.of(
        answer,
        status="success" if answer.count else "nothing_found",
        matches=tuple(map(_describe_place, answer.matches, chunks)),
        showing=len(answer.matches),
        message=(
            f"{count(answer.count, 'place')} in {count(answer.documents, 'document')}, "
            f"{len(answer.matches)} given from offset {offset} on{''.join(f'; {note}' for note in answer.notes)}"
        ),
    )


def judge_retrieval(library: Library, question: str, retrieved: str) -> JudgedRetrieval:
    """Judge whether a text answers a question."""
    judged = library.evaluate(question, retrieved)
    if judged.sufficient is None:
        said = "whether the text answers the question cannot be told"
    else:
        seems = "seems to answer" if judged.sufficient else "does not seem to answer"
        said = f"the text {seems} the question, confidence {judged.confidence}"
    status: JudgedStatus = "unsure" if judged.sufficient is None else "success"
    return JudgedRetrieval.of(judged, status=status, message=f"{said}; {judged.recommendation}")


def index_file(library: Library, path: str | Path) -> IndexedDocument:
    """Index one file; one that has changed is indexed again."""
    workspace = library.workspace
    before = _list_entries(library)
    file = _find_file(library, path, before)
    if not file.is_file():
        raise InputError(f"{file} is no file; name a file, or index its folder")
    report = _index(library, file, recursive=True)
    outcome = _find_outcome(library, report, file)
    if outcome.document_id is None or outcome.status == "failed":
        raise ReadError(f"{file} was not indexed: {outcome.reason or outcome.status}")
    entries = _list_entries(library)
    entry = next((each for each in entries if each.document_id == outcome.document_id), None)
    if entry is None:
        tenant = workspace.settings.rag.tenant
        raise ReadError(
            f"{file} was indexed, but has no tenant, or another one than {tenant!r}, which the setting "
            "rag.tenant names; state `tenant` in its front matter or for its source, or leave it to its tenant"
        )
    is_reindexed = outcome.status == "indexed" and entry.document_id in {each.document_id for each in before}
    became = "unchanged" if outcome.status == "unchanged" else "indexed again" if is_reindexed else "indexed"
    return IndexedDocument.of(
        entry,
        status="success",
        message=f"{entry.uri}: {became}, {count(entry.chunks, 'chunk')}",
        file_name=file.name,
        file_type=_type_of(file.name),
        file_size_mb=file.stat().st_size / _MEGABYTE,
        total_indexed_files=len(entries),
        total_chunks=sum(each.chunks for each in entries),
        from_cache=report.embedded == 0,
        already_indexed=outcome.status == "unchanged",
        reindexed=is_reindexed,
        note=outcome.reason,
    )


def index_folder(library: Library, path: str | Path, *, recursive: bool = False) -> IndexedDirectory:
    """Index the files of a folder, and say of each what became of it."""
    folder = _find_place(library, path)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; name a folder, or index the file by itself")
    report = _index(library, folder, recursive=recursive)
    mine = [
        (file, outcome)
        for file, outcome in _place_outcomes(library, report)
        if file.is_relative_to(folder) and (recursive or file.parent == folder)
    ]
    mine = [
        (file, outcome.model_copy(update={"path": _name(library, outcome.path)})) for file, outcome in mine
    ]
    indexed = tuple(outcome.path for _, outcome in mine if outcome.status == "indexed")
    noted = _tell_reasons(
        outcome for _, outcome in mine if outcome.reason and outcome.status in ("indexed", "unchanged")
    )
    failed = _tell_reasons(outcome for _, outcome in mine if outcome.status == "failed")
    skipped = _tell_reasons(
        outcome for _, outcome in mine if outcome.status in ("unchanged", "skipped", "excluded")
    )
    gone = sum(outcome.status == "removed" for _, outcome in mine)
    return IndexedDirectory(
        status="partial" if failed else "success" if mine else "nothing_found",
        indexed_count=len(indexed),
        failed_count=len(failed),
        skipped_count=len(skipped),
        indexed_files=indexed,
        failed_files=failed,
        skipped_files=skipped,
        noted_files=noted,
        message="; ".join(
            [
                f"files: {len(indexed)} indexed, {len(failed)} could not be read, {len(skipped)} skipped",
                *([f"{len(noted)} of those that were read have a note"] if noted else []),
                *([f"{count(gone, 'document')} left the index, as the files are gone"] if gone else []),
            ]
        ),
    )


def list_indexed(library: Library) -> ListedDocuments:
    """List the documents; none where nothing is indexed yet."""
    if not is_made(library.workspace):
        nothing = DocumentList(documents=(), count=0, chunks=0, unread=())
        return ListedDocuments.of(
            nothing, status="no_documents", not_read=0, message=str(explain_absence(library.workspace))
        )
    listed = library.documents()
    return ListedDocuments.of(
        listed,
        status="success" if listed.count else "no_documents",
        documents=tuple(
            ListedDocument.of(
                entry,
                file_type=_type_of(entry.uri),
                file_size_mb=None if entry.size is None else entry.size / _MEGABYTE,
            )
            for entry in listed.documents
        ),
        not_read=len(listed.unread),
        message=f"{count(listed.count, 'document')} indexed, {count(len(listed.unread), 'file')} not read",
    )


def summarize(library: Library, name: str, style: Style, max_words_per_section: int) -> SummarizedDocument:
    """Summarize a document, section by section."""
    made = library.summarize(name, style, max_words_per_section)
    is_extractive = library.workspace.settings.summaries.provider == "extractive"
    how = "by sentences chosen from it" if is_extractive else f"by {made.model}"
    sections = f"{made.sections_processed} of {count(made.sections, 'section')} summarized {how}"
    return SummarizedDocument.of(
        made,
        message="; ".join([sections, *made.reasons, *made.notes]),
        document=made.document.uri,
        instruction=SUMMARY_INSTRUCTION,
    )


def dump(library: Library, name: str, output_path: str | Path | None = None) -> DumpedDocument:
    """Write the text of a document into a file; without a path, into the folder of dumped texts."""
    workspace = library.workspace
    roots = list_writable(workspace)
    if output_path is None:
        entry = library.document(name)
        workspace.dumps.mkdir(mode=0o700, exist_ok=True)
        named = f"{PurePosixPath(entry.uri).stem[:_NAME_CHARACTERS]}-{entry.document_id[:_ID_CHARACTERS]}.md"
        target = require_inside(workspace.dumps / named, roots, workspace.root)
    else:
        target = require_inside(output_path, roots, workspace.root)
    # A file of the folder of dumps is of this tool; any other that is there stays.
    written = library.dump(name, target, roots=roots, replace=output_path is None)
    return DumpedDocument.of(
        written,
        status="success",
        message="; ".join(
            [
                f"{count(written.characters, 'character')} of {written.document.uri} written",
                *filter(None, [written.document.note]),
            ]
        ),
    )


def tell_status(library: Library) -> RagStatus:
    """Describe the state of the index."""
    status = library.status()
    return RagStatus.of(
        status,
        status="error" if status.state == "error" else "success",
        pending_files=len(status.pending),
        message=status.reason or f"the index is {status.state}",
    )


def tell_nothing(library: Library, query: str) -> str:
    """Say what to do where a search found nothing: nothing may be concluded from an index that is not finished."""
    indexing = describe_indexing(library.workspace)
    if indexing:
        return (
            f"{indexing[:1].upper()}{indexing[1:]}. Ask again when it has ended, and conclude nothing before."
        )
    return (
        f"Nothing in the index is about {cut_line(query, _NAME_CHARACTERS)!r}. Say that the documents do not answer "
        "the question, or search with other words."
    )


def _find_nothing(
    answer: SearchAnswer | None, status: QueryStatus, reason: str, instruction: str, **others: Any
) -> QueryResult:
    return QueryResult.of(
        answer,
        status=status,
        message=reason,
        chunks=(),
        num_chunks=0,
        source_files=(),
        instruction=instruction,
        **others,
    )


def _tell_weak(answer: SearchAnswer) -> tuple[str, ...]:
    """Count the hits that are no evidence, returned since nothing nearer was found."""
    if not answer.weak:
        return ()
    if answer.weak == len(answer.hits):
        return (
            "none of them is evidence: none tells something about the question with a probability of one half",
        )
    return (f"{answer.weak} of them {inflect(answer.weak, 'is', 'are')} no evidence: too improbable",)


def _shorten_id(document_id: str, index: int) -> str:
    """Name a chunk by the beginning of its document's id and its number; the tools take it."""
    return f"{document_id[:_SHORT_ID]}{CHUNK_MARK}{index}"


def _describe_chunk(hit: Hit, *, debug: bool) -> FoundChunk:
    index = int(hit.chunk_id.rpartition(":")[2])
    return FoundChunk.of(
        hit,
        chunk_id=_shorten_id(hit.document_id, index),
        debug_chunk_index=index if debug else None,
    )


def _describe_place(match: Match, chunk: Chunk | None) -> FoundPlace:
    return FoundPlace.of(
        match,
        chunk_id=None if chunk is None else _shorten_id(chunk.document_id, chunk.index),
        chunk_text=None if chunk is None else chunk.text,
    )


def _list_entries(library: Library) -> Sequence[DocumentEntry]:
    return library.documents().documents if is_made(library.workspace) else ()


def _debug(library: Library, answer: SearchAnswer, filters: SearchFilters) -> DebugInfo:
    """Search for each key by itself, and count what joins and what repeats."""
    found = library.search_many(list(answer.keys), top_k=answer.depth, filters=filters)
    ids = [hit.chunk_id for each in found for hit in each.hits]
    scores = [hit.score for hit in answer.hits]
    return DebugInfo(
        per_key_hits={each.query: len(each.hits) for each in found},
        hits_before_dedup=len(ids),
        hits_after_dedup=len(set(ids)),
        score_min=min(scores, default=None),
        score_max=max(scores, default=None),
        score_mean=fmean(scores) if scores else None,
    )


def _index(library: Library, path: Path, *, recursive: bool) -> IndexReport:
    report = library.index(path, recursive=recursive)
    if report.failures:
        raise SearchIndexError(f"{'; '.join(report.failures)}; `backstory doctor` examines the workspace")
    return report


def _name(library: Library, path: str) -> str:
    """Name a file as all tools name its document: relative to the folder of the documents, or to its source."""
    return path.removeprefix(f"{name_source(library.workspace.settings.documents.folder, '')}/")


def _find_place(library: Library, path: str | Path) -> Path:
    """Return the place of a path, relative to the workspace, or as the tools name a file or folder of documents."""
    workspace = library.workspace
    roots = list_readable(workspace)
    if str(path).strip() and not resolve_path(path, workspace.root).exists():
        with suppress(InputError):
            named = require_inside(make_locator(workspace)(str(path)), roots, workspace.root)
            if named.exists():
                return named
    return require_inside(path, roots, workspace.root)


def _find_file(library: Library, path: str | Path, entries: Sequence[DocumentEntry]) -> Path:
    """Return the file of a path: one that can be indexed, else one by which the other tools name a document."""
    workspace = library.workspace
    roots = list_readable(workspace)
    named = next((entry.path for entry in entries if entry.uri == str(path)), None)
    if named is None:
        return _find_place(library, path)
    with suppress(InputError):
        given = require_inside(path, roots, workspace.root)
        if given.is_file():
            return given
    return require_inside(named, roots, workspace.root)


def _place_outcomes(library: Library, report: IndexReport) -> list[tuple[Path, FileOutcome]]:
    """Return each outcome with the absolute path of its file, which may itself be a link to elsewhere."""
    root, locate_file = library.workspace.root, make_locator(library.workspace)
    places = [
        locate_file(outcome.path) if SOURCE_MARK in outcome.path else root / outcome.path
        for outcome in report.files
    ]
    return [
        (place.parent.resolve() / place.name, outcome)
        for place, outcome in zip(places, report.files, strict=True)
    ]


def _find_outcome(library: Library, report: IndexReport, file: Path) -> FileOutcome:
    placed = dict(_place_outcomes(library, report))
    if found := placed.get(file):
        return found
    around = next((placed[folder] for folder in file.parents if folder in placed), None)
    if around is not None:
        raise ReadError(
            f"{file} was not indexed, as its folder {around.path} is left out: {around.reason}; index a folder that "
            "holds both, recursively, or have that rule taken out"
        )
    raise ReadError(
        f"{file} was not indexed: no rule reads it; see the settings documents.pattern and sources"
    )


def _tell_reasons(outcomes: Iterable[FileOutcome]) -> tuple[FileReason, ...]:
    return tuple(
        FileReason.of(each, reason=each.reason or (_UNCHANGED if each.status == "unchanged" else each.status))
        for each in outcomes
    )


def _type_of(name: str) -> str:
    return PurePosixPath(name).suffix.removeprefix(".").lower()
