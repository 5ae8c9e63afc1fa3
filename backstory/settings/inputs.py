"""Settings of what is read: chat exports, documents and their sources, chunks, and what is left out about people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import date
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal, Self, TypeAlias
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, field_validator, model_validator

from backstory.base.errors import SettingsError
from backstory.base.files.patterns import compile_patterns, compose
from backstory.settings.groups import InnerPath, SettingsGroup

_CREDENTIAL: Final = re.compile(r"sig$|signature|token|secret|password|passwd|credential|key|auth")
_SCHEMES: Final = frozenset(
    ["http", "https", "file", "ftp", "s3", "gs", "abfs", "memory", "zip", "mailto", "data"]
)

DriveId: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,200}$")]
"""The long word in the address of a file or folder of Google Drive."""
DateOrderSetting: TypeAlias = Literal["auto", "dmy", "mdy", "ymd"]
LanguageName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_/]*$")]
ChunkerName: TypeAlias = Literal[
    "markdown", "sentence", "character", "rows", "page", "python",
    "bash", "c", "cpp", "go", "java", "javascript", "ruby", "rust", "tsx", "typescript",
]  # fmt: skip
"""Chunkers: by Markdown, by sentences, by characters, by rows, by pages (no chunk holds text of two pages),
or by the definitions of a programming language; see :mod:`backstory.text.chunking.cut`."""
RemovalSetting: TypeAlias = Literal["ask", "mirror", "keep"]


def check_timezone(name: str) -> str:
    """Return the name of a time zone, or raise ``ValueError`` if there is none."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"{name!r} is not a time zone; give a name such as Europe/Berlin") from error
    return name


TimeZone: TypeAlias = Annotated[str, AfterValidator(check_timezone)]
"""Name of a time zone, such as `Europe/Berlin`."""


ComposedName: TypeAlias = Annotated[str, AfterValidator(compose)]
"""Name of a file or a folder, with composed letters."""


def _check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    compile_patterns(patterns)
    return patterns


PathPatterns: TypeAlias = Annotated[tuple[str, ...], AfterValidator(_check_patterns)]
"""Patterns of paths as in `.gitignore`."""


class ConversationOverride(SettingsGroup):
    """Settings of one conversation, or of one of its files, that replace those of all conversations."""

    timezone: TimeZone | None = None
    """Time zone of its exports, its times and its days; null takes the zone of all conversations."""
    date_order: DateOrderSetting | None = None
    """Order of day, month and year in its exports; null takes the order of all conversations."""
    removals: RemovalSetting | None = None
    """What a run does with messages that its exports no longer hold; null takes that of all conversations."""


class ConversationSettings(SettingsGroup):
    """Where the chat exports are, and how to read them."""

    folder: str = "chats"
    """Folder of the chat exports, relative to the workspace. All files of a subfolder are one conversation."""
    timezone: TimeZone = "UTC"
    """Time zone of the clock in exports that state none, of all times that are shown, and of the ends of days."""
    date_order: DateOrderSetting = "auto"
    """Order of day, month and year in WhatsApp exports; `auto` infers it from the whole file."""
    removals: RemovalSetting = "ask"
    """Messages that exports no longer hold: `ask` stops the run, `mirror` drops them, `keep` archives them."""
    overrides: dict[ComposedName, ConversationOverride] = Field(default_factory=dict)
    """The three settings above of single conversations or files, such as `{family: {date_order: dmy}}`."""
    timestamp_column: str = "timestamp"
    """Column of the timestamp in tabular exports."""
    author_column: str = "author"
    """Column of the author in tabular exports."""
    message_column: str = "message"
    """Column of the text in tabular exports."""
    read_seconds: int = Field(default=60, ge=1)
    """Seconds of processor time that reading one export may take; one more for each MB that it has."""
    read_megabytes: int = Field(default=2048, ge=64)
    """Memory (MB) that reading one export may take; an export of more than a quarter of it is not opened."""

    def override(self, *names: str) -> ConversationSettings:
        """Return the settings of one file, without ``overrides``: the first name that they list counts."""
        found = next((self.overrides[name] for name in map(compose, names) if name in self.overrides), None)
        return self.model_copy(
            update={"overrides": {}, **(found.model_dump(exclude_none=True) if found else {})}
        )


class DriveSettings(SettingsGroup):
    """Files of Google Drive, by the ids in their addresses."""

    folder: DriveId | None = None
    """Id of a folder, whose files and subfolders are read."""
    files: tuple[DriveId, ...] = ()
    """Ids of single files; that of a folder stands for all files in it."""

    @model_validator(mode="after")
    def _names_any(self) -> Self:
        if not self.files and self.folder is None:
            raise ValueError("drive names a `folder` or `files`")
        return self


