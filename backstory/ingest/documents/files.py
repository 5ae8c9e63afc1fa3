"""The files of documents: their uris, the rules that leave some out, and the hashes of their contents.

The rules are patterns of the settings, files ``.backstoryignore``, and signs of secrets.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from backstory.base.errors import ReadError
from backstory.base.files.patterns import Patterns, compile_patterns, matches_glob
from backstory.base.files.safe_open import GONE, open_inside
from backstory.base.ids import WRITTEN_PREFIX, is_written
from backstory.ingest.documents.metadata import parse_date
from backstory.ingest.walk import Folder, ListedFile, Listing, Rule, Skipped, escape, explain_hidden
from backstory.ingest.zips import Archive, is_archive, leads_out, list_members
from backstory.settings.inputs import DocumentSettings, SourceSettings
from backstory.storage.tables.catalog import Catalog, Entry

SOURCE_MARK: Final = "://"
"""Stands in a uri between the name of a further source and the path below its root; no path of a file holds it."""
DRAFT_SUFFIX: Final = ".draft.md"
"""End of the name of a draft that lies beside a post which a person has edited."""
IGNORE_FILE: Final = ".backstoryignore"
"""File of patterns, in any folder, that leaves files out of the folder and those below it."""
UNDATED: Final = "it states no date; `rag: {undated: hide}` keeps such documents from all windows"
_MOST_PATTERN_BYTES: Final = 1 << 16
"""Maximum size of a file of patterns."""

SETTLED_SECONDS: Final = 3.0
"""Age of the last change from which the hash of a file is remembered. FAT keeps times of two seconds, the coarsest."""
_FILES: Final = "document_files"
_NO_PATTERNS: Final = Patterns()
_SECRETS: Final = (
    *(".env", ".env.*", "*.env", ".envrc", ".netrc", "_netrc", ".pgpass", ".my.cnf", ".npmrc", ".pypirc"),
    *(".git-credentials", ".htpasswd", ".vault-token", ".boto", ".s3cfg", ".dockercfg"),
    *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", "*.kdbx", "*.asc.key"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "secring.*"),
    *("credentials", *(f"credentials.{end}" for end in ("json", "csv", "ini", "toml", "yaml", "yml", "xml"))),
    *("client_secret*.json", "service[-_]account*.json", "application_default_credentials.json"),
    *(f"secrets.{end}" for end in ("json", "toml", "yaml", "yml", "ini", "env")),
    *("*.tfstate", "*.tfstate.backup", "*.tfvars", ".ssh/", ".aws/", ".gnupg/", ".kube/", ".docker/"),
)
"""Names in small letters, as in ``.gitignore``."""
_SECRET_NAMES: Final = Patterns(_SECRETS)


def is_of_source(uri: str) -> bool:
    """Return whether a document comes from a further source, and not from the folder of documents."""
    return SOURCE_MARK in uri


def locate(uri: str, folder: str) -> str:
    """Return the path of a document relative to the workspace; one of a further source has its name as first folder."""
    if is_of_source(uri):
        return str(PurePosixPath(uri))
    return uri.removeprefix(WRITTEN_PREFIX) if is_written(uri) else str(PurePosixPath(folder) / uri)


def name_source(folder: str, uri: str) -> str:
    """Return a file's name in the table ``sources``: its path in the workspace, or its uri in a further source."""
    if is_of_source(uri):
        return uri
    below = "/" if uri.endswith("/") else ""
    return f"{PurePosixPath(locate(uri, folder))}{below}"


def is_unlisted(uri: str, places: Set[str]) -> bool:
    """Return whether a document lies where a listing could not look, so that what was read of it is kept."""
    if "" in places and not is_of_source(uri) and not is_written(uri):
        return True
    above = [place for place, letter in enumerate(uri) if letter == "/"]
    return uri in places or any(uri[:place] in places or uri[: place + 1] in places for place in above)


def list_foreign(documents: pl.DataFrame, tenant: str | None) -> frozenset[str]:
    """List the uris of documents that state another tenant than that of ``rag.tenant``; None serves all of them."""
    if tenant is None:
        return frozenset()
    own = documents.filter(pl.col("tenant") == tenant)["uri"]
    return frozenset(documents.filter(pl.col("tenant") != "")["uri"]) - frozenset(own)


