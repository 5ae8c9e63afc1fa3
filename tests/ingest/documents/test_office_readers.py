"""Word, PowerPoint, Excel, OpenDocument and e-books: what is read of them."""

import sys
from datetime import UTC, datetime

import pytest

from backstory.base.errors import ReadError
from backstory.ingest.documents.dates import LastChange
from backstory.ingest.documents.folder import name_reading
from backstory.ingest.documents.formats.office.sheets import show_number
from backstory.ingest.documents.parsed_document import ParsedDocument
from backstory.ingest.documents.reader import READERS, find_reader, read_document
from backstory.settings.inputs import DocumentSettings
from tests.errors import raises
from tests.ingest.documents.office_files import (
    OOXML,
    book_parts,
    make_zip,
    open_parts,
    paragraph,
    relations,
    shape,
    sheet_parts,
    slide_parts,
    word_parts,
    write_rows,
    write_slide,
)

MAY = datetime(2024, 5, 1, 10, tzinfo=UTC)


def read(uri: str, parts: dict[str, str | bytes]) -> ParsedDocument:
    reader = find_reader(uri, READERS)
    assert reader is not None
    content = make_zip(parts)
    assert reader.find_encoding is None
    document = reader.read(content, uri)
    assert document is not None
    assert document == reader.read(content, uri)
    return document


def pages(document: ParsedDocument) -> list[str]:
    ends = [*document.page_starts[1:], len(document.text)]
    return [document.text[start:end] for start, end in zip(document.page_starts, ends, strict=True)]


CELL = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
WORD = word_parts(
    paragraph("Garden plan", "Title")
    + paragraph("Soil", "Heading1")
    + paragraph("The soil is clay, 2 < 3 * 4.")
    + "<w:tbl>"
    + "".join(f"<w:tr>{''.join(CELL.format(cell) for cell in row)}</w:tr>" for row in (("Bed", "Crop"), ("1", "a|b")))
    + "</w:tbl>"
    + paragraph("Water", "Heading2")
    + "<w:p><w:ins><w:r><w:t>Every morning</w:t></w:r></w:ins>"
    "<w:del><w:r><w:delText>Never</w:delText></w:r></w:del></w:p>"
)  # fmt: skip


def test_a_word_document_keeps_headings_tables_and_accepted_changes() -> None:
    assert read("a.docx", WORD) == ParsedDocument(
        text="# Garden plan\n\n# Soil\n\nThe soil is clay, 2 < 3 * 4.\n\n"
        "| Bed | Crop |\n| --- | --- |\n| 1 | a\\|b |\n\n## Water\n\nEvery morning",
        title="Garden plan",
        change=LastChange(MAY),
        tags=("garden", "soil"),
    )


def test_the_title_is_the_first_heading_where_the_properties_have_none() -> None:
    parts = {name: part for name, part in WORD.items() if name != "docProps/core.xml"}
    document = read("a.docx", parts)
    assert (document.title, document.change.moment, document.tags) == ("Garden plan", None, ())


