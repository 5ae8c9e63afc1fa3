"""Catalog entries of the exports: the files that the tables were built from, and how they were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from backstory.base.ids import digest, digest_json
from backstory.ingest.chats.export_files import ExportFile
from backstory.ingest.chats.export_parts import conversation_of
from backstory.pipeline.chats.exports_reading import Reading
from backstory.pipeline.incremental.fingerprints import code_version
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry

_FILES: Final = "exports_read"


def hash_exports(workspace: Workspace, files: Sequence[ExportFile]) -> str:
    """Hash the exports and how they are read, but not which messages are archived or forgotten."""
    return digest([hash_reading(workspace), *(_sign(workspace, file) for file in files)])


def hash_reading(workspace: Workspace) -> str:
    """Hash everything except an export's bytes that decides how its messages are read."""
    settings = workspace.settings
    no_reading = {"folder", "removals", "read_seconds", "read_megabytes"}
    how = settings.conversations.model_dump(mode="json", exclude=no_reading)
    for override in how["overrides"].values():
        del override["removals"]
    privacy = settings.privacy.model_dump(mode="json")
    return digest([code_version("messages"), digest_json(how), digest_json(privacy)], length=16)


def list_unchanged(workspace: Workspace, reading: Reading, files: Sequence[ExportFile]) -> list[str]:
    """Return the sources, as named in the table, that are byte-identical to the last complete run."""
    known = workspace.catalog.read(_FILES)
    same = [
        file.source
        for file in files
        if (entry := known.get(_key(file))) is not None and entry.inputs == _sign(workspace, file)
    ]
    return reading.origins.filter(pl.col("file").is_in(same))["source"].to_list()


def are_stored_as_read_now(workspace: Workspace) -> bool:
    """Check whether the exports of the last complete run were read with the present settings and code."""
    how = hash_reading(workspace)
    entries = workspace.catalog.read(_FILES).values()
    return bool(entries) and all(entry.content == how for entry in entries)


def forget_changed(workspace: Workspace, files: Sequence[ExportFile]) -> None:
    """Record before the first write that the tables will no longer match files that have changed since."""
    known = workspace.catalog.read(_FILES)
    signatures = {_key(file): _sign(workspace, file) for file in files}
    workspace.catalog.forget(
        _FILES, [key for key, entry in known.items() if signatures.get(key) != entry.inputs]
    )


def record_files(workspace: Workspace, files: Sequence[ExportFile], partitions: Sequence[str]) -> None:
    """Record after the last write which files the tables match, if every partition with messages was written."""
    if set(workspace.tables.keys("messages")) <= set(partitions):
        how = hash_reading(workspace)
        entries = {_key(file): Entry(_sign(workspace, file), how, 0) for file in files if file.sha256}
        workspace.catalog.record(_FILES, entries)


def _sign(workspace: Workspace, file: ExportFile) -> str:
    settings = workspace.settings.conversations.override(file.source, conversation_of(file.source))
    return f"{file.sha256} {settings.removals}"


def _key(file: ExportFile) -> str:
    return digest([file.source], length=16)  # names of files can be names of people
