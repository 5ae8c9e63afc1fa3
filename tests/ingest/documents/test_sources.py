"""Every file of the folder of documents ends with a row that says what became of it."""

import re
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.settings.inputs import DocumentSettings
from backstory.storage.tables.contracts import validate
from backstory.storage.tables.schemas import Sources
from tests.ingest.documents.document_files import Write, make_writer, read_documents, states

DEFAULTS = DocumentSettings()
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"


@pytest.fixture
def write(open_folder: Path) -> Write:
    """Give a function that writes files into a folder of documents that everyone may enter."""
    return make_writer(open_folder)


def test_a_document_has_its_date_format_and_encoding(write: Write) -> None:
    found = read_documents(write({"b/a.md": "---\ndate: 2024-05-01\n---\nText"}), DEFAULTS)
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    assert validate(found.sources, Sources).to_dicts() == [
        {
            "source": "posts/b/a.md", "folder": "documents", "status": "read", "format": "markdown", "reason": None,
            "rows": 1, "unread": 0, "first": moment, "last": moment, "encoding": "utf-8", "date_order": None,
            "timezone": None, "language": None,
        }
    ]  # fmt: skip


def test_a_guessed_encoding_is_said_on_every_run(write: Write) -> None:
    content = "---\ndate: 2024-05-01\n---\nDas Bewässerungsrohr".encode("cp1252")
    folder = write({"a.md": content})
    first = read_documents(folder, DEFAULTS)
    second = read_documents(folder, DEFAULTS, first.documents, previous_reading=first.reading)
    for found in (first, second):
        assert found.sources["encoding"].to_list() == ["cp1252"]
        assert states(found)["posts/a.md"] == (
            "read",
            "it is not UTF-8 and was read as cp1252; save it as UTF-8 if names or texts look wrong",
        )


@pytest.mark.parametrize(
    ("uri", "content", "status", "reason"),
    [
        ("a.md", "Text", "read", "it states no date; `rag: {undated: hide}`"),
        ("2024-05-01-a.md", "Text", "read", None),
        ("a.md", "---\nupdated: 2024-05-01\n---\nText", "read", None),
        ("a.md", "", "empty", "there is no text after the front matter"),
        ("a.md", "---\ntitle: A\n---\n\n", "empty", "there is no text after the front matter"),
        ("a.md", "---\ndate: soon\n---\nText", "failed", "the field date is not a date; write it as"),
        ("2024-02-30-a.md", "Text", "read", "it states no date"),
        ("a.md", b"Text \xff", "failed", "not UTF-8 text; save the file as UTF-8"),
        ("a.md", PDF, "unsupported", "this is a PDF file, although its name says otherwise; give it the ending"),
        ("a.md", "---\ndraft: true\n---\nText", "ignored", "draft; `documents: {drafts: true}`"),
        ("_drafts/a.md", "Text", "ignored", "draft; "),
        ("x/_drafts/y/2024-02-30-a.md", "---\nx: [\n---\n", "ignored", "draft; "),
        (".a.md", "Text", "ignored", "hidden file"),
        ("a.pdf", PDF, "failed", "this is no PDF, or it is damaged or incomplete; copy, write or export it again"),
        ("a.mp3", b"ID3", "unsupported", "this is a sound file (Ogg or MP3); to have it read, rename it"),
        ("a", PDF, "unsupported", "this is a PDF file;"),
        ("a.txt", PDF, "unsupported", "this is a PDF file, although its name says otherwise;"),
        ("a.docx", b"PK\x03\x04...", "failed", "the ZIP archive is damaged or not complete"),
        ("a.docx", PDF, "failed", "this is a PDF file, although its name says otherwise; give it the name of its kind"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "unsupported", "this is a file of Microsoft Office before"),
        ("a.GIF", "", "unsupported", "this is a file of a kind that is not read (.gif);"),
        ("a.bin", b"RIFF\0\0\0\0WEBPVP8 ", "unsupported", "this is an image (WebP);"),
        ("a.bin", b"\0\0\0\x18ftypmp42", "unsupported", "this is a video;"),
        ("2024-05-01-a.txt", "Text", "read", None),
        ("a.log", "Text", "unsupported", "this is a file of a kind that is not read (.log);"),
        ("2024-05-01-a.csv", "name,age\nAnn,3\n", "read", None),
        ("2024-05-01-a.jsonl", '{"a": 1}\nnope\n', "read", "1 line left out, the first is line 2: it is not JSON"),
        ("2024-05-01-a.go", "package a\n", "read", None),
        ("2024-05-01-a.py", "def f(:", "read", None),
        ("a.parquet", b"PAR1 damaged PAR1", "failed", "damaged"),
        ("a.csv", b"PAR1" + b"\0" * 40, "unsupported", "this is"),
        ("a.xyz", "Text", "unsupported", "a file of a kind that is not read (.xyz);"),
        ("README", "Text", "unsupported", "not read (no ending in its name);"),
    ],
)  # fmt: skip
def test_what_became_of_a_file(
    write: Write, uri: str, content: str | bytes, status: str, reason: str | None
) -> None:
    found = read_documents(write({uri: content, "good.md": "---\ndate: 2024-05-01\n---\nText"}), DEFAULTS)
    states_of = states(found)
    assert states_of.pop("posts/good.md") == ("read", None)
    [(source, (found_status, found_reason))] = states_of.items()
    assert (source, found_status) == (f"posts/{uri}", status)
    assert reason in found_reason if reason and found_reason else found_reason is reason
    assert found.sources["rows"].sum() == 1 + (status == "read")
    served = found.documents.filter(status="ok")["uri"].to_list()
    assert (uri in served) == (status == "read")


