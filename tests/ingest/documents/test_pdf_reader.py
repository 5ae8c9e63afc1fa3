"""PDF files become documents whose pages, title and date are exact; every other one says why not."""

from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pypdf
import pytest

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.pdf import read_pdf
from backstory.ingest.documents.metadata import ParsedDocument, read_pdf_date, read_title
from backstory.ingest.documents.reader import DOCUMENT_FORMATS, read_document
from backstory.settings.inputs import DocumentSettings
from tests.ingest.documents.pdf_files import make_right_to_left

READER = next(reader for reader in DOCUMENT_FORMATS if reader.name == "pdf")
WITHOUT_OCR = DocumentSettings(ocr="off")


def read(content: bytes) -> ParsedDocument:
    return read_document(READER, content, "a.pdf", WITHOUT_OCR)


def list_pages(document: ParsedDocument) -> list[str]:
    ends = [*document.page_starts[1:], len(document.text) + 2]
    return [document.text[start : end - 2] for start, end in zip(document.page_starts, ends, strict=True)]


@pytest.mark.parametrize(
    ("stated", "title"),
    [
        ("Bread", "Bread"),
        ("Microsoft Word - The oven", "The oven"),
        ("Microsoft Word - oven.doc", None),
        ("PowerPoint Presentation", None),
        ("untitled", None),
        ("(anonymous)", None),
        ("(unspecified)", None),
        ("Untitled-1", None),
        ("Document1", None),
        ("thesis_final.tex", None),
        ("12345", None),
        ("x" * 301, None),
        ("Slide rules", "Slide rules"),
        ("Notes on node.js", "Notes on node.js"),
        ("a\0b", "a b"),
        ("", None),
    ],
)
def test_what_a_program_puts_for_a_title_is_none(stated: str, title: str | None) -> None:
    assert read_title(stated) == title


@pytest.mark.parametrize(
    ("stated", "moment"),
    [
        ("D:20240822125427Z00'00'", datetime(2024, 8, 22, 12, 54, 27, tzinfo=UTC)),
        ("D:20220403180542+02'00'", datetime(2022, 4, 3, 16, 5, 42, tzinfo=UTC)),
        ("D:20220403180542-0530", datetime(2022, 4, 3, 23, 35, 42, tzinfo=UTC)),
        ("20220403", datetime(2022, 4, 3)),
        ("D:202204031805", datetime(2022, 4, 3, 18, 5)),
        ("D:2022", None),
        ("D:99991231235959", None),
        ("D:20220231", None),
        ("D:19800101000000", None),
        ("D:191000101000000", None),
        ("D:99991231235959-14'00'", None),
        ("D:20220403180542+99'99'", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_are_checked(stated: str, moment: datetime | None) -> None:
    assert read_pdf_date(stated) == moment


def test_pages_from_right_to_left_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[pypdf.PdfReader] = []

    class Counted(pypdf.PdfReader):
        def __init__(self, file: BinaryIO) -> None:
            opened.append(self)
            super().__init__(file)

    monkeypatch.setattr(pypdf, "PdfReader", Counted)
    assert read_pdf(make_right_to_left("decb", "decb", "decb")).text == "שלום\n\nשלום\n\nשלום"
    assert len(opened) == 1


@pytest.fixture
def pdfs(shared_data: Path) -> Path:
    return shared_data / "pdf"


@pytest.mark.parametrize(
    ("name", "pages", "words"),
    [
        ("2305.03393v1-pg9.pdf", 1, ["to perform HPO, since it includes a", "Table 1. HPO"]),
        ("google-doc-document.pdf", 1, ["Although never is often better than *right* now."]),
        ("minimal-document.pdf", 1, ["no sea takimata sanctus est Lorem ipsum"]),
        ("multi_page.pdf", 5, ["The Evolution of the Word Processor", "copies) and"]),
        ("pdflatex-4-pages.pdf", 4, ["\u201cHuardest gefburn\u201d? Kjift \u2013 not at all!"]),
        ("habibi.pdf", 1, ["حَبيبي habibi حَبيبي"]),
        (
            "right_to_left_01.pdf",
            1,
            ["تحسين الإنتاجية وحل المشكلات من خلال البرمجة بلغة R وPython", "أيضًا إلى"],
        ),
    ],
)
def test_real_files_are_read(pdfs: Path, name: str, pages: int, words: list[str]) -> None:
    document = read((pdfs / name).read_bytes())
    assert len(document.page_starts) == pages
    assert all(text.strip() for text in list_pages(document))
    assert [phrase for phrase in words if phrase not in document.text] == []


def test_columns_of_a_real_file_follow_each_other(pdfs: Path) -> None:
    text = read((pdfs / "multicolumn.pdf").read_bytes()).text
    phrases = [
        "two columns filled\nwith Lorem Ipsum text.",
        "consectetuer adipiscing elit. Ut purus elit, vestibulum ut, placerat\nac, adipiscing vitae",
        "Phasellus eu tellus sit amet tortor gravida\nplacerat. Integer sapien est",
    ]
    places = [text.find(phrase) for phrase in phrases]
    assert -1 not in places
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("libreoffice-writer-password.pdf", "protected by a password"), ("grayscale-image.pdf", "only images")],
)
def test_real_files_that_cannot_be_read_are_told_apart(pdfs: Path, name: str, reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        read((pdfs / name).read_bytes())
