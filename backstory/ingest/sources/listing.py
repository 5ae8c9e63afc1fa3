"""The further sources of a workspace, by its settings and by command; all documents of it, and where they live."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from backstory.base.environment import BUCKET_VARIABLE, SETTINGS_FILE
from backstory.base.errors import InputError, ReadError, SettingsError, WorkspaceError
from backstory.base.files.atomic import exclusive_temporary, publish, temporary_path
from backstory.base.ids import digest
from backstory.ingest.documents.files import SOURCE_MARK, DocumentFolder, FileHashes, locate, make_rules
from backstory.ingest.limited_calls import find_limits
from backstory.ingest.sources.drive import DriveRemote
from backstory.ingest.sources.remotes import (
    COPIES,
    AddressRemote,
    PagesRemote,
    Remote,
    last_update,
    list_mirror,
    list_unreachable,
    read_state,
    update_mirror,
)
from backstory.ingest.walk import Listing
from backstory.settings.inputs import DocumentSettings, SourceSettings, make_source_name
from backstory.settings.paths import WorkspacePaths

SYNC_SECONDS: Final = 3600
"""Time from one fetch to the next."""
_FIELDS: Final = ("url", "canonical_url", "canonical", "canonicalURL")
_DRIVE: Final = "https://drive.google.com/open?id="


@dataclass(frozen=True)
class Source:
    """A source of documents: its name, which begins their uris, and the absolute path of its file, folder or mirror."""

    name: str
    root: Path
    settings: SourceSettings
    is_added: bool

    @property
    def folder(self) -> Path:
        """The folder of its files; of a mirror, that of the copies."""
        if self.settings.is_remote:
            return self.root / COPIES
        return self.root.parent if self.root.is_file() else self.root


def list_sources(workspace: WorkspacePaths) -> tuple[Source, ...]:
    """List all further sources: those of the settings, then those that were added by command.

    It raises ``SettingsError`` if two sources have the same name, or one lies where the workspace keeps something
    else.
    """
    file, stated = workspace.root / SETTINGS_FILE, workspace.settings.documents.sources
    sources: dict[str, Source] = {}
    for place, settings in enumerate((*stated, *read_record(workspace.added_sources))):
        name, path = settings.label, settings.path
        if name in sources:
            raise SettingsError(
                f"{file}: documents.sources has a source {name}, and a source added by command has the same name "
                f"({path}). Give the first another `name`, or remove the second",
                code="duplicate_source",
            )
        root = workspace.mirrors / name if path is None else workspace.root / Path(path).expanduser()
        sources[name] = Source(name, root, settings, is_added=place >= len(stated))
        if path is not None:
            try:
                require_apart(workspace, root)
            except InputError as error:
                raise SettingsError(f"{file}: documents.sources: {error}", code=error.code) from error
    return tuple(sources.values())


def make_locator(workspace: WorkspacePaths) -> Callable[[str], Path]:
    """Build a function that returns the absolute path of a document's file, existing or not."""
    folders = {source.name: source.folder for source in list_sources(workspace)}

    def locate_file(uri: str) -> Path:
        name, mark, below = uri.partition(SOURCE_MARK)
        if mark and name in folders:
            return folders[name] / below
        return workspace.root / locate(uri, workspace.settings.documents.folder)

    return locate_file


def require_apart(workspace: WorkspacePaths, root: Path) -> None:
    """Raise ``InputError`` if a path is the folder of documents, or lies among the chats or what runs write."""
    place = root.resolve()
    if place == workspace.documents_dir.resolve():
        raise InputError(f"{root} is the folder of documents, which every run reads", code="read_already")
    made = (workspace.posts_dir, workspace.tables_dir, workspace.index, workspace.secret.parent)
    for folder in (workspace.chats_dir, *made, workspace.dagster_home):
        if place.is_relative_to(folder.resolve()):
            raise InputError(
                f"{root} lies in {folder}, which this workspace uses for other files; name another path",
                code="other_use",
            )


def find_covering(workspace: WorkspacePaths, path: Path) -> str | None:
    """Find what already holds a path: the innermost source; the empty text for the folder of documents; or None."""
    place = path.resolve()
    if place.is_relative_to(workspace.documents_dir.resolve()):
        return ""
    roots = {source.root.resolve(): source.name for source in list_sources(workspace)}
    return next((roots[folder] for folder in (place, *place.parents) if folder in roots), None)


class _Record(BaseModel):
    """The sources that were added by command, as they are stored."""

    sources: tuple[SourceSettings, ...]