# The time in `202503041030 Title` is in the writer's unknown time zone.
_FIRST: Final = re.compile(
    r"((?:19|20)[0-9]{2}|[0-9]{4}(?=-))([-._]?)([0-9]{2})\2([0-9]{2})(?:[0-9]{4}|[0-9]{6})?(?:[-_. ]+(.*))?",
    re.DOTALL,
)
_LAST: Final = re.compile(r".*[-_ (]((?:19|20)[0-9]{2})(-)([0-9]{2})-([0-9]{2})\)?", re.DOTALL)
_FOLDER: Final = re.compile(r"(?:.*/)?((?:19|20)[0-9]{2})([-/])([0-9]{2})\2([0-9]{2})", re.DOTALL)


def split_dated_name(uri: str) -> tuple[datetime | None, str]:
    """Find the date in a path, and the slug: the name without its suffix and a date with hyphens in front of it.

    The file name has priority: ``2025-03-04-my-post.md``, ``20250304 My post.md`` and ``My post 2025-03-04.md``. The
    folders follow, the innermost first: ``2025/03/04/my-post.md`` and ``2025-03-04/my-post.md``. A file called
    ``index`` gets the name of its folder. Numbers that are no day of the calendar are no date.
    """
    path = PurePosixPath(uri)
    name = path.parent.name if path.stem == "index" and path.parent.name else path.stem
    places = [(_FIRST, name), (_LAST, name), *((_FOLDER, str(folder)) for folder in path.parents)]
    for form, place in places:
        if (found := form.fullmatch(place)) is not None:
            with suppress(ValueError):
                day = parse_date("-".join(found.group(1, 3, 4)))
                return day, (found[5] if form is _FIRST and found[2] == "-" else None) or name
    return None, name


@dataclass(frozen=True)
class FileRules:
    """The rules of the settings: a glob of the files to read, and patterns that leave files out.

    ``name`` says where they stand, for the reasons. ``ignored`` are the patterns of each folder that has some, by its
    path, which is empty or ends with ``/``.
    """

    pattern: str = "**/*"
    include: Patterns = _NO_PATTERNS
    exclude: Patterns = _NO_PATTERNS
    secrets: Patterns = _SECRET_NAMES
    name: str = "documents"
    ignored: dict[str, Patterns] = field(default_factory=dict)

    def explain(self, path: str) -> str | None:
        """Return which rule leaves out a file or folder; None if none does. The path of a folder ends with ``/``.

        Of an archive, which is like a folder, the members are chosen.
        """
        if (found := self.secrets.find(path.lower())) and found[0]:
            return _describe_secret(f"its name is one of `{found[1]}`")
        if (hidden := explain_hidden(path)) is not None:
            return hidden
        if (found := self.exclude.find(path)) and found[0]:
            return f"`exclude: {found[1]}` of {self.name} leaves it out"
        if not path.endswith("/") and not is_archive(path):
            if not matches_glob(PurePosixPath(path).parts, PurePosixPath(self.pattern).parts):
                return f"`documents: {{pattern: {self.pattern}}}` leaves it out"
            if self.include.lines and not ((found := self.include.find(path)) and found[0]):
                return f"no pattern of `include` of {self.name} names it"
        folder = path.rstrip("/")
        while folder:  # the file of patterns that is nearest decides
            folder = folder[: folder.rstrip("/").rfind("/") + 1]
            found = self.ignored.get(folder, _NO_PATTERNS).find(path[len(folder) :])
            if found is not None:
                return f"`{found[1]}` in {folder}{IGNORE_FILE} leaves it out" if found[0] else None
        return None

    def explain_with_folders(self, path: str) -> str | None:
        """Return which rule leaves out a file or one of its folders; None if none does."""
        folders = [path[: place + 1] for place, letter in enumerate(path) if letter == "/"]
        return next(filter(None, map(self.explain, (*folders, path))), None)


def make_rules(settings: DocumentSettings, source: SourceSettings | None = None) -> FileRules:
    """Make the rules of the folder of documents, or of a further source."""
    secrets = Patterns((*_SECRETS, *(pattern.lower() for pattern in settings.secrets)))
    if source is None:
        return FileRules(pattern=settings.pattern, secrets=secrets)
    include, exclude = Patterns(source.include), Patterns(source.exclude)
    return FileRules(include=include, exclude=exclude, secrets=secrets, name=f"source {source.label}")


