"""Changes of what is indexed: files and texts that are added, removed or excluded."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, NamedTuple

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import InputError, NoIndexError, SearchIndexError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.base.ids import is_written
from backstory.index.search import open_index
from backstory.ingest.documents.file_rules import IGNORE_FILE
from backstory.ingest.documents.written import SOURCE_MARK, name_source
from backstory.ingest.sources.roots import (
    Source,
    add_source,
    change_exclude,
    find_covering,
    list_sources,
    remove_source,
    require_apart,
)
from backstory.interfaces.library.added_texts import (
    check_texts,
    inspect_text,
    locate_text,
    read_text,
    write_text,
)
from backstory.interfaces.library.corpus import Corpus, CorpusReader
from backstory.interfaces.library.freshness import is_made
from backstory.interfaces.library.indexing import MakeTables, report_indexing
from backstory.interfaces.library.names import resolve_path
from backstory.interfaces.library.results import FileOutcome, IndexReport
from backstory.pipeline.workspace import Workspace

_ONLY_ITS_FILES = ("/*/",)
"""Pattern that leaves out subfolders."""


def _include_folders(exclude: Sequence[str]) -> Sequence[str]:
    return [pattern for pattern in exclude if pattern not in _ONLY_ITS_FILES]


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
        if recursive:
            for source in self._list_flat(places):
                change_exclude(self.workspace, source.name, _include_folders)
        for path in further:
            add_source(self.workspace, path, exclude=() if recursive or path.is_file() else _ONLY_ITS_FILES)
        return self._make(places, accept_removals=accept_removals, chats=chats)

    def add(
        self, texts: Sequence[str], ids: Sequence[str] | None, metadata: Sequence[Mapping[str, Any]] | None
    ) -> IndexReport:
        """Add texts; see :meth:`backstory.interfaces.library.library.Library.add`."""
        tenant = self.workspace.settings.rag.tenant
        checked = check_texts(texts, ids, metadata, tenant)
        folder = self.workspace.documents_dir
        for added in checked:
            place = locate_text(folder, added.text_id)
            if inspect_text(place) == "edited":
                write_text(folder, added)  # raises, before any text is written
            if not self._is_own(place, added.tenant):
                raise InputError(
                    f"the id {added.text_id!r} names a text of another tenant than {tenant!r}; choose another id",
                    code="other_tenant",
                )
        return self._make([write_text(folder, added).resolve() for added in checked])

    def remove(self, names: Sequence[str], corpus: Corpus | None) -> IndexReport:
        """Remove texts, sources or documents; see :meth:`backstory.interfaces.library.library.Library.remove`."""
        # Several names may mean the same file.
        planned = list(dict.fromkeys(self._plan_removal(name, corpus) for name in names))
        # A file of a source can be excluded only as long as the source is there.
        planned.sort(key=lambda removal: removal.source is not None)
        outcomes = [removal.carry_out(self.workspace) for removal in planned]
        return self._make(known=outcomes, accept_removals=True)

    def _plan_removal(self, name: str, corpus: Corpus | None) -> _Removal:
        """Resolve a name before anything is removed."""
        folder = self.workspace.documents_dir
        text = locate_text(folder, name)
        if inspect_text(text) == "ours" and self._is_own(text):
            return _Removal(file=text)
        if source := self._find_source(name):
            return _Removal(source.root, source=source)
        if corpus is None:
            raise InputError(f"nothing is called {name!r}; nothing is indexed yet", code="unknown_document")
        row = corpus.find(name)
        path = corpus.paths[row["document_id"]]
        if (
            path.is_relative_to(folder)
            and locate_text(folder, path.stem) == path
            and inspect_text(path) == "ours"
        ):
            return _Removal(file=path)
        require_excludable(self.workspace, row["uri"])
        return _Removal(uri=row["uri"], file=path)

    def _is_own(self, file: Path, *others: str) -> bool:
        """Return whether the text of a file, if any, belongs to the tenant of the settings."""
        tenant, added = self.workspace.settings.rag.tenant, read_text(file)
        return tenant is None or added is None or added.tenant in (tenant, *others)

    def _list_flat(self, places: Collection[Path]) -> list[Source]:
        """List the sources among some places of which only the files are read, and not the folders in them."""
        return [
            source
            for source in list_sources(self.workspace)
            if source.is_added
            and source.root.resolve() in places
            and set(_ONLY_ITS_FILES) <= set(source.settings.exclude)
        ]

    def _find_source(self, name: str) -> Source | None:
        try:
            place = resolve_path(name)
        except InputError:  # the name of a document need not be a path
            place = None
        sources = list_sources(self.workspace)
        return next((one for one in sources if one.name == name or one.root.resolve() == place), None)

    def _make(
        self,
        named: Collection[Path] = (),
        known: Sequence[FileOutcome] = (),
        *,
        accept_removals: bool = False,
        chats: bool = False,
    ) -> IndexReport:
        before = self._list_searched()
        embedded, failures = self.make(self.workspace, accept_removals=accept_removals, chats=chats)
        if not is_made(self.workspace):
            raise InputError("; ".join(failures), code="failed_steps")
        report = report_indexing(self.reader.read(), before, named, known)
        seconds = round(perf_counter() - self.started, 3)
        return report.model_copy(
            update={"embedded": embedded, "failures": tuple(failures), "seconds": seconds}
        )

    def _list_searched(self) -> Mapping[str, str]:
        """Return the revision of each document that is searched, by uri: the tables may hold more, after a stop."""
        try:
            with open_index(self.workspace.index) as index:
                return dict(index.documents.select("uri", "revision").iter_rows())
        except NoIndexError:
            return {}
        except SearchIndexError:  # a damaged snapshot is built again, from documents that are known
            return self.reader.read().revisions if is_made(self.workspace) else {}


class _Removal(NamedTuple):
    """What is to be removed: a source, the file of an added text, or with ``uri`` a person's file."""

    file: Path
    source: Source | None = None
    uri: str | None = None

    def carry_out(self, workspace: Workspace) -> FileOutcome:
        """Delete the text, drop the source, or exclude the file."""
        folder = workspace.settings.documents.folder
        if self.source is not None:
            remove_source(workspace, self.source.name)
            reason = f"runs no longer read the source {self.source.name}; its files are unchanged"
            return FileOutcome(path=str(self.file), status="removed", reason=reason)
        if self.uri is not None:
            reason = exclude_document(workspace, self.uri, self.file)
            return FileOutcome(path=name_source(folder, self.uri), status="excluded", reason=reason)
        self.file.unlink()
        uri = self.file.relative_to(workspace.documents_dir).as_posix()
        return FileOutcome(path=name_source(folder, uri), status="removed", reason="its file was deleted")


