"""Conditions that Backstory reports, each also the builtin exception that a caller would catch.

Every message says what is wrong, where, and what to do about it.
"""

from __future__ import annotations


class BackstoryError(Exception):
    """Base of every condition that the library reports on purpose."""


class MissingExtraError(BackstoryError, ImportError):
    """A feature is asked for whose packages are not installed; the message names the extra to install."""


class SettingsError(BackstoryError, ValueError):
    """A setting is unknown, missing or invalid; the message names the file and the line."""


class WorkspaceError(BackstoryError, FileNotFoundError):
    """A workspace, or a file that it must hold, is not there or not usable."""


class InputError(BackstoryError, ValueError):
    """An argument or an input file does not have the form that was asked for."""


class ExportError(InputError):
    """A chat export as a whole cannot be read (single bad lines go to quarantine instead)."""


class ExportSettingError(ExportError):
    """A chat export can be read once a setting says how; the message names the setting."""


class ReadingLimitError(BackstoryError, RuntimeError):
    """A file takes more time or memory to read than the settings allow, or breaks the process that reads it."""


class DocumentError(InputError):
    """One document's file cannot be read; the message becomes the ``error`` of its row."""


class EmptyDocumentError(DocumentError):
    """A document's file holds no text."""


class UnsupportedTableError(BackstoryError, TypeError):
    """A table of a kind that is not accepted was passed; the message says what to pass."""


class ContractError(BackstoryError, ValueError):
    """A table breaks its contract (schema, uniqueness, or a reference to another table)."""


class ModelError(BackstoryError, RuntimeError):
    """A model, on this machine or behind an API, failed or gave an answer that cannot be used."""


class EmbeddingError(ModelError):
    """An embedder failed, or returned vectors that cannot be used."""


class EmbeddingInputError(EmbeddingError, ValueError):
    """A text cannot be embedded as it is, for example because it is over the model's limit."""


class RerankError(ModelError):
    """A reranker failed, or gave an answer that cannot be used."""


class AuthenticationError(ModelError, PermissionError):
    """The provider refused the credentials."""


class QuotaExhaustedError(ModelError):
    """A quota that does not refill soon (per day) is used up; the run can be resumed later."""


class ModelFileError(ModelError):
    """A model's files are absent, unusable, or differ from what their checksum promises."""


class CacheFileError(EmbeddingError):
    """The file of computed vectors is damaged, foreign, or cannot be used."""


class SearchIndexError(BackstoryError, RuntimeError):
    """A search index cannot be built, opened or searched."""


class NoIndexError(SearchIndexError, FileNotFoundError):
    """No snapshot of the search index has been published yet."""


class EmbedderMismatchError(SearchIndexError, ValueError):
    """Queries and index come from different embedding spaces."""


class PrivacyError(BackstoryError, PermissionError):
    """A real name passed the point where only pseudonyms are allowed."""