class DocumentFolder(Folder):
    """Lists a folder of documents, whose archives are read as folders, by rules and its files of patterns."""

    def __init__(self, folder: Path, rules: FileRules | None = None) -> None:
        """Name the folder and its rules; without rules, only files of patterns and signs of secrets count."""
        super().__init__(folder)
        self._rules = replace(rules or FileRules(), ignored={})

    def explain(self, uri: str) -> Rule | None:
        """Return which rule leaves out a file or a folder; None if none does."""
        reason = self._rules.explain(uri)
        return None if reason is None else ("ignored", reason)

    def enter(self, here: Path, folders: list[str], names: list[str]) -> None:
        """Read the patterns of a folder first; if they cannot be used, nothing in it is read."""
        if IGNORE_FILE not in (*folders, *names):
            return
        uri = self.name(here, "/")
        try:
            with open_inside(self.root, here / IGNORE_FILE) as file:
                self._rules.ignored[uri] = _parse_patterns(file.read(_MOST_PATTERN_BYTES + 1))
        except ReadError as error:
            if error.code != GONE:
                self._close(uri, f"{IGNORE_FILE}: {error}", "this folder, as the file may exclude parts")
                folders.clear()
                names.clear()

    def take(self, file: ListedFile) -> None:
        """Take a file, or the members of an archive."""
        if file.member is not None or not is_archive(file.uri):
            found = self._rules.secrets.find(file.uri.lower())
            super().take(replace(file, is_vetted=found is not None and not found[0]))
            return
        below = f"{file.uri}/"
        try:
            archive = Archive(file.root, file.path)
            members = list(list_members(archive.zip))
            for name, info, problem in members:
                if PurePosixPath(name).name == IGNORE_FILE:
                    if problem is not None:
                        raise ReadError(f"{IGNORE_FILE}: {problem}")
                    patterns = _parse_patterns(archive.read(info))
                    self._rules.ignored[f"{below}{name}".removesuffix(IGNORE_FILE)] = patterns
        except ReadError as error:
            if error.code != GONE:
                self._close(below, str(error), "it")
            return
        if not members:
            self.skipped.append(Skipped(below, "ignored", "the archive holds no file"))
        for name, info, problem in members:
            member = replace(file, uri=f"{below}{name}", archive=archive, member=info)
            ignored = None if leads_out(name) else self._rules.explain_with_folders(member.uri)
            self.keep(member, ("ignored", ignored) if ignored else ("failed", problem) if problem else None)

    def _close(self, uri: str, problem: str, what: str) -> None:
        reason = f"{problem}; until then Backstory reads nothing in {what}"
        self.skipped.append(Skipped(uri, "failed", reason, hides_files=True))


def list_written(folder: Path, name: str) -> Listing:
    """List the posts that Backstory wrote in a workspace."""
    what = "written posts, since a draft is to be merged with the post beside it,"
    rules = FileRules(pattern="*.md", exclude=Patterns((f"*{DRAFT_SUFFIX}",)), name=what)
    return DocumentFolder(folder, rules).list_all().put_below(f"{WRITTEN_PREFIX}{name}/")


def _parse_patterns(content: bytes) -> Patterns:
    """Read a file of patterns; raise ``ReadError`` if it is too large, not UTF-8, or a line is no pattern."""
    if len(content) > _MOST_PATTERN_BYTES:
        raise ReadError(f"the patterns have more than {_MOST_PATTERN_BYTES:,} bytes; shorten them")
    try:
        patterns = Patterns(tuple(content.decode("utf-8-sig").splitlines()))
        compile_patterns(patterns.lines)
    except UnicodeDecodeError as error:
        raise ReadError("the patterns are not UTF-8 text; save them as such") from error
    except ValueError as error:
        raise ReadError(str(error)) from error
    return patterns