def read_record(path: Path) -> tuple[SourceSettings, ...]:
    """Read the list of added sources of a workspace; empty if none was ever added."""
    try:
        return _Record.model_validate_json(path.read_bytes()).sources
    except FileNotFoundError:
        return ()
    except ValidationError as error:
        raise WorkspaceError(
            f"{path} is damaged, and it lists the added sources. Restore it from a backup, or delete it and add the "
            "sources again; no file is lost",
            code="damaged_record",
        ) from error


@contextmanager
def _changing_record(path: Path) -> Iterator[list[SourceSettings]]:
    """Give the list of added sources to be changed, and write it in the end. Other processes wait meanwhile."""
    with exclusive_temporary(path) as file:
        sources = list(read_record(path))
        yield sources
        os.fchmod(file.fileno(), 0o600)
        file.write(_Record(sources=tuple(sources)).model_dump_json(exclude_defaults=True, indent=1).encode())
        file.flush()
        publish(temporary_path(path), path)


def add_source(workspace: WorkspacePaths, path: Path, *, exclude: Sequence[str] = ()) -> SourceSettings:
    """Record a file or folder that no source covers as one. The next run reads it; nothing is read or copied now.

    ``exclude``: files and folders to leave out, as in ``.gitignore``.
    """
    place, root = path.resolve(), workspace.root.resolve()
    stored = place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)
    if stored.encode(errors="ignore").decode() != stored:
        raise InputError(f"{path!r}: the path is not UTF-8; rename the file or folder", code="not_utf8")
    with _changing_record(workspace.added_sources) as recorded:
        taken = [source.label for source in (*workspace.settings.documents.sources, *recorded)]
        added = SourceSettings(path=stored, exclude=tuple(exclude), name=make_source_name(stored, taken))
        recorded.append(added)
    return added


def remove_source(workspace: WorkspacePaths, source: Source) -> None:
    """Take a source out of the recorded list. The next run drops its documents; no file is deleted.

    It raises ``InputError`` if the source stands in the settings file.
    """
    if not source.is_added:
        raise InputError(
            f"the source {source.name} is configured in {workspace.root / SETTINGS_FILE}; remove it from "
            "`documents.sources` there",
            code="source_of_settings",
        )
    with _changing_record(workspace.added_sources) as recorded:
        recorded[:] = [each for each in recorded if each.label != source.name]


def change_exclude(
    workspace: WorkspacePaths, source: Source, change: Callable[[Sequence[str]], Sequence[str]]
) -> None:
    """Change what an added source leaves out, as it is recorded by then; the next run follows it."""
    with _changing_record(workspace.added_sources) as recorded:
        recorded[:] = [
            each.model_copy(update={"exclude": tuple(change(each.exclude))})
            if each.label == source.name
            else each
            for each in recorded
        ]


def list_documents(workspace: WorkspacePaths, apart: Collection[Path]) -> Listing:
    """List the files of the folder of documents and of all further sources.

    A source whose root lies in another one, or in the folder of documents, is read by itself alone.
    """
    sources = list_sources(workspace)
    settings, folder = workspace.settings.documents, workspace.documents_dir
    elsewhere = [*apart, *(source.root for source in sources)]
    others = [_list_source(source, settings, [*elsewhere, folder]) for source in sources]
    return sum(others, DocumentFolder(folder, make_rules(settings)).list_all(elsewhere))


def hash_listing(listing: Listing, hashes: FileHashes) -> str:
    """Hash every listed file by its content, a member by that of its archive, and all others by what is said of them.

    An unreadable file counts by the reason.
    """
    entries = [f"{entry.uri} {entry.status} {entry.reason}" for entry in listing.skipped]
    contents: dict[Path, str] = {}
    for file in listing.files:
        if file.path not in contents:
            try:
                contents[file.path] = hashes.hash(file)
            except ReadError as error:
                contents[file.path] = str(error)  # reading the documents reports this file
        entries.append(f"{file.uri} {contents[file.path]}")
    return digest(sorted(entries))


def _list_source(source: Source, documents: DocumentSettings, apart: Collection[Path]) -> Listing:
    """List the files of one source; one that cannot be reached is a failed entry, and its files are unknown."""
    settings = source.settings
    rules = make_rules(documents, settings)
    try:
        if settings.is_remote:
            found = list_mirror(source.root, source.name, rules)
        elif source.root.is_dir():
            found = DocumentFolder(source.root, rules).list_all(apart)
        else:
            source.root.stat()
            found = DocumentFolder(source.root.parent, rules).list_named([source.root.name])
    except OSError as error:
        found = list_unreachable(f"{settings.path or source.root} cannot be reached ({error.strerror})")
    return found.put_below(f"{source.name}{SOURCE_MARK}", settings.kind, settings.tenant)


def require_packages(workspace: WorkspacePaths) -> None:
    """Raise ``MissingExtraError`` if a source needs packages that are not installed; it contacts no source."""
    list(_open_remotes(workspace))