_SPECIAL: Final = re.compile(r"([\\*?\[\]])")


def exclude_document(workspace: Workspace, uri: str, path: Path) -> str:
    """Exclude the file of a document from reading, and say how to revert that. The file stays as it is."""
    require_excludable(workspace, uri)
    if SOURCE_MARK in uri:  # nothing is written into the folder of a source
        name, _, below = uri.partition(SOURCE_MARK)
        pattern = _pattern_of(below)
        change_exclude(workspace, name, lambda known: (*known, pattern))
        return (
            f"the source {name} now leaves it out; remove the source and add it again to read the file. The file is "
            "unchanged"
        )
    # The parent of a member is an archive, which is read as a folder is, and can hold no such line.
    folder = next(folder for folder in path.parents if folder.is_dir())
    ignored = folder / IGNORE_FILE
    _append_line(ignored, _pattern_of(path.relative_to(folder).as_posix()))
    return f"{ignored} now names it; delete that line to read the file again. The file is unchanged"


def require_excludable(workspace: Workspace, uri: str) -> None:
    """Check that the file of a document can be excluded. Nothing changes."""
    name, mark, below = uri.partition(SOURCE_MARK)
    if is_written(uri):
        raise InputError(
            f"{uri} is a post that Backstory wrote; `writers.feedback: off` keeps posts out of the index",
            code="written_post",
        )
    if "\n" in uri or "\r" in uri:
        raise InputError(
            f"{uri!r} contains a line break, and no pattern can match it; rename or move the file"
        )
    source = next((each for each in list_sources(workspace) if each.name == name), None) if mark else None
    if mark and source is None:
        raise InputError(f"{uri} is of a source that no longer exists; index again to drop it")
    if source is not None and not source.is_added:
        raise InputError(
            f"{uri} is of the source {name} in {workspace.root / SETTINGS_FILE}; write "
            f"`exclude: ['{_pattern_of(below)}']` into its entry there",
            code="source_of_settings",
        )


def _append_line(path: Path, line: str) -> None:
    """Append a line to a file of patterns, or begin one."""
    with exclusive_temporary(path) as file:
        known = path.read_bytes() if path.exists() else b""
        if known and not known.endswith(b"\n"):
            known += b"\n"
        file.write(known + f"{line}\n".encode())
        file.flush()
        publish(temporary_path(path), path)


def _pattern_of(below: str) -> str:
    escaped = _SPECIAL.sub(r"\\\1", below)
    return f"/{escaped[:-1]}\\ " if escaped.endswith(" ") else f"/{escaped}"
