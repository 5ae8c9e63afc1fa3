"""Settings of what is read: chat exports, documents, the chunks of these, and what is left out about people."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, field_validator, model_validator

from backstory.base.errors import SettingsError
from backstory.base.files.patterns import compile_patterns
from backstory.settings.groups import SettingsGroup
from backstory.settings.sources import SourceSettings

DateOrderSetting: TypeAlias = Literal["auto", "dmy", "mdy", "ymd"]
LanguageName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_/]*$")]
ChunkerName: TypeAlias = Literal[
    "markdown", "sentence", "character", "rows", "page", "python",
    "bash", "c", "cpp", "css", "go", "java", "javascript", "ruby", "rust", "tsx", "typescript",
]  # fmt: skip
"""Chunkers: by Markdown, by sentences, by characters, by rows, by pages (no chunk holds text of two pages),
or by the definitions of a programming language; see :mod:`backstory.text.chunking.chunkers`."""
RemovalSetting: TypeAlias = Literal["ask", "mirror", "keep"]


class ConversationOverride(SettingsGroup):
    """Settings of one conversation, or of one of its files, that replace those of all conversations."""

    timezone: str | None = None
    """Time zone of its exports, its times and its days; null takes the zone of all conversations."""
    date_order: DateOrderSetting | None = None
    """Order of day, month and year in its exports; null takes the order of all conversations."""
    removals: RemovalSetting | None = None
    """What a run does with messages that its exports no longer hold; null takes that of all conversations."""

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str | None) -> str | None:
        return value if value is None else check_timezone(value)


class ConversationSettings(SettingsGroup):
    """Where the chat exports are, and how to read them."""

    folder: str = "chats"
    """Folder of the chat exports, relative to the workspace. All files of a subfolder are one conversation."""
    timezone: str = "UTC"
    """Time zone of the clock in exports that state none, of all times that are shown, and of the ends of days."""
    date_order: DateOrderSetting = "auto"
    """Order of day, month and year in WhatsApp exports; `auto` infers it from the whole file."""
    removals: RemovalSetting = "ask"
    """Messages that exports no longer hold: `ask` stops the run, `mirror` drops them, `keep` archives them."""
    overrides: dict[str, ConversationOverride] = Field(default_factory=dict)
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

    @field_validator("timezone")
    @classmethod
    def _known_timezone(cls, value: str) -> str:
        return check_timezone(value)

    def override(self, *names: str) -> ConversationSettings:
        """Return the settings of one file.

        Args:
            names: Keys under which ``overrides`` may list the file; the first key found counts.

        Returns:
            These settings with the file's override applied, and without ``overrides``.
        """
        found = next(
            (self.overrides[name] for name in names if name in self.overrides), ConversationOverride()
        )
        return self.model_copy(update={"overrides": {}, **found.model_dump(exclude_none=True)})


def check_timezone(name: str) -> str:
    """Return the name of a time zone.

    Raises:
        ValueError: There is no such time zone.
    """
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"{name!r} is not a time zone; give a name such as Europe/Berlin") from error
    return name


class DocumentSettings(SettingsGroup):
    """Where the documents are, and defaults for metadata that they do not state."""

    folder: str = "posts"
    """Folder of the documents, relative to the workspace."""
    pattern: str = "**/*"
    """Glob of the files to read."""
    sources: tuple[SourceSettings, ...] = ()
    """Further sources, such as `[{path: ~/notes, exclude: [drafts/]}]` (docs/reference/sources.md)."""
    secrets: tuple[str, ...] = ()
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

    @field_validator("secrets")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        compile_patterns(tuple(pattern.lower() for pattern in value))
        return value

    @field_validator("sources")
    @classmethod
    def _named_apart(cls, value: tuple[SourceSettings, ...]) -> tuple[SourceSettings, ...]:
        labels = [source.label for source in value]
        twice = next((label for label in labels if labels.count(label) > 1), None)
        if twice is not None:
            raise ValueError(f"two sources are called {twice}; give one of them another `name`")
        return value

    @field_validator("pattern")
    @classmethod
    def _inside_the_folder(cls, value: str) -> str:
        path = PurePosixPath(value)
        if not path.parts or path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{value!r} must be a pattern inside the folder, such as **/*.md")
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
    """Region, such as DE, whose phone numbers `scrub` finds without country code; null finds those with a plus sign."""
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
