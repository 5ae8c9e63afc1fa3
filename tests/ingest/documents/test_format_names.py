"""Every format of documents has a name for people."""

from backstory.ingest.documents.file_kinds import FORMAT_NAMES, list_formats
from backstory.ingest.documents.reader import READERS


def test_every_reader_has_a_name_and_each_is_listed_once() -> None:
    assert {reader.format for reader in READERS} == set(FORMAT_NAMES)
    assert list_formats(["pdf", "odt", "odp", "of_a_plugin"]) == "PDF, OpenDocument, of_a_plugin"
