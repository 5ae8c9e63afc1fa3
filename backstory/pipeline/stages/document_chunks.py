"""The stage of the table ``document_chunks``: documents cut into chunks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import polars as pl

from backstory.base.environment import SETTINGS_FILE
from backstory.base.errors import SettingsError
from backstory.base.ids import digest
from backstory.index.chunks import cut_document_chunks
from backstory.ingest.documents.reader import READERS
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.incremental.partitions import (
    content_of,
    is_made_by_this_code,
    read_previous,
    read_table_rows,
)
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.stages.stage import TableStage
from backstory.storage.tables.tables import WHOLE


class DocumentChunksStage(TableStage):
    """Cuts the searched documents into chunks. Unchanged revisions keep their chunks."""

    table = "document_chunks"
    reads = ("documents",)
    partitioned = False

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Hash the documents and the settings."""
        contents = content_of(self.workspace, "documents", [WHOLE])
        return {WHOLE: digest([hash_dependencies(self.workspace, "document_chunks"), contents[WHOLE]])}

    def compute(self, partitions: list[str]) -> Mapping[str, pl.DataFrame]:  # noqa: ARG002 - there is one
        """Cut the documents whose chunks are not known."""
        workspace, embedder = self.workspace, self.workspace.embedder
        previous = read_previous(workspace, "document_chunks")
        chunks = cut_document_chunks(
            read_table_rows(workspace, "documents", [WHOLE]),
            workspace.settings.chunks,
            max_tokens=embedder.max_input_tokens,
            count_tokens=embedder.count_tokens,
            counter_id=embedder.id,
            previous=previous if is_made_by_this_code(workspace, "document_chunks") else None,
        )
        self.counts["kept"] = (
            0 if previous is None else chunks.join(previous, on="chunk_id", how="semi").height
        )
        self.counts["tokens"] = int(chunks["token_count"].sum())
        return {WHOLE: chunks}

    def build(self) -> StageResult:
        """Build the table.

        Raises:
            SettingsError: The setting ``chunks.chunkers`` names a format that no reader has.
        """
        _require_formats(self.workspace.settings.chunks.chunkers)
        return super().build()


def _require_formats(formats: Iterable[str]) -> None:
    known = sorted({reader.format for reader in READERS})
    unknown = sorted(set(formats) - set(known))
    if unknown:
        raise SettingsError(
            f"{SETTINGS_FILE}: chunks.chunkers names {', '.join(unknown)}, which no reader reads; the formats are "
            f"{', '.join(known)}",
            code="unknown_format",
        )
