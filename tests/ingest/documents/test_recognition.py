"""Text in scans and images is recognised where Tesseract is installed; elsewhere it is said what to install."""

import re
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from backstory.ingest.documents.pages import INSTALL, parse_pages
from backstory.ingest.documents.reader import DOCUMENT_FORMATS, DocumentRead, read_document
from backstory.settings.inputs import DocumentSettings
from tests.ingest.documents.document_files import Write, make_writer, read_documents, states
from tests.ingest.documents.pdf_files import make_pdf, make_png, make_scan, put_program, write_lines

PDF = next(reader for reader in DOCUMENT_FORMATS if reader.name == "pdf")
DEFAULTS = DocumentSettings()
LINES = ("The oven is hot and the", "bread is good today")
HEADER = "level\tpage_num\tblock_num\tpar_num\tline_num\tword_num\tleft\ttop\twidth\theight\tconf\ttext"
LANGUAGES = (
    'case "$1" in --version) echo "tesseract 5.0"; exit;; --list-langs) echo "List"; echo eng; exit;; esac'
)

needs_tesseract = pytest.mark.skipif(shutil.which("tesseract") is None, reason="Tesseract is not installed")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return make_writer(tmp_path)


@pytest.fixture
def no_tesseract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Give an empty folder that is first in the ``PATH``, and take the programs of the machine out of it."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def read_again(folder: Path, settings: DocumentSettings, before: DocumentRead) -> DocumentRead:
    return read_documents(folder, settings, before.documents, previous_reading=before.reading)


def texts(read: DocumentRead) -> dict[str, str]:
    return dict(read.documents.filter(status="ok").select("uri", "text").iter_rows())


@needs_tesseract
def test_scans_and_images_are_read(write: Write) -> None:
    read = read_documents(
        write(
            {
                "mixed.pdf": make_scan([write_lines("Typed"), None, b""], *LINES),
                "scan.pdf": make_scan([None], *LINES),
                "photo.png": make_png(*LINES),
                "blank.png": make_png(""),
            }
        ),
        DEFAULTS,
    )
    found = {uri: text.split() for uri, text in texts(read).items()}
    words = " ".join(LINES).split()
    assert found == {"mixed.pdf": ["Typed", *words], "scan.pdf": words, "photo.png": words}
    assert states(read)["posts/blank.png"][0] == "empty"


@pytest.mark.parametrize(
    ("script", "settings", "reason"),
    [
        (None, DEFAULTS, INSTALL),
        ("exit 1", DEFAULTS, INSTALL),
        ("exit 1", DocumentSettings(ocr="off"), "set `documents: {ocr: auto}`"),
        (
            LANGUAGES,
            DocumentSettings(ocr_languages=("eng", "deu", "chi_sim")),
            "Tesseract lacks deu, chi_sim (`documents.ocr_languages`)",
        ),
    ],
    ids=["absent", "broken", "off", "languages"],
)
def test_why_no_text_is_recognised_is_said(
    write: Write, no_tesseract: Path, script: str | None, settings: DocumentSettings, reason: str
) -> None:
    if script is not None:
        put_program(no_tesseract, script)
    files = {
        "scan.pdf": make_scan([None], *LINES),
        "photo.png": make_png("A"),
        "text.pdf": make_pdf([write_lines("A")]),
    }
    told = states(read_documents(write(files), settings))
    assert told["posts/scan.pdf"] == told["posts/photo.png"]
    assert told["posts/scan.pdf"][0] == "needs_ocr"
    assert str(told["posts/scan.pdf"][1]).startswith(f"page 1 holds only images; {reason}")
    assert told["posts/text.pdf"][0] == "read"


