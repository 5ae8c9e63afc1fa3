"""PDF files become documents whose pages, title and date are exact; every other one says why not."""

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pypdf
import pytest

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.pdf import read_pdf
from backstory.ingest.documents.formats.properties import read_pdf_date, read_title
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.ingest.documents.reader import READERS, read_document
from backstory.settings.inputs import DocumentSettings
from tests.ingest.documents.hostile_pdf_files import PAGE, protect
from tests.ingest.documents.pdf_files import make_pdf, make_right_to_left, make_scan, write_lines

READER = next(reader for reader in READERS if reader.name == "pdf")
WITHOUT_OCR = DocumentSettings(ocr="off")


def read(content: bytes) -> ParsedDocument:
    document = read_document(READER, content, "a.pdf", WITHOUT_OCR)
    assert document is not None
    return document


def list_pages(document: ParsedDocument) -> list[str]:
    ends = [*document.page_starts[1:], len(document.text) + 2]
    return [document.text[start : end - 2] for start, end in zip(document.page_starts, ends, strict=True)]


def test_every_page_is_an_exact_slice_also_a_blank_one() -> None:
    texts = ["", "First", "", "", "Second", ""]
    document = read(make_pdf([write_lines(text) if text else b"" for text in texts]))
    assert document.text == "\n\nFirst\n\n\n\n\n\nSecond\n\n"
    assert list_pages(document) == texts
    assert document.page_starts == (0, 2, 9, 11, 13, 21)
    assert (document.chunker, document.confidences, document.unread) == ("page", (), None)


def test_lines_stay_and_hyphens_at_their_ends_go() -> None:
    lines = ("An exam-", "ple of (COVID-", "19) \\ and", "a \u201cwell-", "being\u201d of", "some")
    document = read(make_pdf([write_lines(*lines)]))
    joined = "An example of (COVID-19) \\ and a \u201cwell-being\u201d of some"
    assert " ".join(document.text.split()) == joined


def test_title_and_date_are_those_of_the_document_information() -> None:
    stated = {
        "Title": " Bread  and\tsalt ",
        "CreationDate": "D:20240102030405+02'00'",
        "ModDate": "D:20240203",
    }
    document = read(make_pdf([write_lines("Text")], information=stated))
    assert document.title == "Bread and salt"
    assert document.published_at is None
    assert document.change.moment == datetime(2024, 2, 3)
    document = read(make_pdf([write_lines("Text")], information={"Title": "Microsoft Word - x.doc"}))
    assert (document.title, document.change.moment) == (None, None)


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


def test_right_to_left_text_is_read_in_order() -> None:
    document = read(make_right_to_left("decb", "CAB x"))
    assert list_pages(document)[0] == "שלום"
    assert list_pages(document)[1].startswith("سلام"), "the two letters of a ligature stay in their order"


def test_pages_from_right_to_left_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[pypdf.PdfReader] = []

    class Counted(pypdf.PdfReader):
        def __init__(self, file: BinaryIO) -> None:
            opened.append(self)
            super().__init__(file)

    monkeypatch.setattr(pypdf, "PdfReader", Counted)
    assert read_pdf(make_right_to_left("decb", "decb", "decb")).texts == ("שלום",) * 3
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("content", "kind", "reason"),
    [
        (protect("secret"), ReadError, "it is protected by a password or a certificate; save a copy without"),
        (PAGE[:900], ReadError, "the PDF is damaged or incomplete; copy, write or export it again"),
        (
            b"Hello",
            ReadError,
            "this is no PDF, or its beginning is missing; give the file its right ending",
        ),
        (b"", ReadError, "the file is empty; export it again, or remove it"),
        (make_pdf([b"", b""]), ReadError, "all its pages are blank; put text into it"),
        (make_scan([None], "Hello"), ReadError, "page 1 holds only images; set `documents: {ocr: auto}`"),
    ],
    ids=["locked", "damaged", "foreign", "empty", "blank", "scanned"],
)
def test_what_cannot_be_read_is_told_apart(content: bytes, kind: type[ReadError], reason: str) -> None:
    with pytest.raises(ReadError) as caught:
        read(content)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(reason)


def test_a_file_that_is_encrypted_without_a_password_is_read() -> None:
    assert read(protect("")).text == "Hello"


def test_text_pages_are_served_and_scanned_pages_are_named() -> None:
    text = write_lines("Text")
    document = read(make_scan([text, text, None, text, None, None, None], "Hello"))
    assert document.text.replace("\n", "") == "TextTextText"
    assert len(document.page_starts) == 7
    assert document.unread == (
        "pages 3 and 5-7 hold only images; set `documents: {ocr: auto}` to have their text recognised"
    )


def test_a_scan_with_a_stamp_is_a_scan() -> None:
    scan = b"q 612 0 0 792 0 0 cm /Scan Do Q "
    document = read(make_scan([scan + write_lines("page 1 of 9"), scan + write_lines("x" * 80)], "Hello"))
    assert document.unread is not None
    assert document.unread.startswith("page 1 holds only images")
    assert document.text.startswith("page 1 of 9")


def test_pages_that_are_not_in_the_file_are_said() -> None:
    document = read(PAGE.replace(b"/Count 1", b"/Count 7"))
    assert (document.text, document.page_starts) == ("Hello", (0,))
    assert document.unread == "pages 2-7 cannot be read: the file is damaged; write or export it again"


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


def test_pages_are_numbered_as_in_a_real_file(pdfs: Path) -> None:
    document = read((pdfs / "multi_page.pdf").read_bytes())
    assert all(one < other for one, other in itertools.pairwise(document.page_starts))
    assert list_pages(document)[0].startswith("The Evolution of the Word Processor")


def test_what_is_filled_into_a_form_is_read() -> None:
    widget = b"<< /Type /Annot /Subtype /Widget /Rect [72 600 300 620] /P 200 0 R /F 4 "
    extra = {
        1: b"<< /Type /Catalog /Pages 2 0 R /AcroForm << /Fields [100 0 R 101 0 R 102 0 R] /DA (/F1 11 Tf) >> >>",
        100: widget + b"/FT /Tx /T (bed) /V (Bed seven) >>",
        101: widget + b"/FT /Tx /T (form[0].f1[0]) /V (Two rows of leeks) >>",
        102: widget + b"/FT /Tx /T (empty) >>",
    }
    content = make_pdf([write_lines("Wishes")], extra=extra)
    content = content.replace(b"/MediaBox", b"/Annots [100 0 R 101 0 R 102 0 R] /MediaBox")
    assert read(content).text == "Wishes\nbed: Bed seven\nTwo rows of leeks"