def test_a_hidden_folder_is_one_row_and_what_belongs_to_something_else_none(write: Write) -> None:
    folder = write(
        dict.fromkeys(["a.md", ".git/x/a.md", "data/hits/a.md", "backstory.yaml", "chats/a.md"], "T")
    )
    apart = [folder / "data", folder / "backstory.yaml", folder / "chats", folder]
    found = read_documents(folder, DocumentSettings(folder="."), apart=apart)
    assert {source: status for source, (status, _) in states(found).items()} == {
        ".git/": "ignored",
        "a.md": "read",
    }
    assert found.documents["uri"].to_list() == ["a.md"]


def test_what_the_pattern_leaves_out_is_named(write: Write) -> None:
    folder = write(dict.fromkeys(["a.md", "notes/a.md"], "Text"))
    found = read_documents(folder, DocumentSettings(pattern="notes/*"))
    assert states(found)["posts/a.md"] == ("ignored", "`documents: {pattern: notes/*}` leaves it out")


def test_drafts_are_served_where_a_setting_says_so(write: Write) -> None:
    folder = write({"a.md": "---\ndraft: true\n---\nText", "_drafts/b.md": "Text", "c.md": "Text"})
    with_drafts, without = (
        read_documents(folder, DocumentSettings(drafts=drafts)) for drafts in (True, False)
    )
    assert with_drafts.documents["uri"].to_list() == ["_drafts/b.md", "a.md", "c.md"]
    assert without.documents["uri"].to_list() == ["c.md"]


def test_a_published_document_that_becomes_a_draft_is_withdrawn(write: Write) -> None:
    first = read_documents(write({"a.md": "Text"}), DEFAULTS)
    folder = write({"a.md": "---\ndraft: true\n---\nText"})
    second = read_documents(folder, DEFAULTS, first.documents, previous_reading=first.reading)
    assert second.documents["status"].to_list() == ["deleted"]


def test_it_is_said_that_an_earlier_version_is_still_served(write: Write) -> None:
    first = read_documents(write({"a.md": "Text"}), DEFAULTS)
    found = read_documents(write({"a.md": b"Text \xff"}), DEFAULTS, first.documents)
    status, reason = states(found)["posts/a.md"]
    assert status == "failed"
    assert str(reason).endswith("save the file as UTF-8; until then its last readable version is served")


@pytest.mark.parametrize("named", ["file", "folder", "posts"])
def test_what_may_not_be_read_is_a_row_and_stops_nothing(
    write: Write, shut: Callable[[Path, int], AbstractContextManager[None]], named: str
) -> None:
    folder = write(
        {"a.md": "---\ndate: 2024-05-01\n---\nText", "b/c.md": "Text", "d.md": "Text", "e.mp3": b"ID3"}
    )
    first = read_documents(folder, DEFAULTS)
    with shut({"file": folder / "d.md", "folder": folder / "b", "posts": folder}[named], 0):
        found = read_documents(folder, DEFAULTS, first.documents, previous_reading=first.reading)
        fresh = read_documents(folder, DEFAULTS)
    failed = {source: reason for source, (status, reason) in states(found).items() if status == "failed"}
    source = {"file": "posts/d.md", "folder": "posts/b/", "posts": "posts"}[named]
    assert set(failed) == {source}
    assert re.search(r"cannot (be read|list this folder) \(Permission denied\)", str(failed[source]))
    served = found.documents.filter(status="ok")["uri"].to_list()
    assert served == ["a.md", "b/c.md", "d.md"], "what was known of files that cannot be looked at stays"
    assert len(fresh.documents.filter(status="ok")) == {"file": 2, "folder": 2, "posts": 0}[named]


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "posts").write_text("Text", encoding="utf-8")
    [(source, (status, reason))] = states(read_documents(tmp_path / "posts", DEFAULTS)).items()
    assert (source, status) == ("posts", "failed")
    assert "cannot list this folder (Not a directory)" in str(reason)


NAMES = st.sampled_from(
    ["a.md", ".a.md", "b.pdf", "c", "2024-05-01-d.md", "2024-02-30-e.md", "f.txt", "g.MD"]
)
FOLDERS = st.lists(st.sampled_from(["x", ".y", "_drafts", "2024"]), max_size=3).map("/".join)
CONTENTS = st.sampled_from(
    [b"Text", b"", b"---\ndraft: yes\n---\nText", b"Text \xff", PDF, b"---\na: [\n---\n", b"#tag"]
)


@given(
    files=st.dictionaries(
        st.builds(lambda folder, name: f"{folder}/{name}".lstrip("/"), FOLDERS, NAMES), CONTENTS
    ),
    settings=st.builds(
        DocumentSettings, pattern=st.sampled_from(["**/*", "*.md", "x/**/*.md"]), drafts=st.booleans()
    ),
)
def test_every_file_has_exactly_one_row(files: dict[str, bytes], settings: DocumentSettings) -> None:
    with tempfile.TemporaryDirectory() as place:
        for uri, content in files.items():
            path = Path(place) / uri
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        found = read_documents(Path(place), settings)
    sources = validate(found.sources, Sources)["source"].to_list()
    for uri in files:
        rows = [
            source
            for source in sources
            if source == f"posts/{uri}" or (source.endswith("/") and f"posts/{uri}".startswith(source))
        ]
        assert len(rows) == 1, (uri, sources)
    read = found.sources.filter(status="read")["source"].str.strip_prefix("posts/").to_list()
    assert read == found.documents.filter(status="ok")["uri"].to_list()
    undated = found.documents.filter(pl.col("status") == "ok", pl.col("published_at").is_null())[
        "uri"
    ].to_list()
    assert found.sources.filter(pl.col("reason").str.contains("states no date"))["source"].to_list() == [
        f"posts/{uri}" for uri in undated
    ]