_SIGNS: Final = (
    ("a private key", b"PRIVATE KEY", rb"-----BEGIN (?:[A-Z0-9]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----"),
    ("a private key", b"PuTTY-User-Key-File-", rb"PuTTY-User-Key-File-[0-9]:"),
    # AWS ends the keys in its documentation with EXAMPLE.
    ("a key of AWS", b"IA", rb"(?<![A-Za-z0-9])A[KS]IA(?![0-9A-Z]{9}EXAMPLE)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("a token of GitHub", b"gh", rb"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{36,}"),
    ("a token of GitHub", b"github_pat_", rb"github_pat_\w{60,}"),
    ("a token of GitLab", b"glpat-", rb"(?<![A-Za-z0-9])glpat-[\w-]{20,}"),
    ("a token of Slack", b"xox", rb"(?<![A-Za-z0-9])xox[abeoprs]-[0-9A-Za-z-]{20,}"),
    ("a key of Google", b"AIza", rb"(?<![\w-])AIza[\w-]{35}(?![\w-])"),
    ("a key of OpenAI or Anthropic", b"sk-", rb"(?<![\w-])sk-(?:proj|svcacct|admin|ant)-[\w-]{40,}"),
    ("a key of OpenAI", b"sk-", rb"(?<![\w-])sk-[A-Za-z0-9]{48}(?![A-Za-z0-9])"),
    ("a key of Stripe", b"k_live_", rb"(?<![A-Za-z0-9])[rs]k_live_[A-Za-z0-9]{20,}"),
    ("a token of npm", b"npm_", rb"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("a token of PyPI", b"pypi-", rb"pypi-AgE[\w-]{50,}"),
    ("a key of Azure storage", b"AccountKey=", rb"AccountKey=[A-Za-z0-9+/]{86}=="),
    ("a password of Telegram bots", b":AA", rb"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])"),
)
"""What gives a secret away: its name, bytes that each one holds (a fast first test), and its form."""


def explain_secret(content: bytes) -> str | None:
    """Return what secret a file seems to hold, and where, without quoting it; None if it seems to hold none."""
    for what, mark, form in _SIGNS:
        if mark in content and (found := re.search(form, content)) is not None:
            line = content.count(b"\n", 0, found.start()) + 1
            return _describe_secret(f"it holds {what} in line {line}")
    return None


def _describe_secret(why: str) -> str:
    """Write the reason for which a file is not read."""
    return (
        f"looks like a secret: {why}; if it may be read, name it in `documents: {{secrets: ['!...']}}`, else keep it "
        "elsewhere"
    )


class FileHashes:
    """The hashes of files by their content, remembered for files that have not changed since they were hashed.

    A file is taken for unchanged if its size, the times of its last change of content and of state, and its number on
    the disk are those of the earlier reading. A program can set the first time, but the system alone sets the second.
    ``unchanged`` counts the files that were asked for and not read.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._entries = catalog.read(_FILES)
        self._asked: set[str] = set()
        self._used: dict[str, str] = {}
        self.unchanged = 0

    def find(self, file: ListedFile) -> str | None:
        """Return the hash of a file, or of the archive that it is in, if that has not changed; else None."""
        entry = self._entries.get(escape(file.path))
        return None if entry is None or entry.inputs != _describe_state(file.path) else entry.content

    def use(self, file: ListedFile, content: str) -> None:
        """Set the hash of a file to that of what was read of it, whatever it held before or holds by now."""
        self._used[escape(file.path)] = content

    def hash(self, file: ListedFile) -> str:
        """Return the SHA-256 of a file, in hexadecimal digits: of what was read of it, if anything was."""
        name = escape(file.path)
        self._asked.add(name)
        if name in self._used:
            return self._used[name]
        if (known := self.find(file)) is not None:
            self.unchanged += 1
            return known
        state = _describe_state(file.path)
        with file.open() as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
            if file.archive is not None:
                file.archive.require_same(opened)
        if state is not None and state == _describe_state(file.path):
            self._entries[name] = Entry(state, content, 0)
        return content

    def save(self) -> None:
        """Store the new hashes, and drop those of files that were not asked for."""
        stored = self._catalog.read(_FILES)
        entries = {name: self._entries.get(name) for name in self._asked}
        names = [name for name in stored.keys() | self._asked if stored.get(name) != entries.get(name)]
        self._catalog.record(_FILES, {name: entries.get(name) for name in names})


def _describe_state(path: Path) -> str | None:
    """Describe the state of a regular file, but for one that may change again without another state.

    A file that was changed within seconds may get another content with the same times, and a link another end.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or max(found.st_mtime, found.st_ctime) > time.time() - SETTLED_SECONDS:
        return None
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_dev} {found.st_ino}"