class SourceSettings(SettingsGroup):
    """One source of documents in addition to the folder of documents."""

    path: str | None = None
    """A file or folder, absolute or relative to the workspace; `~` is the home folder."""
    url: str | None = None
    """Address of a bucket, folder or archive that fsspec knows, such as s3://notes/wiki."""
    urls: tuple[str, ...] = ()
    """Addresses of single files of the web."""
    url_list: str | None = None
    """Address of a text in the web that names further ones, each on a line of its own."""
    drive: DriveSettings | None = None
    """Files of Google Drive."""
    name: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9._-]{0,39})?$")
    """Short name that begins the uri of every document; empty takes it from the end of the path."""
    include: PathPatterns = ()
    """Files to read, as in `.gitignore`; empty for all."""
    exclude: PathPatterns = ()
    """Files and folders to leave out, as in `.gitignore`."""
    kind: str | None = None
    """Kind of its documents that do not state one; null takes that of all documents."""
    tenant: str | None = None
    """Tenant of its documents that do not state one; null takes that of all documents."""

    @field_validator("name")
    @classmethod
    def _is_no_scheme(cls, value: str) -> str:
        if value in _SCHEMES:
            raise ValueError(f"addresses of another kind begin with {value}; give the source another name")
        return value

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        given = (self.path, self.url, self.drive, self.urls or self.url_list or None)
        if len(given) - given.count(None) != 1:
            raise ValueError("a source has either `path`, or `url`, or `drive`, or `urls` and `url_list`")
        if self.path is not None and not self.path.strip():
            raise ValueError("path is empty; name a file or a folder")
        for address in self.addresses:
            if (urlsplit(address).scheme in ("", "http", "https")) != (address != self.url):
                raise ValueError(
                    "`url` is an address such as s3://bucket/folder, and `urls` and `url_list` are addresses that "
                    "begin with https:// or http://"
                )
            if part := find_credential(address):
                raise ValueError(
                    f"the address of a source holds {part}; keys are read from the environment of the service's tool"
                )
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses that the source names."""
        return tuple(address for address in (self.url, *self.urls, self.url_list) if address)

    @property
    def is_remote(self) -> bool:
        """Whether its files are fetched from elsewhere."""
        return self.path is None

    @property
    def label(self) -> str:
        """The name of the source: the given one, or else one from the end of its path."""
        if self.name:
            return self.name
        if self.drive is not None:
            return "drive"
        place = self.path or (self.addresses[0] if self.addresses else "")
        return make_source_name(urlsplit(place).path.rstrip("/") or urlsplit(place).netloc)


def find_credential(address: str) -> str | None:
    """Return which part of an address may be a key or a password; None if none is."""
    parts = urlsplit(address.rpartition("::")[2])
    user, at, _ = parts.netloc.rpartition("@")
    if ":" in user or (at and parts.scheme not in ("abfs", "abfss")):
        return "a user or a password"
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return next((f"a part called {name}" for name in names if _CREDENTIAL.search(name.lower())), None)


def make_source_name(path: str, taken: Iterable[str] = ()) -> str:
    """Make a name from the end of a path: its letters, and a number where another source has the name."""
    end = PurePosixPath(path)
    words = re.sub(r"[^a-z0-9._-]+", "-", (end.stem or end.name).lower()).strip("-._")[:36].rstrip("-._")
    name = words or "source"
    if name in _SCHEMES:
        name = f"{name}-files"
    others = set(taken)
    numbered = (f"{name}-{number}" for number in range(2, len(others) + 3))
    return next(one for one in (name, *numbered) if one not in others)


class DocumentSettings(SettingsGroup):
    """Where the documents are, and defaults for metadata that they do not state."""

    folder: str = "posts"
    """Folder of the documents, relative to the workspace."""
    pattern: InnerPath = "**/*"
    """Glob of the files to read."""
    sources: tuple[SourceSettings, ...] = ()
    """Further sources, such as `[{path: ~/notes, exclude: [drafts/]}]` (docs/reference/sources.md)."""
    secrets: PathPatterns = ()
    """Further names of files with secrets, as in `.gitignore`; `!name` reads a file (docs/reference/sources.md)."""
    kind: str = "post"
    """Kind of documents that do not state one."""
    tenant: str = ""
    """Tenant of documents that do not state one."""
    drafts: bool = False
    """Whether drafts are served: `draft: true`, `published: false`, and files in a folder `_drafts`."""
    ocr: Literal["auto", "off"] = "auto"
    """Whether text in images and scanned pages is recognised: `auto` where Tesseract is installed, or `off`."""
    ocr_languages: tuple[LanguageName, ...] = Field(default=("eng",), min_length=1)
    """Languages to recognise, as Tesseract names them (`eng`, `deu`, `chi_sim`); each takes time."""
    read_seconds: int = Field(default=60, ge=1)
    """Seconds of processor time that reading one document may take; one more for each MB that it has."""
    read_megabytes: int = Field(default=2048, ge=64)
    """Memory (MB) that reading one document may take; one of more than a quarter of it is not opened."""

    @field_validator("sources")
    @classmethod
    def _named_apart(cls, value: tuple[SourceSettings, ...]) -> tuple[SourceSettings, ...]:
        labels = [source.label for source in value]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"two sources are called {twice}; give one of them another `name`")
        return value


class ChunkSettings(SettingsGroup):
    """How documents are cut into chunks."""

    max_tokens: int = Field(default=1800, ge=16)
    """Most tokens of a chunk; the ceiling is this or the embedder's limit, whichever is smaller."""
    overlap_tokens: int = Field(default=150, ge=0)
    """Most tokens that a chunk of `markdown` and `page` repeats from the end of the previous chunk."""
    chunkers: dict[str, ChunkerName] = Field(default_factory=dict)
    """Chunker by format, such as `{markdown: sentence, pdf: page}`; a format that is absent has its reader's choice."""
    sentence_max_tokens: int = Field(default=512, ge=16)
    """Most tokens of a chunk of `sentence` and `rows`; never above the ceiling."""
    sentence_overlap_tokens: int = Field(default=60, ge=0)
    """Most tokens that a chunk of `sentence` repeats."""
    max_characters: int = Field(default=1000, ge=16)
    """Most characters of a chunk of `character`; fewer where they have more tokens than the ceiling."""
    overlap_characters: int = Field(default=200, ge=0)
    """Most characters that a chunk of `character` repeats."""

    @model_validator(mode="after")
    def _overlaps_below_sizes(self) -> Self:
        for size, overlap in (
            ("max_tokens", "overlap_tokens"),
            ("sentence_max_tokens", "sentence_overlap_tokens"),
            ("max_characters", "overlap_characters"),
        ):
            if getattr(self, overlap) >= getattr(self, size):
                raise SettingsError(
                    f"{overlap} {getattr(self, overlap)} must be below {size} {getattr(self, size)}",
                    code="out_of_range",
                )
        return self


