"""What the ten tools over documents do: calls of the library, in results with documented keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from statistics import fmean
from typing import Final

from backstory.agents.document_results import (
    INSTRUCTION,
    SUMMARY_INSTRUCTION,
    DebugInfo,
    DumpedDocument,
    FileReason,
    FoundChunk,
    FoundPlace,
    IndexedDirectory,
    IndexedDocument,
    ListedDocument,
    ListedDocuments,
    PatternResult,
    QueryResult,
    RagStatus,
    RetrievalJudgement,
    SummarizedDocument,
)
from backstory.agents.roots import list_readable, list_writable, require_inside
from backstory.errors import DocumentError, InputError, NoIndexError, SearchIndexError
from backstory.library import Library
from backstory.library.corpus import is_made
from backstory.library.filters import SearchFilters
from backstory.library.listing import make_locator
from backstory.library.results import FileOutcome, IndexReport, SearchAnswer, Style

MOST_MATCHES: Final = 100
_MEGABYTE: Final = 1_000_000
_NAME_CHARACTERS: Final = 60
_ID_CHARACTERS: Final = 16
_UNCHANGED: Final = "it was indexed before, and has not changed"


def query(library: Library, text: str, *, document: str | None = None, debug: bool = False) -> QueryResult:
    """Search all documents, or one of them, by several search keys."""
    filters = SearchFilters(documents=() if document is None else [document])
    try:
        answer = library.search(text, filters=filters, expand=True)
    except NoIndexError as error:
        return _find_nothing(text, str(error))
    if not answer.hits:
        return _find_nothing(text, f"no chunk was found: {answer.reason}", answer.keys)
    found = len(answer.hits)
    is_evidence = any(hit.above_threshold for hit in answer.hits)
    weak = "" if is_evidence else "; none is similar enough to be evidence, so these are the nearest only"
    left_out = f"; {answer.left_out} more were left out" if answer.left_out else ""
    return QueryResult(
        status="success" if is_evidence else "fallback",
        message="; ".join([f"{found} chunks were found{weak}{left_out}", *answer.notes]),
        chunks=tuple(
            FoundChunk(
                chunk_id=hit.chunk_id,
                page=hit.page_start,
                content=hit.text,
                relevance_score=hit.score,
                source_file=hit.uri,
            )
            for hit in answer.hits
        ),
        num_chunks=found,
        search_keys_used=answer.keys,
        source_files=tuple(dict.fromkeys(hit.uri for hit in answer.hits)),
        instruction=INSTRUCTION,
        debug_info=_debug(library, answer, filters) if debug else None,
    )


def search_pattern(library: Library, pattern: str, *, regex: bool = False, offset: int = 0) -> PatternResult:
    """Find the places that a text or a regular expression matches, a hundred at a time."""
    answer = library.grep(pattern, regex=regex, limit=MOST_MATCHES, offset=offset)
    more = f"; give offset {answer.next_offset} for more" if answer.next_offset is not None else ""
    return PatternResult(
        pattern=pattern,
        matches=tuple(
            FoundPlace(file=match.uri, page=match.page, line=match.line, text=match.text)
            for match in answer.matches
        ),
        count=answer.count,
        showing=len(answer.matches),
        message=f"{answer.count} matches in {answer.documents} documents, {len(answer.matches)} are given{more}",
    )


def judge_retrieval(library: Library, question: str, retrieved: str) -> RetrievalJudgement:
    """Judge whether a text answers a question."""
    judged = library.evaluate(question, retrieved)
    names = ("sufficient", "confidence", "keyword_overlap", "recommendation", "issues")
    return RetrievalJudgement(**{name: getattr(judged, name) for name in names})


def index_file(library: Library, path: str | Path) -> IndexedDocument:
    """Index one file; one that has changed is indexed again."""
    workspace = library.workspace
    file = require_inside(path, list_readable(workspace), workspace.root)
    if not file.is_file():
        raise InputError(f"{file} is no file; name a file, or index its folder")
    before = {entry.path for entry in library.documents().documents} if is_made(workspace) else set()
    report = _index(library, file, recursive=True)
    outcome = _find_outcome(library, report, file)
    if outcome.document_id is None or outcome.status == "failed":
        raise DocumentError(f"{file} was not indexed: {outcome.reason or outcome.status}")
    entry = library.document(outcome.document_id)
    return IndexedDocument(
        file_name=file.name,
        file_type=_type_of(file.name),
        file_size_mb=file.stat().st_size / _MEGABYTE,
        num_pages=entry.pages,
        num_chunks=entry.chunks,
        total_indexed_files=report.documents,
        total_chunks=report.chunks,
        from_cache=report.embedded == 0,
        already_indexed=outcome.status == "unchanged",
        reindexed=outcome.status == "indexed" and str(file) in before,
    )


def index_folder(library: Library, path: str | Path, *, recursive: bool = False) -> IndexedDirectory:
    """Index the files of a folder, and say of each what became of it."""
    workspace = library.workspace
    folder = require_inside(path, list_readable(workspace), workspace.root)
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; name a folder, or index the file by itself")
    report = _index(library, folder, recursive=recursive)
    mine = [
        (file, outcome)
        for file, outcome in _place_outcomes(library, report)
        if file.is_relative_to(folder) and (recursive or file.parent == folder)
    ]
    indexed = tuple(outcome.path for _, outcome in mine if outcome.status == "indexed")
    failed = _tell_reasons(outcome for _, outcome in mine if outcome.status == "failed")
    skipped = _tell_reasons(
        outcome for _, outcome in mine if outcome.status in ("unchanged", "skipped", "excluded")
    )
    return IndexedDirectory(
        indexed=len(indexed),
        failed=len(failed),
        skipped=len(skipped),
        indexed_files=indexed,
        failed_files=failed,
        skipped_files=skipped,
        message=f"{len(indexed)} files were indexed, {len(failed)} could not be read, {len(skipped)} were skipped",
    )


def list_indexed(library: Library) -> ListedDocuments:
    """List the documents."""
    listed = library.documents()
    return ListedDocuments(
        documents=tuple(
            ListedDocument(
                source_file=entry.uri,
                title=entry.title,
                file_type=_type_of(entry.uri),
                file_size_mb=None if entry.size is None else entry.size / _MEGABYTE,
                num_pages=entry.pages,
                num_chunks=entry.chunks,
            )
            for entry in listed.documents
        ),
        total_indexed_files=listed.count,
        total_chunks=listed.chunks,
        not_read=len(listed.unread),
        message=f"{listed.count} documents are indexed, {len(listed.unread)} files were not read",
    )


def summarize(library: Library, name: str, style: Style, max_words_per_section: int) -> SummarizedDocument:
    """Summarize a document, section by section."""
    made = library.summarize(name, style, max_words_per_section)
    sections = f"{made.sections_processed} of {made.sections} sections were summarized by {made.model}"
    return SummarizedDocument(
        status=made.status,
        message="; ".join([sections, *made.reasons, *made.notes]),
        summary=made.summary,
        summary_type=made.style,
        document=made.document.uri,
        total_words=made.total_words,
        sections_processed=made.sections_processed,
        section_summaries=made.section_summaries,
        instruction=SUMMARY_INSTRUCTION,
    )


def dump(library: Library, name: str, output_path: str | Path | None = None) -> DumpedDocument:
    """Write the text of a document into a file; without a path, into the folder of dumped texts."""
    workspace = library.workspace
    roots = list_writable(workspace)
    if output_path is None:
        entry = library.document(name)
        workspace.dumps.mkdir(mode=0o700, exist_ok=True)
        named = f"{PurePosixPath(entry.uri).stem[:_NAME_CHARACTERS]}-{entry.document_id[:_ID_CHARACTERS]}.txt"
        target = require_inside(workspace.dumps / named, roots, workspace.root)
    else:
        target = require_inside(output_path, roots, workspace.root)
    # A file of the folder of dumps is of this tool; any other that is there stays.
    written = library.dump(name, target, roots=roots, replace=output_path is None)
    return DumpedDocument(
        output_path=written.output_path,
        text_length=written.characters,
        num_pages=written.pages,
        message=f"{written.characters} characters of {written.document.uri} were written",
    )


def tell_status(library: Library) -> RagStatus:
    """Say how the index stands."""
    status = library.status()
    return RagStatus(
        state=status.state,
        total_indexed_files=status.documents,
        total_chunks=status.chunks,
        pending_files=len(status.pending),
        not_read=status.unread,
        embedding_model=status.embedder,
        index_version=status.index_version,
        last_sync=status.last_sync,
        message=status.reason or f"the index is {status.state}",
    )


def _find_nothing(text: str, reason: str, keys: Sequence[str] = ()) -> QueryResult:
    return QueryResult(
        status="no_documents",
        message=reason,
        chunks=(),
        num_chunks=0,
        search_keys_used=tuple(keys) or (text,),
        source_files=(),
        instruction="Say that the documents do not answer the question, or search with other words.",
    )


def _debug(library: Library, answer: SearchAnswer, filters: SearchFilters) -> DebugInfo:
    """Search for each key by itself, and count what joins and what repeats."""
    found = library.search(list(answer.keys), top_k=answer.depth, filters=filters)
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


def _place_outcomes(library: Library, report: IndexReport) -> list[tuple[Path, FileOutcome]]:
    """Give each outcome with the absolute path of its file."""
    root, locate_file = library.workspace.root, make_locator(library.workspace)
    return [
        ((locate_file(outcome.path) if "://" in outcome.path else root / outcome.path).resolve(), outcome)
        for outcome in report.files
    ]


def _find_outcome(library: Library, report: IndexReport, file: Path) -> FileOutcome:
    found = next((outcome for place, outcome in _place_outcomes(library, report) if place == file), None)
    if found is None:
        raise DocumentError(
            f"{file} was not indexed: no rule reads it; see the settings documents.pattern and sources"
        )
    return found


def _tell_reasons(outcomes: Iterable[FileOutcome]) -> tuple[FileReason, ...]:
    return tuple(
        FileReason(
            file=each.path, reason=_UNCHANGED if each.status == "unchanged" else each.reason or each.status
        )
        for each in outcomes
    )


def _type_of(name: str) -> str:
    return PurePosixPath(name).suffix.removeprefix(".").lower()
