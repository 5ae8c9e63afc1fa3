"""A folder of documents: ids, revisions, tombstones, and that one bad file never stops the others."""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from backstory.base.errors import SettingsError
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument
from backstory.ingest.documents.reader import read_document
from backstory.settings.inputs import DocumentSettings
from backstory.settings.yaml_file import read_settings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Documents, Sources
from backstory.storage.tables.tables import encode_rows
from tests.errors import raises
from tests.ingest.documents.document_files import Write, make_writer, read_documents
from tests.ingest.documents.document_files import states as list_states
from tests.long_tests import some

DEFAULTS = DocumentSettings()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Give a function that writes files into the folder of documents."""
    return make_writer(tmp_path)


def read(
    folder: Path, previous: pl.DataFrame | None = None, settings: DocumentSettings = DEFAULTS
) -> pl.DataFrame:
    found = read_documents(folder, settings, previous)
    documents = validate(found.documents, Documents)
    again = read_documents(folder, settings, documents, previous_reading=found.reading)
    assert again.documents.equals(documents)
    assert encode_rows(again.documents) == encode_rows(documents)
    assert encode_rows(again.sources) == encode_rows(validate(found.sources, Sources))
    return documents


def states(documents: pl.DataFrame) -> list[tuple[str, str, str]]:
    return documents.select("uri", "status", "text").rows()


def test_fields_come_from_the_front_matter_else_the_file_name_else_the_heading(write: Write) -> None:
    folder = write(
        {
            "2025-03-04-by-name.md": "# Heading\n\nText",
            "2024-02-30-given.md": "---\ntitle: T\nslug: s\ndate: 2021-02-03\ntags: a, b\n"
            "kind: note\ntenant: t\n---\nText",
            "plain.MARKDOWN": "Text",
        }
    )
    rows = read(folder).select("uri", "title", "slug", "published_at", "tags", "kind", "tenant").rows()
    given, by_name, plain = rows
    assert given == (
        "2024-02-30-given.md",
        "T",
        "s",
        datetime(2021, 2, 3, tzinfo=UTC),
        ["a", "b"],
        "note",
        "t",
    )
    moment = datetime(2025, 3, 4, tzinfo=UTC)
    assert by_name == ("2025-03-04-by-name.md", "Heading", "by-name", moment, [], "post", "")
    assert plain == ("plain.MARKDOWN", "plain", "plain", None, [], "post", "")


def test_the_id_is_of_the_path_and_the_revision_of_the_content(write: Write) -> None:
    first = read(write({"a.md": "One", "b/a.md": "One"}))
    second = read(write({"a.md": "Two"}), first)
    assert (first["document_id"].n_unique(), first["revision"].n_unique()) == (2, 1)
    assert second.filter(uri="a.md")["document_id"].unique().to_list() == [first["document_id"][0]]
    assert second["revision"].str.len_chars().unique().to_list() == [12]
    assert second.filter(status="superseded")["revision"].item() == first["revision"][0]
    third = read(write({"a.md": "One"}), second)
    assert third.filter(status="ok").equals(first)


BROKEN = b"Text \xff"
Steps = list[tuple[str | bytes | None, list[tuple[str, str]]]]
HISTORIES: dict[str, Steps] = {
    "an earlier content comes back": [
        ("One", [("ok", "One")]),
        ("Two", [("ok", "Two"), ("superseded", "One")]),
        ("One", [("ok", "One"), ("superseded", "Two")]),
        (None, [("deleted", ""), ("superseded", "")]),
        ("One", [("ok", "One"), ("superseded", "")]),
    ],
    "a broken file leaves its last good revision in place": [
        ("One", [("ok", "One")]),
        (BROKEN, [("error", ""), ("ok", "One")]),
        (BROKEN + BROKEN, [("error", ""), ("ok", "One"), ("superseded", "")]),
        ("Two", [("ok", "Two"), ("superseded", ""), ("superseded", ""), ("superseded", "One")]),
    ],
    "a file that was never good leaves a tombstone": [("", [("error", "")]), (None, [("deleted", "")])],
    "what was deleted is not searched again since a broken file took its place": [
        ("One", [("ok", "One")]),
        (None, [("deleted", "")]),
        ("", [("error", ""), ("superseded", "")]),
    ],
}
"""Contents of a file, one after the other, None while it is gone, each with the status and text of its rows."""


@pytest.mark.parametrize("steps", HISTORIES.values(), ids=HISTORIES)
def test_of_each_earlier_content_a_row_is_kept(write: Write, steps: Steps) -> None:
    documents = None
    for content, expected in steps:
        folder = write({"a.md": content or "", "b.md": "Other"})
        if content is None:
            (folder / "a.md").unlink()
        documents = read(folder, documents)
        assert sorted(documents.filter(uri="a.md").select("status", "text").rows()) == expected
        assert states(documents.filter(uri="b.md")) == [("b.md", "ok", "Other")]


def test_only_changed_files_are_parsed(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    uris: list[str] = []

    def count(reader: DocumentFormat, content: bytes, uri: str, settings: DocumentSettings) -> ParsedDocument:
        uris.append(uri)
        return read_document(reader, content, uri, settings)

    monkeypatch.setattr("backstory.ingest.documents.reader.read_document", count)
    folder = write({"a.md": "One", "b.md": "---\ntitle: B\n---\nOther", "c.md": ""})
    first = read_documents(folder, DEFAULTS)
    assert sorted(uris) == ["a.md", "b.md", "c.md"]
    uris.clear()
    write({"a.md": "Two"})
    read_documents(folder, DEFAULTS, first.documents, previous_reading=first.reading)
    assert sorted(uris) == ["a.md", "c.md"]  # a broken file is told of again


@pytest.mark.parametrize(
    "change", [DocumentSettings(kind="note"), DocumentSettings(tenant="team"), DocumentSettings(drafts=True)]
)
def test_another_setting_reaches_unchanged_files(write: Write, change: DocumentSettings) -> None:
    folder = write(
        {
            "a.md": "One",
            "b.md": "---\nkind: page\n---\nTwo",
            "c.md": "---\ntenant: team\n---\nThree",
            "d.md": "---\ndraft: true\n---\nFour",
        }
    )
    first = read_documents(folder, DEFAULTS)
    there = read_documents(folder, change, first.documents, previous_reading=first.reading)
    assert there.reading != first.reading
    assert there.documents.equals(read(folder, settings=change))
    back = read_documents(folder, DEFAULTS, there.documents, previous_reading=there.reading)
    assert back.documents.filter(status="ok").equals(first.documents)


def test_documents_of_an_earlier_way_of_reading_are_parsed_again(write: Write) -> None:
    folder = write({"a.md": "---\ncreated: 2024-05-01\n---\nText", "b.md": "Text"})
    date = pl.lit(datetime(2023, 1, 1), pl.Datetime("us", "UTC"))
    earlier = read(folder).with_columns(published_at=date, date_origin=pl.lit("copied"))
    (folder / "b.md").unlink()
    now = validate(read_documents(folder, DEFAULTS, earlier).documents, Documents)
    assert now["date_origin"].to_list() == ["stated", "changed"]
    assert now["published_at"].to_list() == [
        datetime(2024, 5, 1, tzinfo=UTC),
        datetime(2023, 1, 1, tzinfo=UTC),
    ]


@pytest.mark.parametrize(
    ("pattern", "uris"),
    [
        ("**/*", ["a.md", "b/a.md", "b/c/d.md"]),
        ("**", ["a.md", "b/a.md", "b/c/d.md"]),
        ("*", ["a.md"]),
        ("b/**/*.md", ["b/a.md", "b/c/d.md"]),
        ("**/a.*", ["a.md", "b/a.md"]),
        ("./*/a.md", ["b/a.md"]),
        ("**/c/*", ["b/c/d.md"]),
    ],
)
def test_the_pattern_says_which_files(write: Write, pattern: str, uris: list[str]) -> None:
    folder = write(dict.fromkeys(["a.md", "b/a.md", "b/c/d.md"], "Text"))
    assert read(folder, settings=DocumentSettings(pattern=pattern))["uri"].to_list() == uris


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "a/../../b", ""])
def test_a_pattern_outside_the_folder_is_a_settings_error_with_its_line(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "backstory.yaml"
    path.write_text(f'documents:\n  folder: posts\n  pattern: "{pattern}"\n', encoding="utf-8")
    with raises(SettingsError, "invalid_setting", 3, "documents.pattern"):
        read_settings(path)


def test_a_file_whose_name_is_not_utf8_fails(write: Write) -> None:
    folder = write({"a.md": "Text"})
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.md")).write_text("Text", encoding="utf-8")
    found = read_documents(folder, DEFAULTS)
    assert found.documents["uri"].to_list() == ["a.md"]
    status, reason = list_states(found)["posts/caf\\xe9.md"]
    assert (status, "not UTF-8; rename the file" in str(reason)) == ("failed", True)


def test_a_folder_that_is_not_there_holds_no_documents(write: Write) -> None:
    folder = write({"a.md": "Text"})
    documents = read(folder)
    (folder / "a.md").unlink()
    folder.rmdir()
    gone = read_documents(folder, DEFAULTS, documents)
    assert gone.sources.is_empty()
    assert states(gone.documents) == [("a.md", "deleted", "")]


CONTENTS = st.sampled_from(["One", "# Two\n\nText", "---\nkind: page\n---\nThree", "", "---\na: [\n---\nx"])
URIS = st.sampled_from(["a.md", "b/a.md", "2025-01-02-c.md"])


class FolderHistory(RuleBasedStateMachine):
    """Edits, deletions and restorations in any order."""

    folder: Path

    @initialize()
    def begin(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.documents: pl.DataFrame | None = None
        self.files: dict[str, str] = {}
        self.good: dict[str, str] = {}

    def teardown(self) -> None:
        self.temporary.cleanup()

    @rule(uri=URIS, content=CONTENTS)
    def write(self, uri: str, content: str) -> None:
        path = self.folder / uri
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
        self.files[uri] = content

    @precondition(lambda self: self.files)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        uri = data.draw(st.sampled_from(sorted(self.files)))
        (self.folder / uri).unlink()
        del self.files[uri]

    @invariant()
    def the_table_tells_of_the_folder(self) -> None:
        if not hasattr(self, "files"):
            return
        before = self.documents
        self.documents = read(self.folder, before)
        fresh = read(self.folder)
        for uri in {*self.files, *self.good}:
            rows = self.documents.filter(uri=uri)
            counts = dict(rows["status"].value_counts().iter_rows())
            assert all(count == 1 for status, count in counts.items() if status != "superseded")
            now = fresh.filter(uri=uri)
            if uri not in self.files:
                self.good.pop(uri, None)
                assert counts.get("deleted") == 1
                assert not {"ok", "error"} & counts.keys()
            elif now["status"].item() == "ok":
                self.good[uri] = now["text"].item()
                assert rows.filter(status="ok").equals(now)
                assert not {"error", "deleted"} & counts.keys()
            else:
                assert rows.filter(status="error").equals(now)
                assert rows.filter(status="ok")["text"].to_list() == [
                    self.good[name] for name in self.good if name == uri
                ]
        if before is not None:
            kept = before.select("document_id", "revision").join(
                self.documents, on=["document_id", "revision"], how="anti"
            )
            assert kept.is_empty()


TestFolderHistory = FolderHistory.TestCase
TestFolderHistory.settings = hypothesis_settings(deadline=None, max_examples=some(10), stateful_step_count=10)
