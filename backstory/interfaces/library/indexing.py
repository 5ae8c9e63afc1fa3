"""Index the documents by the pipeline's stages, and report the outcome of each file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
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


@dataclass(frozen=True)
class Named:
    """Files that a person or program named for one indexing.

    Attributes:
        files: Absolute paths of files and folders to report about.
        outcomes: Outcomes of names that are known before the stages run.
    """

    files: Collection[Path] = ()
    outcomes: list[FileOutcome] = field(default_factory=list)


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

    The call waits for a run of this workspace, in this process or another.

    Args:
        workspace: An open workspace.
        accept_removals: Whether the index may lose its last documents. Messages are never removed by it.
        chats: Whether every other table is built after them, where there are chats.

    Returns:
        Number of texts that the model embedded, and the failures, one sentence each.
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


def revisions_of(corpus: Corpus | None) -> dict[str, str]:
    """Return the searched revision of each document by uri."""
    return {} if corpus is None else dict(corpus.documents.select("uri", "revision").iter_rows())


@dataclass(frozen=True)
class Indexing:
    """One indexing, and the source of its report.

    Attributes:
        before: Searched revision of each document before it, by uri.
        named: The files that were named.
        embedded: Number of texts that the model embedded.
        failures: The failures, one sentence each.
        started: When it began, by :func:`time.perf_counter`.
    """

    before: Mapping[str, str]
    named: Named
    embedded: int
    failures: list[str]
    started: float

    def report(self, corpus: Corpus) -> IndexReport:
        """Report the outcome of each file, by the present tables."""
        workspace = corpus.workspace
        rows = {
            row["uri"]: row
            for row in corpus.documents.select("uri", "document_id", "revision").iter_rows(named=True)
        }
        states = {row["source"]: row for row in corpus.sources.iter_rows(named=True)}
        folder = workspace.settings.documents.folder
        outcomes: dict[str, FileOutcome] = {}
        for uri, row in rows.items():
            source = name_source(folder, uri)
            state = states.get(source, {})
            is_read = state.get("status") == "read"
            is_known = self.before.get(uri) == row["revision"]
            status: Outcome = "failed" if not is_read else "unchanged" if is_known else "indexed"
            outcomes[source] = FileOutcome(
                path=source,
                status=status,
                reason=state.get("reason"),
                document_id=row["document_id"],
                chunks=corpus.chunk_counts.get(row["document_id"], 0),
            )
        for source, state in states.items():
            if source not in outcomes and state["status"] != "read":
                status = "skipped" if state["status"] in _SKIPPED else "failed"
                outcomes[source] = FileOutcome(path=source, status=status, reason=state["reason"])
        known = {outcome.path for outcome in self.named.outcomes}
        for uri in self.before.keys() - rows.keys():
            source = name_source(folder, uri)
            if source not in outcomes:
                outcomes[source] = FileOutcome(path=source, status="removed", reason=None)
        counted = {
            **outcomes,
            **{outcome.path: outcome for outcome in self.named.outcomes},
        }
        counts = dict.fromkeys(("indexed", "unchanged", "failed", "skipped", "removed", "excluded"), 0)
        for outcome in counted.values():
            counts[outcome.status] += 1
        shown = [
            outcome
            for outcome in counted.values()
            if outcome.status != "unchanged" or outcome.path in known or self._is_named(corpus, outcome)
        ]
        return IndexReport(
            indexed=counts["indexed"],
            unchanged=counts["unchanged"],
            failed=counts["failed"],
            skipped=counts["skipped"],
            removed=len(self.before.keys() - rows.keys()),
            files=tuple(sorted(shown, key=lambda outcome: outcome.path)),
            documents=corpus.documents.height,
            chunks=sum(corpus.chunk_counts.values()),
            index_version=current_version(workspace.index) or None,
            embedded=self.embedded,
            failures=tuple(self.failures),
            seconds=round(perf_counter() - self.started, 3),
        )

    def _is_named(self, corpus: Corpus, outcome: FileOutcome) -> bool:
        if outcome.document_id is None:
            return False
        path = corpus.paths[outcome.document_id]
        return any(path.is_relative_to(named) for named in self.named.files)


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
        """Follow an announcement; see :class:`backstory.base.progress.Listener`.

        Returns:
            Whether the indexing is further than before.
        """
        if label == STEP_OF_TABLES:
            self._tables, self.total = done, total
            place = float(done)
        else:
            # A step is a part of one table, which itself counts when it is made.
            place = self._tables + (done / total if total else 1) * _WHOLE_STEP
        is_further = place > self.done
        self.done = max(self.done, place)
        return is_further