def test_each_slide_is_a_page_with_its_lists_tables_charts_and_notes() -> None:
    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    cells = [[cell.format(text) for text in row] for row in (("Bed", "Crop"), ("1", "Peas"))]
    table = "".join(f"<a:tr>{''.join(row)}</a:tr>" for row in cells)
    frame = "<p:graphicFrame><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></p:graphicFrame>"
    chart = (
        f'<c:chartSpace xmlns:c="{OOXML}/drawingml/2006/chart"><c:ser><c:tx><c:v>Kilos</c:v></c:tx><c:cat>'
        "<c:v>East</c:v><c:v>West</c:v></c:cat><c:val><c:v>1.5</c:v></c:val></c:ser></c:chartSpace>"
    )
    parts = slide_parts(
        [
            shape("The first\n\tof it\nThe second", "body")
            + shape("Why compost", "title")
            + shape("3", "sldNum"),
            "",
            f"<p:grpSp>{shape('# In a group')}</p:grpSp>{frame.format(f'<a:tbl>{table}</a:tbl>')}"
            + frame.format('<c:chart r:id="rId1"/>'),
        ],
        **{
            "ppt/slides/_rels/slide1.xml.rels": relations(rId1="notesSlide ../notesSlides/notes1.xml"),
            "ppt/notesSlides/notes1.xml": write_slide(shape("Say hello", "body")),
            "ppt/slides/_rels/slide3.xml.rels": relations(rId1="chart /ppt/charts/chart1.xml"),
            "ppt/charts/chart1.xml": chart,
        },
    )
    document = read("a.pptx", parts)
    assert pages(document) == [
        "# Why compost\n\n- The first\n  - of it\n- The second\n\nNotes:\n\nSay hello\n\n",
        "\n\n",
        (
            "\\# In a group\n\n| Bed | Crop |\n| --- | --- |\n| 1 | Peas |\n\n"
            "|  | Kilos |\n| --- | --- |\n| East | 1.5 |\n| West |  |"
        ),
    ]
    assert (document.title, document.change.moment, document.chunker) == ("Garden plan", MAY, "page")


def test_each_sheet_is_a_page_of_rows_below_its_header() -> None:
    rows: list[list[str | int | float | bool | None]] = [
        ["Bed", "Crop", "Kilos"],
        [1, "Peas\nand | beans", 1.5],
        [],
        [2, None, True],
        [0.1, None, None],
    ]
    document = read("a.xlsx", sheet_parts(Beds=write_rows(rows), Empty="", Late=write_rows([[], ["", "x"]])))
    assert pages(document) == [
        "Beds: Bed | Crop | Kilos\n1 | Peas and | beans | 1.5\n2 |  | true\n0.1\n",
        "\n",
        "Late:  | x\n",
    ]
    assert (document.title, document.change.moment, document.tags) == ("Garden plan", MAY, ("garden", "soil"))
    assert (document.chunker, document.unread) == ("rows", None)


def test_a_date_in_a_sheet_is_a_date_and_a_single_sheet_needs_no_name() -> None:
    parts = sheet_parts(
        Sheet1='<row r="1"><c r="A1" s="1"><v>45413</v></c><c r="B1" s="1"><v>45413.5</v></c></row>'
    )
    assert read("a.xlsx", parts).text == "2024-05-01 | 2024-05-01 12:00\n"


def test_what_is_beyond_the_limits_of_a_sheet_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.ingest.documents.formats.office.sheets.MOST_CHARACTERS", 20)
    monkeypatch.setattr("backstory.ingest.documents.formats.office.sheets.MOST_COLUMNS", 2)
    document = read("a.xlsx", sheet_parts(Beds=write_rows([["aa", "bb", "cc"], *[[1, 2]] * 9])))
    assert document.text == "aa | bb\n1 | 2\n1 | 2\n"
    assert document.unread == (
        "only the first 3 rows of the sheet 'Beds' were read; split the file; "
        "only the first 2 columns of the sheet 'Beds' were read; split it"
    )


OPEN_TEXT = (
    "<text:tracked-changes><text:p>Gone</text:p></text:tracked-changes>"
    '<text:h text:outline-level="1">Soil</text:h><text:p>Heavy<text:s text:c="2"/><text:span>clay</text:span>'
    "<text:note><text:note-body><text:p>From the river</text:p></text:note-body></text:note>.</text:p>"
    "<text:list><text:list-item><text:p>Dig</text:p><text:list><text:list-item><text:p>deep</text:p></text:list-item>"
    "</text:list></text:list-item></text:list><text:p># No heading</text:p>"
    '<text:p text:style-name="Preformatted_20_Text"># code</text:p>'
    '<table:table><table:table-row><table:table-cell><text:p>Bed</text:p></table:table-cell><table:table-cell '
    'table:number-columns-repeated="2"><text:p>x</text:p></table:table-cell></table:table-row></table:table>'
)  # fmt: skip


