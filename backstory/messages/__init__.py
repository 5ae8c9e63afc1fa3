"""Chat exports to messages: one reader per format, in one registry."""

from backstory.messages.export_files import ExportFile, find_exports
from backstory.messages.export_parts import conversation_of
from backstory.messages.exports import (
    RAW_SCHEMA,
    Command,
    ExportRead,
    read_export,
    read_exports,
    read_listed_exports,
    replace_sources,
)
from backstory.messages.file_reading import READERS
from backstory.messages.last_reading import LastReading
from backstory.messages.message_ids import assign_message_ids
from backstory.messages.reader import ExportReader, ParsedExport

__all__ = [
    "RAW_SCHEMA",
    "READERS",
    "Command",
    "ExportFile",
    "ExportRead",
    "ExportReader",
    "LastReading",
    "ParsedExport",
    "assign_message_ids",
    "conversation_of",
    "find_exports",
    "read_export",
    "read_exports",
    "read_listed_exports",
    "replace_sources",
]
