"""Index the documents by the pipeline's stages, and report the outcome of each file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from backstory.base.errors import BackstoryError
from backstory.base.progress import STEP_OF_TABLES, announce
from backstory.index.snapshot import current_version
from backstory.ingest.chats.export_files import list_files
from backstory.ingest.documents.written import name_source
from backstory.interfaces.library.corpus import Corpus
from backstory.interfaces.library.results import FileOutcome, IndexReport
from backstory.pipeline.history.history import BY_LIBRARY_FACE
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import CORPUS, STAGES, TABLES_OF_DOCUMENTS
from backstory.pipeline.run.run import Run, RunEvent
from backstory.pipeline.run.runner import execute_run, find_wanted
from backstory.pipeline.stages.messages import MessagesStage
from backstory.pipeline.workspace import Workspace

Outcome: TypeAlias = Literal["indexed", "unchanged", "failed", "skipped", "removed", "excluded"]

_SKIPPED: Final = ("empty", "unsupported", "ignored", "set_aside")


class MakeTables(Protocol):
    """What builds the tables of a workspace: :func:`make_tables`, or what has another process do it."""

    def __call__(
        self, workspace: Workspace, *, accept_removals: bool = False, chats: bool = False
    ) -> tuple[int, list[str]]:
        """Build them; see :func:`make_tables`."""
        ...


def make_tables(
    workspace: Workspace, *, accept_removals: bool = False, chats: bool = False
) -> tuple[int, list[str]]:
    """Build the tables of the documents and the index, with their checks, as a run does.

    The call waits for a run of this workspace, in this process or another. It returns the number of texts that the
    model embedded, and the failures, one sentence each.
    """
    chats = chats and _holds_chats(workspace)
    total = len(CORPUS) + len(STAGES) * chats
    documents = Run([], TABLES_OF_DOCUMENTS, BY_LIBRARY_FACE)
    accepting = replace(workspace, accept_removals=True) if accept_removals else workspace
    embedded, failures = _execute(accepting, documents, 0, len(CORPUS), total)
    if chats and not failures:
        try:
            wanted = find_wanted(workspace, None, None)
        except BackstoryError as error:  # it may name people, by the names of their exports
            told = f"the documents were read, and the chats cannot be ({error.code})"
            return embedded, [f"{told}; `backstory run` in the folder of this workspace says why"]
        everything = Run(wanted, by=BY_LIBRARY_FACE)
        more, failures = _execute(workspace, everything, len(CORPUS), total, total)
        embedded += more
    return embedded, failures


def _holds_chats(workspace: Workspace) -> bool:
    """Return whether a run has chats to read, or messages of earlier ones whose files are gone."""
    folder = workspace.chats_dir
    is_there = folder.is_dir() and any(listed.status != "ignored" for listed in list_files(folder))
    return is_there or bool(workspace.tables.keys(MessagesStage.table))


def _execute(workspace: Workspace, run: Run, begin: int, end: int, total: int) -> tuple[int, list[str]]:
    """Execute a run, and announce each table, from one place of all tables to another."""
    tables_made = begin

    def on_progress(event: RunEvent) -> None:
        nonlocal tables_made
        if isinstance(event, StageResult):
            tables_made += 1
            announce(STEP_OF_TABLES, min(tables_made, end), total)

    announce(STEP_OF_TABLES, begin, total)
    execute_run(workspace, run, on_progress, skips_unchanged=bool(run.partitions))
    return run.total("embedding_computed"), run.troubles


def report_indexing(
    corpus: Corpus, before: Mapping[str, str], named: Collection[Path], known: Sequence[FileOutcome]
) -> IndexReport:
    """Report the outcome of each file by the present tables, without what was embedded and what failed.

    ``before`` maps the uri of each document that was searched before to its revision, ``named`` are the files and
    folders to report about, and ``known`` are outcomes that come from no table.
    """
    workspace = corpus.workspace
    folder = workspace.settings.documents.folder
    documents = {name_source(folder, row["uri"]): row for row in corpus.documents.iter_rows(named=True)}
    states = {row["source"]: row for row in corpus.sources.iter_rows(named=True)}
    gone = {name_source(folder, uri) for uri in before.keys() - corpus.revisions.keys()}
    outcomes: dict[str, FileOutcome] = {}
    for source in [*documents, *(states.keys() - documents.keys()), *gone]:
        row, state = documents.get(source), states.get(source, {})
        is_read = state.get("status") == "read"
        status: Outcome = "skipped" if state.get("status") in _SKIPPED else "failed"
        if row is not None and is_read:
            status = "unchanged" if before.get(row["uri"]) == row["revision"] else "indexed"
        elif row is not None:
            status = "failed"
        elif is_read or not state:
            status = "removed"
        if status != "removed" or source in gone:
            document_id = None if row is None else row["document_id"]
            outcomes[source] = FileOutcome(
                path=source,
                status=status,
                reason=state.get("reason"),
                document_id=document_id,
                chunks=corpus.chunk_counts.get(document_id or "", 0),
            )
    outcomes |= {outcome.path: outcome for outcome in known}
    counts = Counter(outcome.status for outcome in outcomes.values())
    of_names = {outcome.path for outcome in known} | {
        source
        for source, row in documents.items()
        if any(corpus.paths[row["document_id"]].is_relative_to(path) for path in named)
    }
    return IndexReport(
        **{status: counts[status] for status in ("indexed", "unchanged", "failed", "skipped")},
        removed=len(gone),
        files=tuple(
            outcome
            for source, outcome in sorted(outcomes.items())
            if outcome.status != "unchanged" or source in of_names
        ),
        documents=corpus.documents.height,
        chunks=sum(corpus.chunk_counts.values()),
        index_version=current_version(workspace.index) or None,
        embedded=0,
        failures=(),
        seconds=0.0,
    )


_WHOLE_STEP: Final = 0.99
"""Share of a table that its steps make up together; the rest comes when the table is finished."""


class IndexingPlace:
    """Joins the progress that an indexing announces to one place that never goes back.

    Attributes:
        done: Tables that are made, and the part of the present one.
        total: All tables.
    """

    def __init__(self) -> None:
        """Begin at nothing."""
        self.done, self.total = 0.0, 1
        self._tables = 0

    @property
    def share(self) -> float:
        """The place as a share, from 0 to 1."""
        return self.done / self.total

    def move(self, label: str, done: int, total: int) -> bool:
        """Follow an announcement of :mod:`backstory.base.progress`, and tell whether that is further than before."""
        if label == STEP_OF_TABLES:
            self._tables, self.total = done, total
            place = float(done)
        else:
            # A step is a part of one table, which itself counts when it is made.
            place = self._tables + (done / total if total else 1) * _WHOLE_STEP
        is_further = place > self.done
        self.done = max(self.done, place)
        return is_further
