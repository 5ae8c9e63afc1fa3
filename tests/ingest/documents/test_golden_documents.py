"""Files of every format against the documents that they give.

``tests/data/documents/FORMAT/`` holds files, in folders that say what they are samples of, and ``documents.json``: what
each is read as, without what is left at its default, or the code of the error and what it says to be wrong. A folder
with the ending of an office program holds the parts of a file, which is packed here.

``python -m tests.ingest.documents.test_golden_documents`` writes each ``documents.json`` anew. The difference that it
leaves is what the readers changed: read it.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from backstory.base.errors import ReadError
from backstory.ingest.documents.metadata import DocumentFormat, ParsedDocument
from backstory.ingest.documents.reader import find_document_format, read_document
from backstory.settings.inputs import DocumentSettings
from tests.ingest.documents.office_files import make_zip

DOCUMENTS: Final = Path(__file__).resolve().parents[2] / "data" / "documents"
EXPECTED: Final = "documents.json"
OFFICE: Final = {".docx", ".pptx", ".xlsx", ".odt", ".odp", ".ods", ".epub"}
REMEDY: Final = re.compile(r"; |(?<=valid JSON|valid YAML|valid TOML):")
"""Ends what an error says to be wrong, without the words of a parser, which other releases of it choose otherwise."""
WITHOUT_OCR: Final = DocumentSettings(ocr="off")
MARKUP: Final = {".md", ".txt", ".rst", ".adoc", ".org"}
DEFAULTS: Final = json.loads(json.dumps(dataclasses.asdict(ParsedDocument("")), default=str)) | {"text": None}


def list_samples(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.suffix in OFFICE or path.is_file():
            yield path
        else:
            yield from list_samples(path)


SAMPLES: Final = [
    path.relative_to(DOCUMENTS).as_posix() for path in list_samples(DOCUMENTS) if path.name != EXPECTED
]


def read_sample(path: Path) -> bytes:
    if path.is_file():
        return path.read_bytes()
    parts = sorted(part for part in path.rglob("*") if part.is_file())
    return make_zip({part.relative_to(path).as_posix(): part.read_bytes() for part in parts})


def find_format(path: Path) -> DocumentFormat:
    reader = find_document_format(path.name)
    assert reader is not None
    return reader


def describe(path: Path, content: bytes) -> dict[str, Any]:
    """Give what a file reads as, in the shape of its row."""
    reader = find_format(path)
    try:
        document = read_document(reader, content, path.name, WITHOUT_OCR)
    except ReadError as error:
        return {"error": error.code, "wrong": REMEDY.split(str(error))[0]}
    assert document == read_document(reader, content, path.name, WITHOUT_OCR)
    values = json.loads(json.dumps(dataclasses.asdict(document), default=str))
    encoding = reader.find_encoding(content) if reader.find_encoding else "utf-8"
    given = {name: value for name, value in values.items() if value != DEFAULTS[name]}
    return given | ({} if encoding == "utf-8" else {"encoding": encoding})


def read_expected(name: str) -> dict[str, Any]:
    format_, _, sample = name.partition("/")
    expected: dict[str, Any] = json.loads((DOCUMENTS / format_ / EXPECTED).read_bytes())[sample]
    return expected


def write_expected(folder: Path) -> None:
    """Write what the files of a format give, a line for each."""
    rows = []
    for path in list_samples(folder):
        if path.name != EXPECTED:
            described = json.dumps(describe(path, read_sample(path)), ensure_ascii=False)
            rows.append(f" {json.dumps(path.relative_to(folder).as_posix())}: {described}")
    (folder / EXPECTED).write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_gives_exactly_the_expected_document(name: str) -> None:
    assert describe(DOCUMENTS / name, read_sample(DOCUMENTS / name)) == read_expected(name)


@pytest.mark.parametrize(
    "name", [name for name in SAMPLES if Path(name).suffix in MARKUP and "/encodings/" not in name]
)
def test_line_ends_and_marks_of_the_encoding_change_nothing(name: str) -> None:
    text = read_sample(DOCUMENTS / name).decode()
    for newline, encoding in itertools.product(("\n", "\r\n", "\r"), ("utf-8", "utf-8-sig", "utf-16")):
        found = describe(DOCUMENTS / name, text.replace("\n", newline).encode(encoding))
        assert found.pop("encoding", encoding) in encoding
        assert found == read_expected(name), (newline, encoding)


BOILERPLATE: Final = [name for name in SAMPLES if name.startswith("html/boilerplate/")]


@pytest.mark.parametrize("name", BOILERPLATE)
def test_menus_footers_of_sites_and_notices_about_cookies_are_no_text(name: str) -> None:
    """Each text of these pages says whether it is of the document (KEEP) or of the site (DROP)."""
    page = read_sample(DOCUMENTS / name).decode()
    text = " ".join(str(read_expected(name)["text"]).split())
    marked = [(word, " ".join(words.split())) for word, words in re.findall("(KEEP|DROP) ([^<]+)", page)]
    assert [words for word, words in marked if word == "KEEP" and words not in text] == []
    assert "DROP" not in text


if __name__ == "__main__":
    for folder in sorted(DOCUMENTS.iterdir()):
        write_expected(folder)
