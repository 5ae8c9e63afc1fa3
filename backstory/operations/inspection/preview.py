"""Preview which files a run would read, as chat or document, and which not. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple, TypeAlias

import polars as pl
from pydantic import BaseModel, ConfigDict, computed_field

from backstory.base.environment import SETTINGS_FILE, WORKSPACE_VARIABLE, find_workspace, read_variable
from backstory.base.errors import BackstoryError, InputError, WorkspaceError
from backstory.base.local_times import localize
from backstory.base.wording import count
from backstory.index.chunks import cut_document_chunks
from backstory.ingest.chats.export_files import ExportFolder
from backstory.ingest.chats.exports import (
    CHAT_FORMATS,
    RAW_SCHEMA,
    ExportRead,
    read_exports,
    read_listed_exports,
)
from backstory.ingest.chats.merging import assign_message_ids
from backstory.ingest.documents.files import DocumentFolder, FileHashes, make_rules, name_source
from backstory.ingest.documents.formats.texts import PLAIN_TEXT
from backstory.ingest.documents.pages import IMAGE
from backstory.ingest.documents.reader import DocumentRead, find_document_format, read_listed_documents
from backstory.ingest.file_kinds import names_chat
from backstory.ingest.privacy.exclusions import Forgotten, leave_out, leave_out_documents
from backstory.ingest.sources.listing import list_documents
from backstory.ingest.walk import Skipped
from backstory.ingest.zips import is_archive
from backstory.models.choice import make_embedder
from backstory.models.embeddings.protocol import Embedder
from backstory.operations.inspection.files import note_documents, note_languages
from backstory.pipeline.chats.exports_reading import leave_out_opted_out
from backstory.pipeline.stages.corpus import read_documents as read_stored_documents
from backstory.pipeline.stages.messages import read_all_messages
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.inputs import ChunkSettings, ConversationSettings, DocumentSettings
from backstory.settings.models import Settings
from backstory.storage.tables.schemas import Sources
from backstory.storage.tables.tables import WHOLE

_DEFAULT_TIMEZONE: Final = ConversationSettings().timezone
_UNREAD: Final = ("set_aside", "failed", "needs_ocr", "unsupported")
_PLATFORMS: Final = frozenset(chat_format.name for chat_format in CHAT_FORMATS)
_DATA_FORMATS: Final = frozenset(["csv", "json", "jsonl", "parquet"])
"""Documents that count as chats if a reader of chats accepts them; not Markdown, since it may quote a chat."""
CHAT: Final = "chat"
DOCUMENT: Final = "document"

Row: TypeAlias = dict[str, Any]
"""The columns of :class:`backstory.storage.tables.schemas.Sources` without ``folder``, with file names as on disk, and:

- ``taken_for``: ``chat``, ``document``, or None for neither;
- ``people``, ``media`` and ``system`` (lines that the app wrote): counts of a chat; None for any other file;
- ``pages`` and ``chunks``: counts of a document; None for any other file, for one without pages, and if the embedding
  model cannot be opened, whose limit decides the chunks.