def fetch_sources(workspace: WorkspacePaths) -> None:
    """Fetch what has changed in the sources that lie elsewhere. The next listing reports what cannot be fetched."""
    documents = workspace.settings.documents
    limits = find_limits(documents)
    for source, remote in _open_remotes(workspace):
        rules = make_rules(documents, source.settings)
        update_mirror(source.root, remote, rules, limits.most_bytes)


def _open_remotes(workspace: WorkspacePaths) -> Iterator[tuple[Source, Remote]]:
    """Make what reads each source that lies elsewhere; none where nothing may be written."""
    keys = workspace.keys
    for source in list_sources(workspace) if workspace.writes else ():
        settings = source.settings
        if settings.drive is not None:
            yield source, DriveRemote(settings.drive.files, settings.drive.folder, keys)
        elif settings.url is not None:
            stored = None if keys is None else keys.get(BUCKET_VARIABLE)
            own = {} if stored is None else json.loads(stored.get_secret_value())
            # Without keys of its own, fsspec finds others.
            yield source, AddressRemote(settings.url, None if keys is None else own)
        elif settings.is_remote:
            yield source, PagesRemote(settings.urls, settings.url_list)


def find_next_sync(workspace: WorkspacePaths) -> float | None:
    """Find when a source that lies elsewhere is to be fetched again: an hour after it was last tried, by whatever run.

    It returns seconds since 1970, of the source that comes first; None if no source lies elsewhere.
    """
    tried = [last_update(source.root) for source in list_sources(workspace) if source.settings.is_remote]
    return min(tried) + SYNC_SECONDS if tried else None


class DocumentLinks:
    """Finds where documents live in the web, and where links to them lead. What a source knows is read once."""

    def __init__(self, workspace: WorkspacePaths) -> None:
        self._locate, self._folder = make_locator(workspace), workspace.settings.documents.folder
        self._sources = {source.name: source for source in list_sources(workspace)}
        self._places = {
            name: os.path.relpath(source.folder.resolve(), workspace.root.resolve())
            for name, source in self._sources.items()
        }
        self._read_copies = cache(lambda name: read_state(self._sources[name].root).files)

    def find_address(self, uri: str) -> str | None:
        """Find the address in the web of a document.

        It is the one that its file states (``url`` in front matter, the canonical link of a page), else the one from
        which its source has fetched it; None if neither is known.
        """
        stated = _read_stated(self._locate(uri))
        name, mark, below = uri.partition(SOURCE_MARK)
        source = self._sources.get(name) if mark else None
        if stated is not None or source is None or not source.settings.is_remote:
            return stated
        copy = self._read_copies(name).get(below)
        if copy is None:
            return None
        address = copy.key if source.settings.drive is None else f"{_DRIVE}{copy.key}"
        return address if _is_web_address(address) else None

    def link(self, uri: str) -> str:
        """Find where a link of a post to a document leads.

        That is its file, relative to the workspace and perhaps outside of it; of a document that was fetched, its web
        address, if it has one; and the empty text for a document of a source that the workspace does not have any more.
        """
        name, mark, below = uri.partition(SOURCE_MARK)
        if not mark:
            return locate(uri, self._folder)
        if name not in self._sources:
            return ""
        home = self.find_address(uri) if self._sources[name].settings.is_remote else None
        return home or str(PurePosixPath(self._places[name]) / below)

    def list_places(self) -> list[str]:
        """List, for each further source, what the links to its documents depend on besides the documents."""
        return [f"{name}{SOURCE_MARK} {place}" for name, place in self._places.items()]


def _read_stated(path: Path) -> str | None:
    from backstory.ingest.documents.formats.html import (  # a search needs none
        HTML,
        decode_html,
        read_statements,
    )
    from backstory.ingest.documents.formats.texts import MARKDOWN, decode_text
    from backstory.ingest.documents.metadata import split_front_matter

    suffix = path.suffix.lower()
    if suffix not in MARKDOWN.suffixes | HTML.suffixes:
        return None
    try:
        content = path.read_bytes()
        if suffix in MARKDOWN.suffixes:
            front, _ = split_front_matter(decode_text(content))
            values = [front.text(name) for name in _FIELDS]
        else:
            stated = read_statements(decode_html(content))
            values = [*stated["canonical"], *stated["og:url"]]
    except (OSError, ReadError):
        return None  # the table documents holds an earlier revision, and says why the file cannot be read
    return next((value for value in values if value and _is_web_address(value)), None)


def _is_web_address(value: str) -> bool:
    """Return whether a text is an address of the web; front matter of Hugo, for example, states a path as ``url``."""
    try:
        parts = urlsplit(value)
    except ValueError:  # such as an unclosed bracket of an address of IPv6
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)
