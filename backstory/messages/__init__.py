"""Chat exports as messages: one reader per format, behind one registry."""

from backstory.messages.exports import (
    RAW_SCHEMA,
    READERS,
    ExportFile,
    ExportRead,
    ReadSource,
    conversation_of,
    find_exports,
    read_export,
    read_exports,
)
from backstory.messages.message_ids import assign_message_ids
from backstory.messages.reader import ExportReader, ParsedExport

__all__ = [
    "RAW_SCHEMA",
    "READERS",
    "ExportFile",
    "ExportRead",
    "ExportReader",
    "ParsedExport",
    "ReadSource",
    "assign_message_ids",
    "conversation_of",
    "find_exports",
    "read_export",
    "read_exports",
]