class AgreedName(SettingsGroup):
    """The name that readers see of a person who has agreed to it."""

    shown: str = Field(pattern=r"^[^\W\d_]+(?:[ '’.-]{1,2}[^\W\d_]+)*$", max_length=60)
    """The name, in letters."""
    agreed: date
    """Day on which the person agreed."""


class PrivacySettings(SettingsGroup):
    """What the tables leave out about people in chats: names, all messages of a person, contact and bank data."""

    pseudonyms: bool = True
    """Whether authors, and mentions of them, become pseudonyms keyed by the secret of the workspace."""
    exclude: tuple[str, ...] = ()
    """People whose messages no table holds, by any of their names in the exports, or by pseudonym."""
    scrub: tuple[Literal["email", "phone", "card", "iban"], ...] = ()
    """What becomes a marker such as `[email]` in messages: `[email, phone, card, iban]`, or some of these."""
    phone_region: str | None = None
    """Region, such as DE, whose phone numbers are found in any form; others need a plus sign or a typical shape."""
    names: dict[str, AgreedName] = Field(default_factory=dict)
    """Names that people agreed to be shown by, such as `{Ada Lind: {shown: Ada, agreed: 2025-03-01}}`."""
    documents: Literal["replace", "keep", "reject"] = "replace"
    """Members' names in passages of documents, and contact data in posts; `reject` rejects posts that hold any."""

    @field_validator("phone_region")
    @classmethod
    def _known_region(cls, value: str | None) -> str | None:
        if value is None:
            return None
        from phonenumbers import SUPPORTED_REGIONS

        if value.upper() not in SUPPORTED_REGIONS:
            raise ValueError(
                "this is no region with phone numbers; use a code of two letters, such as DE or US"
            )
        return value.upper()

    @field_validator("names")
    @classmethod
    def _shown_for_one(cls, value: dict[str, AgreedName]) -> dict[str, AgreedName]:
        shown = Counter(name.shown.casefold() for name in value.values())
        if any(times > 1 for times in shown.values()):
            raise ValueError("two people are shown by the same name; choose another for one of them")
        return value
