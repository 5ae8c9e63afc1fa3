"""Writes small files of office programs part by part, as the programs do."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from html import escape

OOXML = "http://schemas.openxmlformats.org"
RELATION = f"{OOXML}/officeDocument/2006/relationships"
CORE = f"""<cp:coreProperties xmlns:cp="{OOXML}/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/">
<dc:title>Garden plan</dc:title><cp:keywords>garden, soil; garden</cp:keywords>
<dcterms:created>2023-01-01T00:00:00Z</dcterms:created><dcterms:modified>2024-05-01T10:00:00Z</dcterms:modified>
</cp:coreProperties>"""
ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{path}:1.0"'
    for name, path in {
        "office": "office", "text": "text", "table": "table", "draw": "drawing", "presentation": "presentation",
        "meta": "meta",
    }.items()
)  # fmt: skip
META = f"""<office:document-meta {ODF} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>
<dc:title>Garden plan</dc:title><meta:creation-date>2023-01-01T00:00:00</meta:creation-date>
<dc:date>2024-05-01T10:00:00.123456789</dc:date><meta:keyword>garden</meta:keyword><meta:keyword>soil</meta:keyword>
</office:meta></office:document-meta>"""


def make_zip(parts: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Make a ZIP file whose bytes depend on its parts only."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return file.getvalue()


def relations(**targets: str) -> str:
    """Write the relations of a part: ``rId1="slide slides/slide1.xml"`` names kind and target."""
    entries = (
        f'<Relationship Id="{name}" Type="{RELATION}/{target.split()[0]}" Target="{target.split()[1]}"/>'
        for name, target in targets.items()
    )
    return f'<Relationships xmlns="{OOXML}/package/2006/relationships">{"".join(entries)}</Relationships>'


def word_parts(body: str) -> dict[str, str | bytes]:
    """Give the parts of a Word document with these elements as its body."""
    return {
        "[Content_Types].xml": f'<Types xmlns="{OOXML}/package/2006/content-types"/>',
        "_rels/.rels": relations(rId1="officeDocument word/document.xml"),
        "word/document.xml": f'<w:document xmlns:w="{OOXML}/wordprocessingml/2006/main"><w:body>{body}'
        "</w:body></w:document>",
        "word/styles.xml": f'<w:styles xmlns:w="{OOXML}/wordprocessingml/2006/main">'
        + "".join(
            f'<w:style w:type="paragraph" w:styleId="{name.replace(" ", "")}"><w:name w:val="{name}"/></w:style>'
            for name in ("Title", "Heading 1", "Heading 2", "Quote")
        )
        + "</w:styles>",
        "docProps/core.xml": CORE,
    }


def paragraph(text: str, style: str = "") -> str:
    """Write a paragraph of Word."""
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{named}<w:r><w:t xml:space="preserve">{escape(text)}</w:t></w:r></w:p>'


def slide_parts(slides: Sequence[str], **more: str | bytes) -> dict[str, str | bytes]:
    """Give the parts of a presentation whose slides hold these shapes."""
    numbers = range(1, len(slides) + 1)
    main = f'xmlns:p="{OOXML}/presentationml/2006/main"'
    listed = "".join(f'<p:sldId id="{255 + n}" r:id="rId{n}"/>' for n in numbers)
    return {
        "ppt/presentation.xml": f'<p:presentation {main} xmlns:r="{RELATION}"><p:sldIdLst>{listed}</p:sldIdLst>'
        "</p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            **{f"rId{n}": f"slide slides/slide{n}.xml" for n in numbers}
        ),
        **{
            f"ppt/slides/slide{n}.xml": write_slide(shapes) for n, shapes in zip(numbers, slides, strict=True)
        },
        "docProps/core.xml": CORE,
        **more,
    }


def write_slide(shapes: str) -> str:
    """Write a slide, or the page of its notes."""
    names = f'xmlns:p="{OOXML}/presentationml/2006/main" xmlns:a="{OOXML}/drawingml/2006/main"'
    return (
        f'<p:sld {names} xmlns:c="{OOXML}/drawingml/2006/chart" xmlns:r="{RELATION}"><p:cSld><p:spTree>{shapes}'
        "</p:spTree></p:cSld></p:sld>"
    )


def shape(text: str, placeholder: str | None = None) -> str:
    """Write a shape of a slide; a line of the text is a paragraph, and tabs at its beginning are its level."""
    holder = "" if placeholder is None else f'<p:ph type="{placeholder}"/>'
    paragraphs = "".join(
        f'<a:p><a:pPr lvl="{line.count(chr(9))}"/><a:r><a:t>{escape(line.strip())}</a:t></a:r></a:p>'
        for line in text.split("\n")
    )
    return f"<p:sp><p:nvSpPr><p:nvPr>{holder}</p:nvPr></p:nvSpPr><p:txBody>{paragraphs}</p:txBody></p:sp>"


def sheet_parts(**sheets: str) -> dict[str, str | bytes]:
    """Give the parts of a spreadsheet whose sheets have these rows, as XML."""
    names = f'xmlns="{OOXML}/spreadsheetml/2006/main" xmlns:r="{RELATION}"'
    listed = "".join(
        f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(sheets, 1)
    )
    targets = {f"rId{n}": f"worksheet worksheets/sheet{n}.xml" for n in range(1, len(sheets) + 1)}
    styles = (
        f'<styleSheet {names}><cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>'
    )
    return {
        "[Content_Types].xml": f'<Types xmlns="{OOXML}/package/2006/content-types"/>',
        "_rels/.rels": relations(rId1="officeDocument xl/workbook.xml"),
        "xl/workbook.xml": f"<workbook {names}><sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": relations(**targets, rId99="styles styles.xml"),
        "xl/styles.xml": styles,
        **{
            f"xl/worksheets/sheet{n}.xml": f"<worksheet {names}><sheetData>{rows}</sheetData></worksheet>"
            for n, rows in enumerate(sheets.values(), 1)
        },
        "docProps/core.xml": CORE,
    }


def write_rows(rows: Sequence[Sequence[str | int | float | bool | None]]) -> str:
    """Write the rows of a sheet."""
    lines = []
    for number, row in enumerate(rows, 1):
        cells = "".join(
            _write_cell(f"{chr(65 + column)}{number}", value)
            for column, value in enumerate(row)
            if value is not None
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    return "".join(lines)


def _write_cell(place: str, value: str | float) -> str:
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


def open_parts(kind: str, body: str) -> dict[str, str | bytes]:
    """Give the parts of an OpenDocument file: ``text``, ``presentation`` or ``spreadsheet``."""
    return {
        "mimetype": f"application/vnd.oasis.opendocument.{kind}",
        "content.xml": f"<office:document-content {ODF}><office:body><office:{kind}>{body}</office:{kind}>"
        "</office:body></office:document-content>",
        "meta.xml": META,
        "META-INF/manifest.xml": "<manifest/>",
    }


def book_parts(**chapters: str) -> dict[str, str | bytes]:
    """Give the parts of an e-book whose chapters have these bodies."""
    items = "".join(
        f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in chapters
    )
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    return {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
        "OEBPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        '<metadata><dc:title>The garden</dc:title><meta property="dcterms:modified">2024-05-01T10:00:00Z</meta>'
        '</metadata><manifest><item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        f'{items}</manifest><spine><itemref idref="nav"/>{spine}</spine></package>',
        "OEBPS/nav.xhtml": "<html><body><p>Contents</p></body></html>",
        **{
            f"OEBPS/{name}.xhtml": '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd">'
            f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body>{body}</body></html>'
            for name, body in chapters.items()
        },
    }
