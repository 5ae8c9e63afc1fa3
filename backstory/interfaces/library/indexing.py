"""Changes of what is indexed: they build the tables by the pipeline's stages, and report the outcome of each file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeAlias

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import BackstoryError, InputError, NoIndexError, SearchIndexError
from backstory.base.ids import is_written
from backstory.base.progress import STEP_OF_TABLES, announce
from backstory.index.search import open_index
from backstory.index.snapshot import current_version
from backstory.ingest.chats.export_files import list_exports
from backstory.ingest.documents.files import IGNORE_FILE, SOURCE_MARK, name_source
from backstory.ingest.sources.listing import (
    Source,
    add_source,
    change_exclude,
    find_covering,
    list_sources,
    remove_source,
    require_apart,
)
from backstory.ingest.walk import Listing
from backstory.interfaces.library.added_texts import (
    check_texts,
    inspect_text,
    locate_text,
    read_text,
    write_text,
)
from backstory.interfaces.library.corpus import Corpus, CorpusReader
from backstory.interfaces.library.freshness import is_made
from backstory.interfaces.library.names import resolve_path
from backstory.interfaces.library.results import FileOutcome, IndexReport, Outcome
from backstory.pipeline.history.history import BY_LIBRARY_FACE
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import CORPUS, STAGES, TABLES_OF_DOCUMENTS, find_wanted
from backstory.pipeline.run.run import Run, RunEvent
from backstory.pipeline.run.runner import execute_run
from backstory.pipeline.stages.messages import MessagesStage
from backstory.pipeline.workspace import Workspace

_SKIPPED: Final = ("empty", "unsupported", "ignored", "set_aside")
_FOLDERS: Final = "/*/"
"""Pattern that leaves out subfolders."""
_SPECIAL: Final = re.compile(r"([\\*?\[\]])")
_WHOLE_STEP: Final = 0.99
"""Share of a table that its steps make up together; the rest comes when the table is finished."""


MakeTables: TypeAlias = Callable[..., tuple[int, list[str]]]
"""What builds the tables of a workspace: :func:`make_tables`, or what has another process do it."""


def make_tables(
    workspace: Workspace, *, accept_removals: bool = False, chats: bool = False
) -> tuple[int, list[str]]:
    """Build the tables of the documents and the index, with their checks, as a run does.

    The call waits for a run of this workspace, in this process or another. It returns the number of texts that the
    model embedded, and the failures, one sentence each.
    """
    if chats:  # there is nothing to read without exports, and without messages of earlier ones
        listed = list_exports(workspace.chats_dir) if workspace.chats_dir.is_dir() else Listing(present=False)
        chats = bool(listed.files or listed.unlisted or workspace.tables.keys(MessagesStage.table))
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
        more, failures = _execute(workspace, Run(wanted, by=BY_LIBRARY_FACE), len(CORPUS), total, total)
        embedded += more
    return embedded, failures


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


@dataclass(frozen=True)
class Change:
    """One change of a library, which began at ``started``, by :func:`time.perf_counter`."""

    workspace: Workspace
    reader: CorpusReader
    started: float
    make: MakeTables

    def index(
        self,
        paths: Sequence[str | Path],
        *,
        recursive: bool,
        accept_removals: bool = False,
        chats: bool = False,
    ) -> IndexReport:
        """Read files and folders; see :meth:`backstory.interfaces.library.library.Library.index`."""
        places = [resolve_path(path) for path in paths]
        absent = next((path for path in places if not path.exists()), None)
        if absent is not None:
            raise InputError(f"{absent} does not exist; name an existing file or folder", code="absent_file")
        further = [path for path in places if find_covering(self.workspace, path) is None]
        for path in further:
            require_apart(self.workspace, path)
        for source in list_sources(self.workspace) if recursive else ():
            if source.is_added and source.root.resolve() in places and _FOLDERS in source.settings.exclude:
                change_exclude(
                    self.workspace, source, lambda known: [each for each in known if each != _FOLDERS]
                )
        for path in further:
            if find_covering(self.workspace, path) is None:  # no other of them holds it
                add_source(self.workspace, path, exclude=() if recursive or path.is_file() else (_FOLDERS,))
        return self._make(places, accept_removals=accept_removals, chats=chats)

    def add(
        self, texts: Sequence[str], ids: Sequence[str] | None, metadata: Sequence[Mapping[str, Any]] | None
    ) -> IndexReport:
        """Add texts; see :meth:`backstory.interfaces.library.library.Library.add`."""
        folder, tenant = self.workspace.documents_dir, self.workspace.settings.rag.tenant
        checked = check_texts(texts, ids, metadata, tenant)
        for added in checked:  # before any is written
            place = locate_text(folder, added.text_id)
            if inspect_text(place) == "edited":
                what = f"{place} was written or edited by a person; add the text under another id, or move the file"
                raise InputError(what, code="edited_file")
            if not self._is_own(place, added.tenant):
                what = f"the id {added.text_id!r} names a text of another tenant than {tenant!r}; choose another id"
                raise InputError(what, code="other_tenant")
        return self._make([write_text(folder, added).resolve() for added in checked])

    def remove(self, names: Sequence[str], corpus: Corpus) -> IndexReport:
        """Remove texts, sources or documents; see :meth:`backstory.interfaces.library.library.Library.remove`."""
        planned = dict(self._plan_removal(name, corpus) for name in names)  # several may mean the same file
        # A file of a source can be excluded only as long as the source is there.
        outcomes = [planned[key]() for key in sorted(planned)]
        return self._make(known=outcomes, accept_removals=True)

    def _plan_removal(self, name: str, corpus: Corpus) -> tuple[tuple[bool, Path], Callable[[], FileOutcome]]:
        """Resolve a name before anything is removed: to whether it is a source, its place, and what removes it."""
        folder = self.workspace.documents_dir
        text = locate_text(folder, name)
        if inspect_text(text) == "ours" and self._is_own(text):
            return (False, text), partial(self._delete_text, text)
        try:
            place = resolve_path(name)
        except InputError:  # the name of a document need not be a path
            place = None
        for source in list_sources(self.workspace):
            if source.name == name or source.root.resolve() == place:
                return (True, source.root), partial(self._drop_source, source)
        row = corpus.find(name)
        path = corpus.named[row["document_id"]].path
        if locate_text(folder, path.stem) == path and inspect_text(path) == "ours":
            return (False, path), partial(self._delete_text, path)
        require_excludable(self.workspace, row["uri"])
        return (False, path), partial(self._exclude, row["uri"], path)

    def _delete_text(self, file: Path) -> FileOutcome:
        file.unlink()
        uri = file.relative_to(self.workspace.documents_dir).as_posix()
        return FileOutcome(path=self._name(uri), status="removed", reason="its file was deleted")

    def _drop_source(self, source: Source) -> FileOutcome:
        remove_source(self.workspace, source)
        reason = f"runs no longer read the source {source.name}; its files are unchanged"
        return FileOutcome(path=str(source.root), status="removed", reason=reason)

    def _exclude(self, uri: str, file: Path) -> FileOutcome:
        reason = exclude_document(self.workspace, uri, file)
        return FileOutcome(path=self._name(uri), status="excluded", reason=reason)

    def _is_own(self, file: Path, *others: str) -> bool:
        """Return whether the text of a file, if any, belongs to the tenant of the settings."""
        tenant, added = self.workspace.settings.rag.tenant, read_text(file)
        return tenant is None or added is None or added.tenant in (tenant, *others)

    def _make(
        self,
        named: Collection[Path] = (),
        known: Sequence[FileOutcome] = (),
        *,
        accept_removals: bool = False,
        chats: bool = False,
    ) -> IndexReport:
        """Build the tables, and report the outcomes of named files and folders, and of all others that changed."""
        before = self._list_searched()
        embedded, failures = self.make(self.workspace, accept_removals=accept_removals, chats=chats)
        if not is_made(self.workspace):
            raise InputError("; ".join(failures), code="failed_steps")
        corpus = self.reader.read()
        gone = {self._name(uri) for uri in before.keys() - corpus.revisions.keys()}
        outcomes = self._list_outcomes(corpus, before, gone) | {outcome.path: outcome for outcome in known}
        counts = Counter(outcome.status for outcome in outcomes.values())
        wanted = {
            self._name(document.uri)
            for document in (corpus.named.values() if named else ())
            if any(document.path.is_relative_to(path) for path in named)
        }
        return IndexReport(
            **{status: counts[status] for status in ("indexed", "unchanged", "failed", "skipped")},
            removed=len(gone),
            files=tuple(
                one
                for source, one in sorted(outcomes.items())
                if one.status != "unchanged" or source in wanted
            ),
            documents=corpus.documents.height,
            chunks=corpus.documents["chunks"].sum(),
            index_version=current_version(self.workspace.index) or None,
            embedded=embedded,
            failures=tuple(failures),
            seconds=round(perf_counter() - self.started, 3),
        )

    def _list_outcomes(
        self, corpus: Corpus, before: Mapping[str, str], gone: Collection[str]
    ) -> dict[str, FileOutcome]:
        """List the outcomes of all files by the tables; ``before`` maps the uris of documents to their revisions."""
        columns = corpus.documents.select("document_id", "uri", "revision", "chunks")
        rows = {self._name(row["uri"]): row for row in columns.iter_rows(named=True)}
        columns = corpus.sources.select("source", "status", "reason")
        states = {source: (status, reason) for source, status, reason in columns.iter_rows()}
        outcomes = {}
        for source in {*rows, *states, *gone}:
            row, (status, reason) = rows.get(source), states.get(source, ("", None))
            outcome: Outcome = "failed"
            if row is not None and status == "read":
                outcome = "unchanged" if before.get(row["uri"]) == row["revision"] else "indexed"
            elif row is None and status in ("", "read"):
                outcome = "removed"
            elif row is None and status in _SKIPPED:
                outcome = "skipped"
            if outcome != "removed" or source in gone:
                known = {} if row is None else {name: row[name] for name in ("document_id", "chunks")}
                outcomes[source] = FileOutcome(path=source, status=outcome, reason=reason, **known)
        return outcomes

    def _name(self, uri: str) -> str:
        return name_source(self.workspace.settings.documents.folder, uri)

    def _list_searched(self) -> Mapping[str, str]:
        """Return the revision of each document that is searched, by uri: the tables may hold more, after a stop."""
        try:
            with open_index(self.workspace.index) as index:
                return dict(index.documents.select("uri", "revision").iter_rows())
        except NoIndexError:
            return {}
        except SearchIndexError:  # a damaged snapshot is built again, from documents that are known
            return self.reader.read().revisions


def exclude_document(workspace: Workspace, uri: str, path: Path) -> str:
    """Exclude the file of a document from reading, and say how to revert that. The file stays as it is."""
    source = require_excludable(workspace, uri)
    if source is not None:  # nothing is written into the folder of a source
        below = _pattern_of(uri.partition(SOURCE_MARK)[2])
        change_exclude(workspace, source, lambda known: (*known, below))
        return f"the source {source.name} now leaves it out, until you remove and add the source; the file is unchanged"
    # The parent of a member is an archive, which is read as a folder is, and can hold no such line.
    folder = next(folder for folder in path.parents if folder.is_dir())
    ignored = folder / IGNORE_FILE
    known = ignored.read_bytes() if ignored.exists() else b""
    begin = "\n" if known and not known.endswith(b"\n") else ""
    with ignored.open("a", encoding="utf-8") as file:
        file.write(f"{begin}{_pattern_of(path.relative_to(folder).as_posix())}\n")
    return f"{ignored} now names it; delete that line to read the file again; the file is unchanged"


def require_excludable(workspace: Workspace, uri: str) -> Source | None:
    """Check that the file of a document can be excluded, and return its source, if it is of one. Nothing changes."""
    name, mark, below = uri.partition(SOURCE_MARK)
    if is_written(uri):
        what = f"{uri} is a post that Backstory wrote; `writers.feedback: off` keeps posts out of the index"
        raise InputError(what, code="written_post")
    if "\n" in uri or "\r" in uri:
        raise InputError(f"{uri!r} contains a line break, which no pattern matches; rename or move the file")
    source = next((each for each in list_sources(workspace) if each.name == name), None) if mark else None
    if mark and source is None:
        raise InputError(f"{uri} is of a source that no longer exists; index again to drop it")
    if source is not None and not source.is_added:
        what = f"write `exclude: ['{_pattern_of(below)}']` into the source {name} of {workspace.root / SETTINGS_FILE}"
        raise InputError(f"{uri} is of a source of the settings; {what}", code="source_of_settings")
    return source


def _pattern_of(below: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", below)
    return f"/{escaped[:-1]}\\ " if escaped.endswith(" ") else f"/{escaped}"


class IndexingPlace:
    """Joins the progress that an indexing announces to one place among all tables, which never goes back."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.done, self.total = 0.0, 1
        self._tables = 0

    def move(self, label: str, done: int, total: int) -> bool:
        """Follow an announcement of :mod:`backstory.base.progress`, and tell whether that is further than before."""
        before, part = self.done, 0.0
        if label == STEP_OF_TABLES:
            self._tables, self.total = done, total
        else:  # a step is a part of one table, which itself counts when it is made
            part = _WHOLE_STEP * (done / total if total else 1)
        self.done = max(before, self._tables + part)
        return self.done > before
