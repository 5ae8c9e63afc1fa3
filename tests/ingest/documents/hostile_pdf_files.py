"""PDF files that are made to do harm or were damaged."""

from __future__ import annotations

import io
import zlib

import pypdf

from tests.ingest.documents.pdf_files import HELVETICA, join_objects, make_pdf, stream, write_lines

PAGE = make_pdf([write_lines("Hello")])


def protect(user_password: str) -> bytes:
    """Encrypt a page; without a password of the user, anyone may open it."""
    writer = pypdf.PdfWriter(io.BytesIO(PAGE))
    writer.encrypt(user_password, "owner", algorithm="RC4-128")
    content = io.BytesIO()
    writer.write(content)
    return content.getvalue()


def claim_pages(count: int) -> bytes:
    return PAGE.replace(b"/Count 1", b"/Count %d" % count)


def repeat_xref() -> bytes:
    """Let the table of objects name itself as the one before it."""
    start = PAGE.rindex(b"startxref") + len(b"startxref")
    place = int(PAGE[start:].split()[0])
    return PAGE.replace(b"/Info 4 0 R", b"/Info 4 0 R /Prev %d" % place)


def nest_pages() -> bytes:
    """Let the tree of pages hold itself."""
    return PAGE.replace(b"/Kids [200 0 R]", b"/Kids [2 0 R 200 0 R 2 0 R]")


def inflate(megabytes: int) -> bytes:
    """Write a page of that many megabytes, compressed twice, which take some kilobytes."""
    packed = zlib.compress(zlib.compress(b"q " * (megabytes << 19), 9), 9)
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 6 0 R >>"
    objects = {
        1: b"<< /Type /Catalog /Pages 2 0 R >>",
        2: b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
        5: page,
        6: stream(packed, b"/Filter [/FlateDecode /FlateDecode]"),
    }
    return join_objects(objects, b"")


def pack_objects(megabytes: int) -> bytes:
    """Put the catalog into an object stream that many megabytes long."""
    packed = zlib.compress(b"1 0 << /Type /Catalog /Pages 2 0 R >>" + b" " * (megabytes << 20), 9)
    first = b"%PDF-1.7\n"
    body = b"7 0 obj\n%s\nendobj\n" % stream(packed, b"/Type /ObjStm /N 1 /First 4 /Filter /FlateDecode")
    table = b"".join([b"\2\0\0\0\7\0", b"\1" + len(first).to_bytes(4, "big") + b"\0"])
    xref = stream(table, b"/Type /XRef /Size 8 /W [1 4 1] /Index [1 1 7 1] /Root 1 0 R")
    return first + body + b"8 0 obj\n%s\nendobj\nstartxref\n%d\n%%%%EOF" % (xref, len(first) + len(body))


def nest_arrays(depth: int) -> bytes:
    return make_pdf([write_lines("Hello") + b" " + b"[" * depth + b"]" * depth + b" TJ"])


def nest_dictionaries(depth: int) -> bytes:
    return make_pdf([write_lines("Hello")], extra={100: b"<< /A " * depth + b"1" + b" >>" * depth}).replace(
        b"/Info 4 0 R", b"/Info 100 0 R"
    )


def draw_itself() -> bytes:
    """Let a form draw itself."""
    entries = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /Form 50 0 R >> >>"
    form = stream(b"/Form Do " * 9, entries)
    return make_pdf([write_lines("Hello") + b" /Form Do"], images={"Form": form})


def multiply_forms(levels: int) -> bytes:
    """Let every form draw the next one ten times."""
    forms = {}
    for level in range(levels):
        inner = b"/Next Do " * 10 if level + 1 < levels else write_lines("x")
        forms[100 + level] = stream(
            inner,
            b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> "
            b"/XObject << /Next %d 0 R >> >>" % (101 + level),
        )
    outer = stream(
        b"/Next Do",
        b"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /XObject << /Next 100 0 R >> >>",
    )
    return make_pdf([b"/Form Do"], images={"Form": outer}, extra=forms, font=HELVETICA)
