"""The main language of each document, detected once for each revision."""

from __future__ import annotations

from typing import Final

import polars as pl

from backstory.base.ids import digest
from backstory.ingest.documents.folder import DocumentRead
from backstory.ingest.documents.written import name_source
from backstory.pipeline.incremental.fingerprints import code_version
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.text.languages import detect_language

REVISION_OF_LANGUAGES: Final = "2"
"""Version of the language detection. Change it when the detection changes."""

_LANGUAGES: Final = "document_languages"


def fill_in_languages(workspace: Workspace, read: DocumentRead) -> pl.DataFrame:
    """Fill in the languages of the files in ``sources``, and forget those of other documents."""
    detected = list_languages(workspace, read.documents, read.reading)
    workspace.catalog.forget(_LANGUAGES, workspace.catalog.read(_LANGUAGES).keys() - detected.keys())
    folder = workspace.settings.documents.folder
    languages = {name_source(folder, uri): language for uri, language in detected.items()}
    language = pl.col("source").replace_strict(languages, default=None, return_dtype=pl.String)
    return read.sources.with_columns(language=pl.when(pl.col("status") == "read").then(language))


def list_languages(workspace: Workspace, documents: pl.DataFrame, reading: str) -> dict[str, str | None]:
    """List the language of each document that can be served, by uri. Only changed documents are detected again."""
    rows = documents.filter(pl.col("status") == "ok").select("uri", "revision", "title", "text").rows()
    versions = [REVISION_OF_LANGUAGES, code_version("documents"), reading]
    inputs = {uri: digest([*versions, revision]) for uri, revision, _, _ in rows}
    recorded = {uri: entry.content for uri, entry in workspace.catalog.read(_LANGUAGES).items()}
    pending = set(workspace.catalog.pending(_LANGUAGES, inputs, recorded))
    detected = {
        uri: Entry(inputs[uri], detect_language([title, text]) or "", 0)
        for uri, _, title, text in rows
        if uri in pending
    }
    workspace.catalog.record(_LANGUAGES, detected)
    known = workspace.catalog.read(_LANGUAGES)
    return {uri: known[uri].content or None for uri in inputs}