@needs_tesseract
def test_a_scan_is_read_once_tesseract_is_installed(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(
        {"scan.pdf": make_scan([None], *LINES), "mixed.pdf": make_scan([write_lines("Typed"), None], *LINES)}
    )
    with monkeypatch.context() as patched:
        patched.setenv("PATH", str(tmp_path))
        before = read_documents(folder, DEFAULTS)
    assert states(before)["posts/scan.pdf"][0] == "needs_ocr"
    assert texts(before).keys() == {"mixed.pdf"}
    after = read_again(folder, DEFAULTS, before)
    fresh = read_documents(folder, DEFAULTS)
    assert texts(after) == texts(fresh)
    assert "oven" in texts(after)["mixed.pdf"]
    assert states(after) == states(fresh)
    assert states(after)["posts/scan.pdf"][0] == "read"


@needs_tesseract
def test_an_unchanged_image_that_is_not_recognised_any_more_is_not_said_to_be_served(write: Write) -> None:
    folder = write({"scan.pdf": make_scan([None], *LINES)})
    before = read_documents(folder, DEFAULTS)
    off = read_again(folder, DocumentSettings(ocr="off"), before)
    assert not texts(off)
    assert states(off) == states(read_documents(folder, DocumentSettings(ocr="off")))


@pytest.mark.parametrize("name", ["--version", "../eng", "eng+deu", ""])
def test_a_name_that_is_no_language_is_refused(name: str) -> None:
    with pytest.raises(ValidationError) as raised:
        DocumentSettings(ocr_languages=(name,))
    assert {problem["loc"][0] for problem in raised.value.errors()} == {"ocr_languages"}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param("while :; do :; done", "processor time", id="loop", marks=pytest.mark.long),
        pytest.param(
            "exit 3",
            r"Tesseract cannot read the image \(exit code 3\)",
            id="exit",
        ),
        pytest.param("kill -SEGV $$", r"Tesseract cannot read the image \(SIGSEGV\)", id="crash"),
    ],
)
def test_whatever_ends_tesseract_costs_one_page(
    write: Write, no_tesseract: Path, script: str, reason: str
) -> None:
    put_program(no_tesseract, f"{LANGUAGES}\n{script}")
    settings = DocumentSettings(read_seconds=1)
    mixed = make_scan([write_lines("Typed"), None], "A")
    document = read_document(PDF, mixed, "mixed.pdf", settings)
    assert (document.text, document.confidences) == ("Typed\n\n", ())
    assert re.match(f"page 2 holds only images; .*{reason}", document.unread or "")
    read = read_documents(write({"mixed.pdf": mixed, "photo.png": make_png("A")}), settings)
    assert states(read)["posts/photo.png"][0] == "failed"
    assert texts(read) == {"mixed.pdf": "Typed\n\n"}


def test_a_photograph_without_text_is_looked_at_once(
    write: Write, no_tesseract: Path, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    put_program(no_tesseract, f"{LANGUAGES}\necho x >> {calls}\n/bin/cat >/dev/null\nprintf '{HEADER}\\n'")
    folder = write({"photo.png": make_png("A", dpi=20)})
    first = read_documents(folder, DEFAULTS)
    second = read_again(folder, DEFAULTS, first)
    assert states(first) == states(second)
    assert states(first)["posts/photo.png"][0] == "empty"
    assert second.documents.equals(first.documents)
    assert calls.read_text(encoding="utf-8") == "x\n"


def test_a_page_that_exceeded_a_limit_is_tried_again_with_another(write: Write, no_tesseract: Path) -> None:
    script = "echo x; while :; do :; done"
    put_program(no_tesseract, f"{LANGUAGES}\n{script}")
    folder = write({"mixed.pdf": make_scan([write_lines("Typed"), None, None], "A")})
    first = read_documents(folder, DocumentSettings(read_seconds=1))
    assert "page 3 holds only images; at most 500" in str(states(first)["posts/mixed.pdf"][1])
    # A shell that reads the picture itself takes it byte by byte, for seconds.
    put_program(no_tesseract, f"{LANGUAGES}\n/bin/cat >/dev/null\nprintf '{HEADER}\\n'")
    same = read_again(folder, DocumentSettings(read_seconds=1), first)
    more = read_again(folder, DocumentSettings(read_seconds=20), first)
    assert "page 2 holds only images" in str(states(same)["posts/mixed.pdf"][1])
    assert "only images" not in str(states(more)["posts/mixed.pdf"][1])


def test_the_table_of_tesseract_is_read() -> None:
    rows = [
        HEADER,
        "1\t1\t0\t0\t0\t0\t0\t0\t9\t9\t-1\t",
        "5\t1\t1\t1\t1\t1\t0\t0\t9\t9\t90\tThe",
        "5\t1\t1\t1\t1\t2\t0\t0\t9\t9\t80.5\toven",
        "5\t1\t1\t1\t2\t1\t0\t0\t9\t9\t70\tis",
        "5\t1\t1\t2\t1\t1\t0\t0\t9\t9\t60\thot",
        "5\t1\t2\t1\t1\t1\t0\t0\t9\t9\t95\t ",
        "1\t2\t0\t0\t0\t0\t0\t0\t9\t9\t-1\t",
        "a line of something else",
    ]
    assert parse_pages("\n".join(rows)) == [
        ("The oven\nis\n\nhot", 0.751),
        ("", None),
    ]
    assert parse_pages("") == []
