"""Writes small PDF files, whole or damaged."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pypdfium2

LETTER = (0, 0, 612, 792)
HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def join_objects(objects: Mapping[int, bytes], trailer: bytes) -> bytes:
    """Write objects with a table of where they lie; object 1 is the catalog."""
    content = bytearray(b"%PDF-1.7\n")
    places = {}
    for number, body in objects.items():
        places[number] = len(content)
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(content)
    size = max(objects) + 1
    content += b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        content += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 00000 f \n"
    return bytes(
        content + b"trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n" % (size, trailer, start)
    )


def stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), entries, data)


def write_lines(*lines: str, size: int = 14) -> bytes:
    """Write the content of a page of these lines."""
    shown = b"".join(
        b"(%s) Tj T* "
        % line.encode("cp1252").replace(b"\\", b"\\\\").replace(b"(", b"\\(").replace(b")", b"\\)")
        for line in lines
    )
    return b"BT /F1 %d Tf %d TL 72 700 Td %sET" % (size, size * 2, shown)


def make_pdf(
    pages: Sequence[bytes],
    *,
    information: Mapping[str, str] | None = None,
    box: tuple[float, float, float, float] = LETTER,
    font: bytes = HELVETICA,
    images: Mapping[str, bytes] | None = None,
    extra: Mapping[int, bytes] | None = None,
) -> bytes:
    """Make a PDF of the contents of its pages.

    Args:
        pages: Content stream of each page.
        information: Entries of the document information.
        box: Size of each page in points.
        font: The font ``/F1``.
        images: Image objects by name.
        extra: Further objects, from number 100.
    """
    stated = b" ".join(
        b"/%s (%s)" % (name.encode(), value.encode("cp1252")) for name, value in (information or {}).items()
    )
    names = {name: 50 + place for place, name in enumerate(images or {})}
    shown = b" ".join(b"/%s %d 0 R" % (name.encode(), number) for name, number in names.items())
    kids = b" ".join(b"%d 0 R" % (200 + 2 * place) for place in range(len(pages)))
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, len(pages)),
        3: font,
        4: b"<< %s >>" % stated,
        **{names[name]: image for name, image in (images or {}).items()},
        **(extra or {}),
    }
    measures = b" ".join(b"%g" % side for side in box)
    for place, content in enumerate(pages):
        number = 200 + 2 * place
        objects[number] = (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [%s] /Contents %d 0 R /Resources << /Font << /F1 3 0 R >> "
            b"/XObject << %s >> >> >>" % (measures, number + 1, shown)
        )
        objects[number + 1] = stream(content)
    return join_objects(objects, b"/Info 4 0 R")


def draw_lines(*lines: str, dpi: int = 200) -> tuple[int, int, bytes]:
    """Draw a page of these lines; return its width, height and shades of grey."""
    pdf = pypdfium2.PdfDocument(make_pdf([write_lines(*lines, size=18)]))
    bitmap = pdf[0].render(scale=dpi / 72, grayscale=True)
    pixels = bytes(bitmap.buffer)
    rows = [pixels[row * bitmap.stride :][: bitmap.width] for row in range(bitmap.height)]
    return bitmap.width, bitmap.height, b"".join(rows)


def make_image(width: int, height: int, pixels: bytes) -> bytes:
    """Make the image object of a scan."""
    return stream(
        zlib.compress(pixels),
        b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
        b"/Filter /FlateDecode" % (width, height),
    )


SCAN = b"q 612 0 0 792 0 0 cm /Scan Do Q"
"""Content of a page that the image ``Scan`` fills."""


def make_scan(pages: Sequence[bytes | None], *lines: str) -> bytes:
    """Make a PDF in which each page that is None is a scan of the lines."""
    image = make_image(*draw_lines(*lines))
    return make_pdf([SCAN if page is None else page for page in pages], images={"Scan": image})


def make_png(*lines: str, dpi: int = 200) -> bytes:
    """Draw a page of these lines as a PNG file."""
    width, height, pixels = draw_lines(*lines, dpi=dpi)
    rows = b"".join(b"\0" + pixels[row * width :][:width] for row in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\0\0\0\0"
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


RIGHT_TO_LEFT = {
    "a": "ב",
    "b": "ש",
    "c": "ל",
    "d": "ם",
    "e": "ו",
    "A": "لا",
    "B": "س",
    "C": "م",
    " ": " ",
    "x": "x",
}
"""What the letters of :func:`make_right_to_left` stand for; one of them for a ligature of two letters."""


def make_right_to_left(*pages: str) -> bytes:
    """Make a PDF of one line per page, drawn from left to right as it is seen, in letters of :data:`RIGHT_TO_LEFT`.

    The codes of its font stand for other characters, as in fonts that are cut to what a document uses.
    """
    pairs = "\n".join(
        f"<{ord(code):02x}> <{text.encode('utf-16-be').hex()}>" for code, text in RIGHT_TO_LEFT.items()
    )
    table = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /A def /CMapType 2 def\n"
        f"1 begincodespacerange <00> <ff> endcodespacerange\n{len(RIGHT_TO_LEFT)} beginbfchar\n{pairs}\nendbfchar\n"
        "endcmap CMapName currentdict /CMap defineresource pop end end"
    )
    font = HELVETICA.replace(b">>", b"/ToUnicode 100 0 R >>")
    return make_pdf([write_lines(page) for page in pages], font=font, extra={100: stream(table.encode())})


def put_program(folder: Path, script: str) -> None:
    """Put a program named tesseract into a folder, for a ``PATH`` of its own."""
    folder.mkdir(exist_ok=True)
    program = folder / "tesseract"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
