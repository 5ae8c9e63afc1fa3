"""Word, PowerPoint, Excel, OpenDocument and e-books: what is read of them."""

import sys
from datetime import UTC, datetime

import pytest

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.tables import show_number
from backstory.ingest.documents.metadata import ParsedDocument
from backstory.ingest.documents.reader import find_document_format, name_reading
from backstory.settings.inputs import DocumentSettings
from tests.errors import raises
from tests.ingest.documents.office_files import (
    book_parts,
    make_zip,
    open_parts,
    paragraph,
    sheet_parts,
    slide_parts,
    word_parts,
    write_rows,
)

MAY = datetime(2024, 5, 1, 10, tzinfo=UTC)


def read(uri: str, parts: dict[str, str | bytes]) -> ParsedDocument:
    reader = find_document_format(uri)
    assert reader is not None
    content = make_zip(parts)
    assert reader.find_encoding is None
    document = reader.read(content, uri)
    assert document == reader.read(content, uri)
    return document


WORD = word_parts(paragraph("Text"))


def test_a_file_that_repeats_a_text_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.ingest.documents.formats.package.MOST_CHARACTERS", 20)
    with raises(ReadError, "too_large"):
        read("a.xlsx", sheet_parts(Beds=write_rows([["aa", "bb"], *[[1, 2]] * 9])))


OPF = ' xmlns:opf="http://www.idpf.org/2007/opf" opf:event="{}"'


@pytest.mark.parametrize(
    ("metadata", "published", "change"),
    [
        ("", None, MAY),
        ("<dc:date>2019-03-04</dc:date>", datetime(2019, 3, 4), None),
        ("<dc:date>long ago</dc:date>", None, MAY),
        (f"<dc:date{OPF.format('creation')}>2018-01-01</dc:date>", None, MAY),
        (
            f"<dc:date{OPF.format('creation')}>2025-01-01</dc:date>",
            None,
            datetime(2025, 1, 1),
        ),
        (
            f"<dc:date{OPF.format('creation')}>2018-01-01</dc:date><dc:date>2019-03-04</dc:date>",
            datetime(2019, 3, 4),
            None,
        ),
    ],
)
def test_a_book_is_of_its_publication_before_its_last_change(
    metadata: str, published: datetime | None, change: datetime | None
) -> None:
    parts = book_parts(one="<p>Text</p>")
    package = str(parts["OEBPS/book.opf"]).replace("<metadata>", f"<metadata>{metadata}")
    document = read("a.epub", parts | {"OEBPS/book.opf": package})
    assert (document.published_at, document.change) == (published, change)


@pytest.mark.parametrize(
    ("created", "changed", "change"),
    [
        ("2023-01-01", "2024-05-01T10:00:00Z", MAY),
        ("2025-01-01", "2024-05-01T10:00:00Z", datetime(2025, 1, 1)),
        ("2024-05-01T10:00Z", "1980-01-01", MAY),
        ("", "2024-05-01T10:00:00Z", MAY),
        ("", "", None),
    ],
)
def test_by_the_later_of_its_dates_a_file_was_written(
    created: str, changed: str, change: datetime | None
) -> None:
    properties = str(WORD["docProps/core.xml"])
    for former, now in (("2023-01-01T00:00:00Z", created), ("2024-05-01T10:00:00Z", changed)):
        properties = properties.replace(former, now)
    document = read("a.docx", WORD | {"docProps/core.xml": properties})
    assert (document.published_at, document.change) == (None, change)


def test_missing_chapters_are_named_and_locked_ones_refused() -> None:
    parts = book_parts(one="<p>Text</p>", two="<p>Text</p>")
    rest = {name: part for name, part in parts.items() if "two" not in name}
    assert read("a.epub", rest).unread == "1 of its chapters are missing in the file; get a whole copy"
    lock = '<e xmlns="http://www.w3.org/2001/04/xmlenc#"><EncryptionMethod Algorithm="{}"/></e>'
    with raises(ReadError, "protected"):
        read(
            "a.epub",
            parts | {"META-INF/encryption.xml": lock.format("http://www.w3.org/2001/04/xmlenc#aes128-cbc")},
        )
    font = lock.format("http://www.idpf.org/2008/embedding")
    assert read("a.epub", parts | {"META-INF/encryption.xml": font}).text == "Text\n\nText"


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("a.docx", word_parts("")),
        ("a.pptx", slide_parts([""])),
        ("a.xlsx", sheet_parts(Beds="")),
        ("a.odt", open_parts("text", "<text:p/>")),
        ("a.odp", open_parts("presentation", "<draw:page/>")),
        ("a.epub", book_parts(one="<p/>")),
    ],
)
def test_a_file_without_text_is_said_to_be_empty(uri: str, parts: dict[str, str | bytes]) -> None:
    with raises(ReadError, "empty_document"):
        read(uri, parts)


def test_images_are_mentioned_where_they_are_likely_to_hold_the_text() -> None:
    images: dict[str, str | bytes] = {f"word/media/image{n}.png": b"x" for n in range(3)}
    assert read("a.docx", word_parts(paragraph("Short")) | images).unread == (
        "3 images or charts were not read; export the document as PDF, whose images can be recognised"
    )
    assert read("a.docx", word_parts(paragraph("Long. " * 300)) | images).unread is None
    with raises(ReadError, "empty_document"):
        read("a.docx", word_parts("") | images)
    formula = open_parts("text", "<text:p>Long</text:p>") | {"Object 1/content.xml": "<math/>"}
    assert read("a.odt", formula).unread == "1 formula or chart was not read; export it as PDF"


@pytest.mark.parametrize(("uri", "module"), [("a.docx", "mammoth"), ("a.xlsx", "python_calamine")])
def test_without_the_extra_the_error_says_what_to_install(
    uri: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_extra = name_reading(DocumentSettings())
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("backstory.base.extras._can_be_found", lambda name: name != module)
    assert name_reading(DocumentSettings()) != with_extra, "a run after it is installed must not be spared"
    with raises(ReadError, "missing_extra"):
        read(uri, WORD if uri == "a.docx" else sheet_parts(Beds=""))


@pytest.mark.parametrize(
    ("number", "code", "shown"),
    [
        (42, "0000", "0042"),
        (1.5, "[h]:mm", "36:00"),
        (0.125, "0.0%", "12.5%"),
        (1250.5, '#,##0.00\\ "kr"', "1,250.50 kr"),
        (-3.5, "0.0;[Red](0.0)", "(3.5)"),
        (123456789, "000\\-00\\-0000", "123-45-6789"),
        (45425, "dd.mm.yyyy", None),
        (0.5, "# ?/?", None),
        (1234567, '0.0,,"M"', None),
        (42, "[<1]0.0%;0", None),
        (-3, '"€" 0.00', "-€ 3.00"),
        (-3, '0" more";0" less"', "3 less"),
        (0.001, "[ss]", "86"),
    ],
)
def test_numbers_are_written_as_a_sheet_shows_them(number: float, code: str, shown: str | None) -> None:
    assert show_number(number, code) == shown