"""

_PICTURE: Final = "next to chats, a picture is taken for one that was sent in a chat"
_NO_CHAT: Final = {"people": None, "media": None, "system": None}
_NO_DOCUMENT: Final = {"pages": None, "chunks": None}


class Preview(BaseModel):
    """The files that a run would read, and those that it would not, ordered by name.

    ``settings_file`` is None for the defaults. A message in several exports of a conversation counts once in
    ``messages``, and ``people`` are the authors of all chats. ``problems`` are errors that concern more than one file.
    """

    model_config = ConfigDict(frozen=True)

    settings_file: Path | None
    messages: int
    people: int
    problems: list[str]
    notes: list[str]
    files: list[Row]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def complete(self) -> bool:
        """Whether there is at least one file to read, and all files would be read completely."""
        read = any(row["status"] == "read" for row in self.files)
        missed = any(row["status"] in _UNREAD or row["unread"] for row in self.files)
        return read and not missed and not self.problems


class _Reading(NamedTuple):
    """The result of reading one place: its files, messages, and documents with the further column ``source``."""

    files: list[Row]
    messages: pl.DataFrame
    documents: pl.DataFrame
    problems: list[str]
    notes: list[str]


def preview_run(
    paths: Sequence[Path] = (), workspace: Path | None = None, *, planned: Settings | None = None
) -> Preview:
    """Preview what a run would read, with the readers of a run. Nothing is written.

    Files in the folders of a workspace are read as a run reads them. Any other file is classified by its content: a
    chat if a reader of chats accepts it, else a document if a reader of documents does. One with the suffix of a
    document is a chat only if every line of it belongs to a message, but for the forms of most exports: plain text,
    tables and JSON.

    Without paths, it is that of the whole workspace, by default the one that contains a path, else that of the
    environment or the current folder; without one, the default settings apply, or those of a planned one. It raises
    ``InputError`` if a path does not exist, or the paths belong to several workspaces.
    """
    for path in paths:
        if not path.exists() and not path.is_symlink():
            raise InputError(f"{path} does not exist; name an existing file or folder", code="absent_file")
    opened = None if planned else _open(paths, workspace)
    settings = opened.located_settings if opened else planned or Settings()
    loose, readings = list(paths), list[_Reading]()
    if opened is not None:
        names = {path: _name(opened, path) for path in paths}
        inside = {path: name for path, name in names.items() if name is not None}
        loose = [path for path in paths if path not in inside]
        whole = not paths or PurePosixPath() in inside.values()
        readings = [_read_workspace(opened, {} if whole else inside)] if whole or inside else []
    readings += [_read_place(path, None, settings) for path in loose if path.is_dir()]
    files = sorted({path for path in loose if not path.is_dir()}, key=lambda path: (path.parent, path.name))
    for parent, members in groupby(files, key=lambda path: path.parent):
        readings.append(_read_place(parent, list(members), settings))
    return _summarize(readings, settings, opened)


def _open(paths: Sequence[Path], given: Path | None) -> Workspace | None:
    if given is not None or not paths:
        return open_workspace(given)
    roots = {_find_root(path) for path in paths}
    if len(roots) > 1:
        raise InputError(
            f"{', '.join(map(str, paths))} lie in several workspaces; check them one after another, or name with "
            "--workspace the one whose settings apply",
            code="several_workspaces",
        )
    root = roots.pop()
    return None if root is None else open_workspace(root)


def _find_root(path: Path) -> Path | None:
    """Find the nearest workspace at or above a path, else that of the environment or of the current folder."""
    place = path.expanduser().resolve()
    found = next((folder for folder in (place, *place.parents) if (folder / SETTINGS_FILE).is_file()), None)
    if found is None and (read_variable(WORKSPACE_VARIABLE) or Path(SETTINGS_FILE).is_file()):
        return find_workspace()
    return found


def _name(workspace: Workspace, path: Path) -> PurePosixPath | None:
    """Name a path as the table ``sources`` does, the workspace by an empty name; None for one outside of its folders.

    A link to a file keeps its own location, not that of its target.
    """
    place = path.resolve() if path.is_dir() else path.parent.resolve() / path.name
    if place == workspace.root:
        return PurePosixPath()
    chats, documents = workspace.settings.conversations.folder, workspace.settings.documents.folder
    for folder, root in ((chats, workspace.chats_dir), (documents, workspace.documents_dir)):
        if place.is_relative_to(root.resolve()):
            return PurePosixPath(folder) / place.relative_to(root.resolve()).as_posix()
    return None


def _read_workspace(workspace: Workspace, names: Mapping[Path, PurePosixPath]) -> _Reading:
    """Read the folders of a workspace as a run does, and select the files of some names; all files without names."""
    chats, documents = workspace.settings.conversations, workspace.settings.documents
    forgotten = Forgotten.read(workspace.forgotten)
    problems, notes = list[str](), list[str]()

    def is_wanted(source: str) -> bool:
        return not names or any(_is_at(source, name) for name in names.values())

    rows, messages = list[Row](), pl.DataFrame(schema=RAW_SCHEMA)
    try:
        whole = workspace.last_reading.read()
    except WorkspaceError as error:
        problems.append(str(error))
    else:
        left = leave_out(whole, forgotten, chats.folder)
        read = leave_out_opted_out(workspace, left)
        rows, messages = _describe_chats(read, chats.folder)
        chosen = [name for name in messages["source"].unique() if is_wanted(name)]
        messages = messages.filter(pl.col("source").is_in(chosen))
        if not names:
            if dropped := len(whole.messages) - len(left.messages):
                notes.append(f"{count(dropped, 'message')} forgotten by `backstory forget` would be left out")
            notes += [
                f"conversations.overrides: entry {entry} names no file and no subfolder of {chats.folder}; compare its "
                "name with theirs (a file's without its suffix)"
                for entry in read.unused_overrides
            ]
    listing = list_documents(workspace, workspace.list_other_parts())
    found = read_listed_documents(listing, documents, timezone=chats.timezone)
    found = leave_out_documents(found, forgotten, documents.folder)
    of_documents, served = _describe_documents(found, documents.folder)
    files = [row for row in [*rows, *of_documents] if is_wanted(row["source"])]
    problems += [
        f"{path}: there is no file in it that a run looks at"
        for path, name in names.items()
        if not any(_is_at(row["source"], name) for row in files)
    ]
    if not names:
        if messages.is_empty():
            problems.append(
                f"a run would find no message and stop; put chat exports into {workspace.chats_dir}"
            )
        if not any(row["status"] == "read" for row in of_documents):
            state = "holds no document that can be served" if listing.present else "does not exist"
            notes.append(f"{documents.folder}/ {state}, so windows get no context")
        problems += [f"a run would stop: {stop}" for stop in _find_stops(workspace)]
    return _Reading(files, messages, served, problems, notes)


def _is_at(source: str, name: PurePosixPath) -> bool:
    """Return whether a file is at or below a name, or is a folder above it that is read as one file."""
    return PurePosixPath(source).is_relative_to(name) or (
        source.endswith("/") and name.is_relative_to(source)
    )


def _find_stops(workspace: Workspace) -> list[str]:
    """Find the errors that would stop a run over all partitions, such as messages missing from the exports.

    There is none before the first run, which has nothing to lose.
    """
    stops = []
    try:
        if stored := workspace.tables.keys("messages"):
            read_all_messages(workspace, stored)
    except BackstoryError as error:
        stops.append(str(error))
    try:
        if WHOLE in workspace.catalog.read("documents"):
            read_stored_documents(workspace, workspace.list_documents(), FileHashes(workspace.catalog))
    except BackstoryError as error:
        stops.append(str(error))
    return stops


def _read_place(folder: Path, members: Sequence[Path] | None, settings: Settings) -> _Reading:
    """Read the files of a folder, or some of them, as chats, and those that are none as documents."""
    chats = settings.conversations.model_copy(update={"folder": folder.as_posix()})
    # The pattern of the settings is meant for the folder of documents, and may exclude every file elsewhere.
    documents = settings.documents.model_copy(
        update={"folder": folder.as_posix(), "pattern": DocumentSettings().pattern}
    )
    rules = make_rules(documents)
    if members is None:
        read = read_exports(folder, chats)
        listing = DocumentFolder(folder, rules).list_all()
    else:
        names = [path.name for path in members]
        read = read_listed_exports(ExportFolder(folder).list_named(names), chats)
        listing = DocumentFolder(folder, rules).list_named(names)
    of_chats, messages = _describe_chats(read, chats.folder)
    rows = {row["source"]: row for row in of_chats}
    others = {name for name, row in rows.items() if not _is_chat(row)}
    has_chat = any(row["format"] for name, row in rows.items() if name not in others)

    def is_other(uri: str) -> bool:
        name = name_source(chats.folder, uri)
        if name in rows or not uri:  # the folder itself is named if nothing in it can be listed
            return name in others or not uri
        # It is a member of an archive, or a part of a folder that is one export.
        above = (place for parent in PurePosixPath(name).parents for place in (str(parent), f"{parent}/"))
        return not others.isdisjoint(above)

    pictures = {file.uri for file in listing.files if has_chat and find_document_format(file.uri) == IMAGE}
    skipped = (*listing.skipped, *(Skipped(uri, "unsupported", _PICTURE) for uri in sorted(pictures)))
    listing = replace(
        listing,
        files=tuple(file for file in listing.files if is_other(file.uri) and file.uri not in pictures),
        skipped=tuple(entry for entry in skipped if is_other(entry.uri)),
    )
    found = read_listed_documents(listing, documents, timezone=chats.timezone)
    beside, served = _describe_documents(found, chats.folder)
    for archive in [name for name in others if is_archive(name)]:
        if any(row["taken_for"] for row in beside if row["source"].startswith(f"{archive}/")):
            del rows[archive]
        else:
            beside = [row for row in beside if not row["source"].startswith(f"{archive}/")]
    for row in beside:
        if row["format"] or not has_chat or row["source"] not in rows:
            rows[row["source"]] = row
    messages = messages.filter(~pl.col("source").is_in(list(others)))
    problems = [] if rows else [f"{folder}: there is no file in it"]
    return _Reading([*rows.values()], messages, served, problems, [])


def _is_chat(row: Row) -> bool:
    """Return whether a file is a chat, also one of an app that is not read in this form."""
    if row["format"] is None:
        return names_chat(row["reason"])
    document_format = find_document_format(row["source"])
    if document_format is None or document_format == PLAIN_TEXT:
        return True
    is_whole = row["status"] == "read" and not row["unread"]
    return is_whole or (
        document_format.name in _DATA_FORMATS and (row["status"] == "read" or row["format"] in _PLATFORMS)
    )


def _describe_chats(read: ExportRead, folder: str) -> tuple[list[Row], pl.DataFrame]:
    """Describe the files of a folder of exports, and return the messages with the names of their files."""
    names = {name: name_source(folder, name) for name in read.messages["source"].unique()}
    messages = read.messages.with_columns(pl.col("source").replace(names))
    counted = messages.group_by("source").agg(
        rows=pl.len(),
        people=pl.col("author").drop_nulls().n_unique(),
        media=(pl.col("kind") == "media").sum(),
        system=(pl.col("kind") == "system").sum(),
    )
    figures = {row.pop("source"): row for row in counted.iter_rows(named=True)}
    nothing = {"rows": 0, "people": 0, "media": 0, "system": 0}
    rows = []
    for row in read.sources.drop("folder").iter_rows(named=True):
        known = figures.get(row["source"], nothing if row["status"] == "read" else _NO_CHAT)
        rows.append({**row, "taken_for": CHAT if row["format"] else None, **known, **_NO_DOCUMENT})
    return rows, messages


def _describe_documents(read: DocumentRead, folder: str) -> tuple[list[Row], pl.DataFrame]:
    """Describe the files of a folder of documents but for their chunks, and return the documents with ``source``."""
    served = read.documents.filter(status="ok")
    names = [name_source(folder, uri) for uri in served["uri"]]
    pages = dict(zip(names, served["page_starts"].list.len(), strict=True))
    rows = []
    for row in read.sources.drop("folder").iter_rows(named=True):
        described = {**row, "taken_for": DOCUMENT if row["format"] else None, **_NO_CHAT, **_NO_DOCUMENT}
        rows.append(described | {"pages": pages.get(row["source"]) or None})
    return rows, served.with_columns(pl.Series("source", names, dtype=pl.String))


def _summarize(readings: Sequence[_Reading], settings: Settings, workspace: Workspace | None) -> Preview:
    files = {row["source"]: row for reading in readings for row in reading.files}
    ordered = [files[name] for name in sorted(files)]
    notes = [note for reading in readings for note in reading.notes]
    problems = [problem for reading in readings for problem in reading.problems]
    table = pl.DataFrame(ordered, {"taken_for": pl.String, **Sources.schema})
    if settings.conversations.timezone == _DEFAULT_TIMEZONE and _DEFAULT_TIMEZONE in table["timezone"]:
        notes.append(
            f"clocks that do not state their zone are read in {_DEFAULT_TIMEZONE}; if the phones were elsewhere, "
            "set their zone, such as `conversations: {timezone: Europe/Berlin}`"
        )
    last = table.filter(taken_for=CHAT)["last"]
    notes += note_documents(table.filter(taken_for=DOCUMENT), last, settings)
    try:
        embedder = make_embedder(settings.embedding)
    except BackstoryError as error:
        notes.append(
            f"the embedding model cannot be opened, so its languages and the chunks are unknown: {error}"
        )
    else:
        notes += filter(None, [note_languages(table["language"], embedder.languages)])
        try:
            for reading in readings:
                _count_chunks(reading, settings.chunks, embedder)
        except BackstoryError as error:
            problems.append(f"a run would stop: the documents cannot be cut into chunks: {error}")
    for row in ordered:
        zone = row["timezone"] or settings.conversations.timezone
        row |= {name: localize(row[name], zone) for name in ("first", "last") if row[name]}
    return Preview(
        settings_file=None if workspace is None else workspace.root / SETTINGS_FILE,
        files=ordered,
        # Conversations of the same name in two folders are different ones, so they are counted per reading.
        messages=sum(len(assign_message_ids(reading.messages)) for reading in readings),
        people=pl.concat([reading.messages["author"] for reading in readings]).drop_nulls().n_unique(),
        problems=problems,
        notes=notes,
    )


def _count_chunks(reading: _Reading, settings: ChunkSettings, embedder: Embedder) -> None:
    """Fill in how many chunks a run would cut each document into."""
    rows = {row["source"]: row for row in reading.files if row["taken_for"] == DOCUMENT}
    documents = reading.documents.filter(pl.col("source").is_in(list(rows)))
    chunks = cut_document_chunks(
        documents, settings, max_tokens=embedder.max_input_tokens, counter=embedder, counter_id=embedder.id
    )
    counts = dict(chunks["document_id"].value_counts().iter_rows())
    for source, document_id in documents.select("source", "document_id").iter_rows():
        rows[source]["chunks"] = counts.get(document_id, 0)
