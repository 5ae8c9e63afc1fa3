"""A stage: reads tables, calls the library, and writes one table, only where its inputs have changed."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar, Final

import polars as pl

from backstory.base.errors import (
    BackstoryError,
    ConflictError,
    ModelSetupError,
    RemovalError,
    StateError,
    StoppedError,
)
from backstory.base.ids import digest
from backstory.base.progress import announce, show_progress
from backstory.base.telemetry import describe_range, log_event, observe
from backstory.index.search import SearchIndex, open_index
from backstory.models.embeddings.embed import EmbeddedTexts, embed_texts
from backstory.models.embeddings.protocol import Task
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.chats.stored_messages import hash_read_messages, read_with_previous
from backstory.pipeline.incremental.inputs import (
    content_of,
    drop_other_grain,
    group_partitions,
    hash_dependencies,
    read_table_rows,
    record_maker,
    split_by_partition,
)
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.incremental.visible_documents import VisibleDocuments
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.tables import WHOLE, Made

_OF_EVERY_PARTITION: Final = (ModelSetupError, StateError)
"""Errors that the next partition would meet, too."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AddedPosts:
    """The written posts as documents, while a run writes further ones that are not in its tables and snapshot yet.

    ``files`` are those that were read, by slug; ``index`` is None as long as the posts are those of the snapshot.
    """

    documents: pl.DataFrame
    chunks: pl.DataFrame
    files: Mapping[str, Entry]
    visible: VisibleDocuments
    index: SearchIndex | None = None


class RunResources:
    """What the stages of one run share.

    With ``isolates_failures``, a partition that cannot be made is told in the result; otherwise its error is raised. A
    stage that finds further partitions that the run must make names all in ``widened_to``.
    """

    def __init__(self, workspace: Workspace, *, isolates_failures: bool = False) -> None:
        """Share nothing yet; the search index is opened when a stage first needs it."""
        self.workspace = workspace
        self.isolates_failures = isolates_failures
        self.widened_to: list[str] = []
        self.kept: dict[str, str] = {}  # by partition, the documents in which it was searched and stays so
        self.posts: AddedPosts | None = None
        self._base: SearchIndex | None = None

    @property
    def index(self) -> SearchIndex:
        """What stages search."""
        return self.base if self.posts is None or self.posts.index is None else self.posts.index

    @property
    def base(self) -> SearchIndex:
        """The published snapshot, opened on first use. Nothing may publish another one until it is closed."""
        if self._base is None:
            self._base = open_index(self.workspace.index, embedder_id=self.workspace.embedder.id)
        return self._base

    def close(self) -> None:
        """Close the index, which is opened again when a stage next needs it."""
        if self._base is not None:
            self._base.close()
        self._base = None

    @property
    def visible(self) -> VisibleDocuments:
        """The documents that windows may see."""
        return self._published if self.posts is None else self.posts.visible

    @cached_property
    def _published(self) -> VisibleDocuments:
        return VisibleDocuments(self.workspace)

    def embed(self, texts: Sequence[str], task: Task, what: str) -> EmbeddedTexts:
        """Compute the vectors of texts that are not cached, and tell how far this is."""
        workspace = self.workspace
        with show_progress(f"embedding {what}") as progress:
            embedded = embed_texts(
                workspace.embedder,
                texts,
                task=task,
                cache=workspace.embeddings,
                progress=workspace.runs.follow("chunks embedded", progress),
            )
        workspace.runs.count_texts(workspace.embedder.id, embedded.stats)
        return embedded