def test_an_opendocument_text_keeps_headings_lists_notes_and_tables() -> None:
    assert read("a.odt", open_parts("text", OPEN_TEXT)) == ParsedDocument(
        text="# Soil\n\nHeavy  clay.\n\nNote: From the river\n\n- Dig\n  - deep\n\n\\# No heading\n\n"
        "```\n# code\n```\n\n| Bed | x | x |\n| --- | --- | --- |",
        title="Garden plan",
        change=LastChange(datetime(2024, 5, 1, 10, microsecond=123456)),
        tags=("garden", "soil"),
    )


def test_each_page_of_an_opendocument_presentation_is_a_page() -> None:
    frame = "<draw:frame{}><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>"
    page = (
        frame.format("", "Body")
        + frame.format(' presentation:class="title"', "Why")
        + f"<presentation:notes>{frame.format('', 'Say')}</presentation:notes>"
    )
    body = f"<draw:page>{page}</draw:page><draw:page>{frame.format('', 'Second')}</draw:page>"
    document = read("a.odp", open_parts("presentation", body))
    assert pages(document) == ["# Why\n\nBody\n\nNotes:\n\nSay\n\n", "Second"]


def test_an_opendocument_spreadsheet_is_read_as_one_of_excel() -> None:
    cells = "".join(
        f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p></table:table-cell>'
        for cell in ("Bed", "Crop")
    )
    body = f'<table:table table:name="Beds"><table:table-row>{cells}</table:table-row></table:table>'
    document = read("a.ods", open_parts("spreadsheet", body))
    assert (document.text, document.title, document.chunker) == ("Bed | Crop\n", "Garden plan", "rows")


def test_a_book_is_its_chapters_in_the_order_of_reading() -> None:
    parts = book_parts(
        two="<h1>Soil</h1><p>Clay &#x2014; heavy&nbsp;one</p>", one="<h1>Water</h1><p>Daily</p>"
    )
    assert read("a.epub", parts) == ParsedDocument(
        text="# Soil\n\nClay — heavy one\n\n# Water\n\nDaily", title="The garden", change=LastChange(MAY)
    )


OPF = ' xmlns:opf="http://www.idpf.org/2007/opf" opf:event="{}"'


@pytest.mark.parametrize(
    ("metadata", "published", "change"),
    [
        ("", None, (MAY, "changed")),
        ("<dc:date>2019-03-04</dc:date>", datetime(2019, 3, 4), (None, "changed")),
        ("<dc:date>long ago</dc:date>", None, (MAY, "changed")),
        (f"<dc:date{OPF.format('creation')}>2018-01-01</dc:date>", None, (MAY, "changed")),
        (
            f"<dc:date{OPF.format('creation')}>2025-01-01</dc:date>",
            None,
            (datetime(2025, 1, 1), "copied"),
        ),
        (
            f"<dc:date{OPF.format('creation')}>2018-01-01</dc:date><dc:date>2019-03-04</dc:date>",
            datetime(2019, 3, 4),
            (None, "changed"),
        ),
    ],
)
def test_a_book_is_of_its_publication_before_its_last_change(
    metadata: str, published: datetime | None, change: tuple[datetime | None, str]
) -> None:
    parts = book_parts(one="<p>Text</p>")
    package = str(parts["OEBPS/book.opf"]).replace("<metadata>", f"<metadata>{metadata}")
    document = read("a.epub", parts | {"OEBPS/book.opf": package})
    assert (document.published_at, *document.change) == (published, *change)


@pytest.mark.parametrize(
    ("created", "changed", "change"),
    [
        ("2023-01-01", "2024-05-01T10:00:00Z", (MAY, "changed")),
        ("2025-01-01", "2024-05-01T10:00:00Z", (datetime(2025, 1, 1), "copied")),
        ("2024-05-01T10:00Z", "1980-01-01", (MAY, "created")),
        ("", "2024-05-01T10:00:00Z", (MAY, "changed")),
        ("", "", (None, "changed")),
    ],
)
def test_by_the_later_of_its_dates_a_file_was_written(
    created: str, changed: str, change: tuple[datetime | None, str]
) -> None:
    properties = str(WORD["docProps/core.xml"])
    for former, now in (("2023-01-01T00:00:00Z", created), ("2024-05-01T10:00:00Z", changed)):
        properties = properties.replace(former, now)
    document = read("a.docx", WORD | {"docProps/core.xml": properties})
    assert (document.published_at, *document.change) == (None, *change)


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
        "3 images were not read; export the document as PDF, whose images can be recognised"
    )
    assert read("a.docx", word_parts(paragraph("Long. " * 300)) | images).unread is None
    with raises(ReadError, "empty_document"):
        read("a.docx", word_parts("") | images)


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


