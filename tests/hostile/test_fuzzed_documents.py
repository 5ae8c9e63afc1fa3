"""No bytes make a reader of documents raise anything but what it promises, and whatever it gives can be cut.

``BACKSTORY_FUZZ_EXAMPLES=20000`` tries more inputs than the default.
"""

import io

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backstory.base.errors import ReadError
from backstory.ingest.documents.formats.texts import MARKDOWN
from backstory.ingest.documents.metadata import ParsedDocument
from backstory.ingest.documents.reader import DOCUMENT_FORMATS, find_document_format, read_document
from backstory.settings.inputs import ChunkSettings, DocumentSettings
from backstory.text.chunking.cut import TitledText, choose_chunker, cut_titled_texts
from backstory.text.chunking.units import ESTIMATED_TOKENS, Pages
from backstory.text.languages import detect_language
from tests.hostile.damage import EXAMPLES, damage, fuzz
from tests.ingest.documents.office_files import (
    book_parts,
    make_zip,
    open_parts,
    paragraph,
    shape,
    sheet_parts,
    slide_parts,
    word_parts,
    write_rows,
    write_slide,
)
from tests.ingest.documents.pdf_files import (
    SCAN,
    make_image,
    make_pdf,
    make_png,
    make_right_to_left,
    write_lines,
)

POSTS = [
    b'---\ntitle: "T"\ndate: 2024-02-13\ntags: [a, b]\ndraft: false\n---\n# Heading\n\nText #tag\n',
    b'+++\ntitle = "T"\ndate = 2024-02-13T10:00:00Z\n[extra]\na = [1, {b = 2}]\n+++\nText\n',
    b'{"title": "T", "date": "2024-02-13", "tags": ["a"]}\nText\n',
]
ROWS_AND_CODE = {
    "a.csv": b'name,age\nAnn,3\n"B\nC","4"\n',
    "a.json": b'{"a": [{"b": 1.5, "c": [true, null]}, {"d": {"e": "\\u00e9"}}], "f": "x"}',
    "a.jsonl": b'{"a": 1, "b": {"c": [1]}}\n{"a": "x"}\n[1]\n',
    "a.py": b'"""Doc."""\n\n# note\n@mark\ndef f(a):\n    return f"{a}"\n\nclass B:\n    def g(self): ...\n',
    "a.rs": b"/// Doc.\n#[derive(Debug)]\nstruct A { b: u8 }\nimpl A { fn f(&self) {} }\n",
    "a.sh": b"# Doc.\nf() {\n  cat <<END\nx $(date) END\nEND\n}\n",
    "a.rb": b"class A\n  def f; <<~X; end\n  x\n  X\nend\n",
}