class Stage:
    """One execution of a stage for some partitions. The classes are the stages; their attributes describe them."""

    table: ClassVar[str]
    """The table that it writes, or ``search_index``."""
    reads: ClassVar[tuple[str, ...]] = ()
    """The tables that it reads."""
    contents: ClassVar[tuple[str, ...]] = ()
    """Those of them of which the rows of the same partition count as an input."""
    overlaps: ClassVar[bool] = False
    """Whether it reads the messages of the windows of a partition, which may begin in the partition before."""
    shows_people: ClassVar[bool] = False
    """Whether the names under which readers see the people of a partition count as an input."""
    partitioned: ClassVar[bool] = True
    """Whether the table has the calendar partitions of the workspace."""
    side_outputs: ClassVar[tuple[str, ...]] = ()
    """Secondary tables that it also writes, which have no calendar partitions."""
    weighed_by: ClassVar[str | None] = None
    """The table whose rows limit how many partitions are built at once; None to build all at once."""

    def __init__(self, resources: RunResources, partitions: Sequence[str]) -> None:
        """Prepare an execution; nothing is read yet."""
        self.resources = resources
        self.workspace = resources.workspace
        self.partitions = list(partitions) if self.partitioned else [WHOLE]
        self.counts: dict[str, int | float | str] = {}
        self.seen = self.workspace.catalog.version  # before anything was read
        self.failures: dict[str, str] = {}
        self.stopped: str | None = None  # which budget or limit left partitions or rows

    @classmethod
    def find_stale(cls, workspace: Workspace, partitions: Sequence[str]) -> list[str]:
        """List the partitions that :meth:`build` would rebuild, of a table without partitions ``["all"]``."""
        return cls(RunResources(workspace), partitions).stale_partitions()

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Hash of everything that each wanted partition is made from, by its key."""
        return self.hash_inputs()

    def hash_inputs(self) -> dict[str, str]:
        """Hash by partition its tables, its code, settings and models, and what else decides the rows, as it is now."""
        workspace, keys = self.workspace, self.partitions
        parts = [*self.hash_contents(), self.hash_dependencies()]
        if self.overlaps:
            parts.append(hash_read_messages(workspace, keys))
        if self.shows_people:
            parts.append(read_people(workspace).fingerprint(keys))
        further = self.list_further()
        return {key: digest([*(part[key] for part in parts), *further]) for key in keys}

    def hash_contents(self) -> list[Mapping[str, str]]:
        """Hash by partition the tables in :attr:`contents`."""
        return [content_of(self.workspace, table, self.partitions) for table in self.contents]

    def hash_dependencies(self) -> Mapping[str, str]:
        """Hash by partition the code, the settings and the models that decide the rows."""
        return dict.fromkeys(self.partitions, hash_dependencies(self.workspace, self.table))

    def list_further(self) -> Sequence[str]:
        """List what else decides the rows of every partition; nothing unless a stage says so."""
        return ()

    def read(self, partitions: Sequence[str]) -> list[pl.DataFrame]:
        """Read what :meth:`compute` is given: the messages that :attr:`overlaps` names, and :attr:`contents`."""
        messages = [read_with_previous(self.workspace, partitions)] if self.overlaps else []
        return [*messages, *(read_table_rows(self.workspace, table, partitions) for table in self.contents)]

    def compute(self, partitions: list[str], /, *tables: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of partitions, made from the tables of :meth:`read`."""
        raise NotImplementedError

    def stale_partitions(self) -> list[str]:
        """List the partitions whose inputs have changed, or whose file differs from the one that was written."""
        return self.workspace.tables.stale(self.table, self.inputs)

    def weigh(self, partitions: list[str]) -> Mapping[str, int]:
        """Return the input rows of each partition, by which the setting ``partitions.rows_at_once`` cuts groups."""
        entries = {} if self.weighed_by is None else self.workspace.catalog.read(self.weighed_by)
        return {key: entries[key].rows for key in partitions if key in entries}

    def begin(self) -> None:
        """Do what must be done before anything is compared; nothing unless a stage says so."""

    def make(self, partitions: list[str]) -> None:
        """Compute, write and record partitions."""
        rows = self.compute(partitions, *self.read(partitions))
        frames = self._split(rows, partitions) if self.partitioned else {WHOLE: rows}
        made = {(self.table, key): Made(frames[key], self.inputs[key]) for key in partitions}
        self.workspace.tables.commit(made, seen=self.seen)

    def _split(self, rows: pl.DataFrame, partitions: Sequence[str]) -> Mapping[str, pl.DataFrame]:
        """Cut rows by their ``partition``, or else that of their window."""
        if "partition" not in rows.columns:
            windows = read_table_rows(self.workspace, "windows", partitions)
            rows = rows.join(windows.select("window_id", "partition"), on="window_id", maintain_order="left")
        keep_key = "partition" in TABLES[self.table].schema.names()
        return split_by_partition(rows, partitions, keep_key=keep_key)

    def end(self) -> None:
        """Do what must be done when the partitions are written; nothing unless a stage says so."""

    def build(self) -> StageResult:
        """Rebuild the partitions that are stale, in groups of neighbours.

        Each group is recorded before the next one starts, so that memory does not grow with the range and a killed
        process loses one group at most. A group that fails is made again, one partition after another. Where another
        run has written a partition meanwhile, all is read again.
        """
        started, workspace = time.perf_counter(), self.workspace
        self.begin()
        if drop_other_grain(workspace, self.table, self.inputs):
            self.seen = workspace.catalog.version
        pending = self.stale_partitions()
        weights, most = self.weigh(pending) if pending else {}, workspace.settings.partitions.rows_at_once
        groups = deque(group_partitions(pending, weights, most))
        made, left = list[str](), list[str]()
        while groups:
            group = groups.popleft()
            try:
                workspace.runs.advance(self.table, group[0], len(made), len(pending))
                with (
                    observe("partitions", **describe_range(group), count=len(group)),
                    workspace.runs.spending.pricing(self.counts),
                ):
                    self.make(group)
            except ConflictError as error:
                logger.info("made again: %s", error)
                return type(self)(self.resources, self.partitions).build()
            except BackstoryError as error:
                if isinstance(error, RemovalError) or not self.resources.isolates_failures:
                    raise
                rest = [*group, *chain.from_iterable(groups)]
                if isinstance(error, _OF_EVERY_PARTITION):
                    self.failures |= dict.fromkeys(rest, str(error))
                    break
                if len(group) > 1:
                    groups.extendleft([key] for key in reversed(group))
                elif isinstance(error, StoppedError):
                    self.stopped, left = str(error), rest
                    break
                else:
                    self.failures[group[0]] = str(error)
            else:
                made += group
                announce(self.table, len(made), len(pending))
        if made or not pending:
            record_maker(workspace, self.table)
        self.end()
        known = workspace.catalog.read(self.table)
        told = [key for key in self.inputs if key in known and key not in {*self.failures, *left}]
        if self.stopped and not left:
            left = type(self)(self.resources, told).stale_partitions()
        report = StageResult(
            table=self.table,
            rows=sum(known[key].rows for key in told),
            keys=told,
            computed=len(made),
            seconds=time.perf_counter() - started,
            counts=dict(self.counts),
            failures=self.failures,
            stopped=self.stopped,
            left=left,
        )
        log_event(logger, "materialized", {"table": report.table, **report.figures})
        return report