def test_the_process_with_limits_reads_the_same() -> None:
    files = {
        "a.docx": WORD,
        "a.xlsx": sheet_parts(Beds=write_rows([["a"]])),
        "a.pptx": slide_parts([shape("Text")]),
        "a.odt": open_parts("text", OPEN_TEXT),
        "a.epub": book_parts(one="<p>Text</p>"),
    }
    for uri, parts in files.items():
        reader = find_reader(uri, READERS)
        assert reader is not None
        direct = reader.read(make_zip(parts), uri)
        assert read_document(reader, make_zip(parts), uri, DocumentSettings()) == direct


def test_formulas_fields_boxes_and_exponents_of_word_are_read() -> None:
    math = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
    fraction = (
        "<m:f><m:num><m:r><m:t>F</m:t></m:r></m:num><m:den><m:r><m:t>A+B</m:t></m:r></m:den></m:f>"
        "<m:sSup><m:e><m:r><m:t>x</m:t></m:r></m:e><m:sup><m:r><m:t>2</m:t></m:r></m:sup></m:sSup>"
    )
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>6</w:t></w:r>'
    box = '<w:sdt><w:sdtPr><wordml:checkbox xmlns:wordml="http://schemas.microsoft.com/office/word/2010/wordml">'
    box += '<wordml:checked wordml:val="1"/></wordml:checkbox></w:sdtPr>'
    box += "<w:sdtContent><w:r><w:t>☒</w:t></w:r></w:sdtContent></w:sdt>"
    body = (
        f"<w:p><w:r><w:t>p=</w:t></w:r><m:oMath {math}>{fraction}</m:oMath></w:p>"
        '<w:p><w:fldSimple w:instr="DATE"><w:r><w:t>2 May</w:t></w:r></w:fldSimple></w:p>'
        f"<w:p><w:r><w:t>10</w:t></w:r>{raised}<w:r><w:t> seeds</w:t></w:r></w:p>"
        f"<w:p>{box}<w:r><w:t>paid</w:t></w:r></w:p>"
    )
    assert read("a.docx", word_parts(body)).text == "p=(F/(A+B))x^2\n\n2 May\n\n10⁶ seeds\n\n☑ paid"


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
        (1234567, '0.0,,"M"', "1.2M"),
        (1234567, '#,##0,"k"', "1,235k"),
        (0.001, "[ss]", "86"),
    ],
)
def test_numbers_are_written_as_a_sheet_shows_them(number: float, code: str, shown: str | None) -> None:
    assert show_number(number, code) == shown


def test_a_sheet_is_read_as_it_is_shown() -> None:
    cells = '<row r="2"><c r="B2" t="inlineStr"><is><t>Key</t></is></c></row>'
    cells += '<row r="3"><c r="B3" s="1"><v>7</v></c></row>'
    parts = sheet_parts(Keys=cells)
    styles = str(parts["xl/styles.xml"]).replace('numFmtId="14"', 'numFmtId="170"')
    parts["xl/styles.xml"] = styles.replace(
        "<cellXfs", '<numFmts><numFmt numFmtId="170" formatCode="000"/></numFmts><cellXfs'
    )
    assert read("a.xlsx", parts).text == "Key\n007\n"
    sheet = next(name for name in parts if "/worksheets/" in name)
    with raises(ReadError, "damaged_file", sheet):
        read("a.xlsx", {**parts, sheet: str(parts[sheet]).replace("</worksheet>", "</sheet>")})