def parquet_of(table: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    table.write_parquet(content)
    return content.getvalue()


MARKED = {
    "a.txt": b"Title\n\nText of a note.\x0cMore\n",
    "a.rst": b"=====\nTitle\n=====\n\n:date: 2024-02-13\n\n.. note:: a\n\n* b `c <d>`_\n\n+--+\n|x |\n+--+\n\n"
    b"End::\n\n  x\n",
    "a.adoc": b"= Title\n:revdate: 2024-02-13\n\n== Part\n\n----\nx\n----\n\n|===\n|a |b\n|===\n\n* c link:d[e]\n",
    "a.org": b"#+TITLE: T\n#+DATE: <2024-02-13 Tue>\n* Part :tag:\n:PROPERTIES:\n:ID: 1\n:END:\n- a [[b][c]]\n"
    b"#+BEGIN_SRC\nx\n#+END_SRC\n",
    "a.html": b"<!DOCTYPE html><html><head><meta charset=utf-8><title>T</title></head><body><article><h1>T</h1>"
    b"<p>a &amp; <b>b</b><table><tr><th>c<td>d</table><ul><li>e</ul><pre>f</pre><script>g</script></article>",
    "a.png": make_png("A", dpi=20),
    "a.parquet": parquet_of(
        pl.DataFrame({"n": [1, None], "text": ["x\ny", ""], "part": [{"a": [True]}] * 2})
    ),
}
"""Small documents of the other readers whose file is no archive."""
PACKED = {
    "a.docx": word_parts(
        paragraph("Title", "Title") + paragraph("Text") + "<w:tbl><w:tr><w:tc/></w:tr></w:tbl>"
    ),
    "a.pptx": slide_parts(
        [write_slide(shape("Title", "title") + shape("a\n\tb")), write_slide(shape("End"))]
    ),
    "a.xlsx": sheet_parts(
        First=write_rows([["name", "n"], ["a", 1.5], ["b", True]]), Second=write_rows([["x"]])
    ),
    "a.odt": open_parts(
        "text", '<text:h text:outline-level="1">T</text:h><text:p>a<text:s text:c="2"/>b</text:p>'
    ),
    "a.odp": open_parts(
        "presentation",
        "<draw:page><draw:frame><draw:text-box><text:p>a</text:p></draw:text-box></draw:frame></draw:page>",
    ),
    "a.epub": book_parts(one="<h1>One</h1><p>Text</p>", two="<p>More</p>"),
}
"""Small documents whose file is an archive, as their parts."""
PDFS = [
    make_pdf(
        [write_lines("Hello", "wor-", "ld"), b""], information={"Title": "T", "CreationDate": "D:20240101"}
    ),
    make_right_to_left("bcde (x)"),
    make_pdf([write_lines("Typed"), SCAN], images={"Scan": make_image(8, 8, bytes(64))}),
]
LIMITED = DocumentSettings(read_seconds=2, read_megabytes=256, ocr="off")

few = settings(max_examples=max(1, EXAMPLES // 4))
fewer = settings(max_examples=max(1, EXAMPLES // 12))  # a crash costs the start of a process


def check_document(document: ParsedDocument) -> None:
    """Do with a document what a run does in its own process: find its language, and cut it."""
    texts = [document.text, document.title, document.slug, document.kind, document.tenant, document.unread]
    assert all(text is None or text.encode() is not None for text in [*texts, *document.tags])
    assert document.text.strip()
    detect_language([document.title, document.text])
    assert list(document.page_starts) == sorted(document.page_starts)
    assert document.page_starts[:1] in ((), (0,))
    assert max(document.page_starts, default=0) <= len(document.text)
    chunker = choose_chunker(document.chunker, ChunkSettings(), max_tokens=64)
    pages = Pages(document.page_starts, document.confidences)
    (spans,) = cut_titled_texts([TitledText("a", "", document.text, pages, chunker)], ESTIMATED_TOKENS)
    position = 0
    for span in spans:
        assert document.text[span.start : span.end].strip()
        assert not document.text[position : span.start].strip()
        position = max(position, span.end)
    assert not document.text[position:].strip()


def check_limited(content: bytes, name: str) -> None:
    """Read a file as a run does; a crash is one of the process with limits, and told in a sentence."""
    reader = find_document_format(name)
    assert reader is not None
    problem = ""
    try:
        document = read_document(reader, content, name, LIMITED)
    except ReadError as error:
        document, problem = None, str(error)
    assert (document is None) == bool(problem)
    if document is not None:
        check_document(document)


def test_every_reader_has_a_sample_that_is_read() -> None:
    """What damages a sample says something about a reader only if it reads the sample when it is whole."""
    samples = {"a.md": POSTS[0], **ROWS_AND_CODE, "a.pdf": PDFS[0], **MARKED}
    samples |= {name: make_zip(parts) for name, parts in PACKED.items()}
    read = set()
    for name, content in samples.items():
        reader = find_document_format(name)
        assert reader is not None
        read.add(reader.name)
        if reader.name != "image":  # whose text only Tesseract reads
            document = read_document(reader, content, name, LIMITED)
            assert document is not None
            check_document(document)
    assert read == {reader.name for reader in DOCUMENT_FORMATS}


@few
@given(data=st.data())
@pytest.mark.parametrize("name", MARKED)
def test_texts_and_others(name: str, data: st.DataObject) -> None:
    check_limited(data.draw(damage([MARKED[name]])), name)


@fewer
@given(data=st.data())
@pytest.mark.parametrize("name", PACKED)
def test_packed_documents(name: str, data: st.DataObject) -> None:
    """The archive is whole and a part of it is damaged, or the archive itself."""
    parts = PACKED[name]
    damaged = data.draw(st.sampled_from(["", *parts]))
    if damaged:
        whole = parts[damaged]
        content = whole if isinstance(whole, bytes) else whole.encode()
        check_limited(make_zip({**parts, damaged: data.draw(damage([content]))}), name)
    else:
        check_limited(data.draw(damage([make_zip(parts)])), name)


@fuzz
@given(damage(POSTS))
@example(b'---\ntitle: "\\UFFFFFFFF"\n---\nText')
@example(b'---\n"\\ud800": 1\n---\nText')
@example(b"+++\na = " + b"9" * 5000 + b"\n+++\nText")
def test_documents(content: bytes) -> None:
    problem = ""
    try:
        document = MARKDOWN.read(content, "a.md")
    except ReadError as error:
        document, problem = None, str(error)
    assert (document is None) == bool(problem)
    if document is not None:
        texts = [document.text, document.title, document.slug, document.kind, document.tenant, *document.tags]
        assert all(text is None or text.encode() is not None for text in texts)


@fuzz
@given(data=st.data())
@pytest.mark.parametrize("name", ROWS_AND_CODE)
def test_rows_and_code(name: str, data: st.DataObject) -> None:
    content = data.draw(damage([ROWS_AND_CODE[name]]))
    reader = find_document_format(name)
    assert reader is not None
    problem = ""
    try:
        document = reader.read(content, name)
    except ReadError as error:
        document, problem = None, str(error)
    assert (document is None) == bool(problem)
    if document is not None:
        check_document(document)


@fuzz
@given(content=damage(PDFS))
def test_pdfs(content: bytes) -> None:
    """A library may crash on damaged bytes, but only the process with limits, and with a sentence."""
    check_limited(content, "a.pdf")
