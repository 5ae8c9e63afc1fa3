from __future__ import annotations

from typing import get_args

import pytest

from backstory.base import extras
from backstory.ingest.documents.folder import name_reading
from backstory.ingest.documents.formats.texts import CODE, MOST_CODE_CHARACTERS
from backstory.ingest.documents.parsed_document import Chunker
from backstory.ingest.documents.reader import READERS
from backstory.settings.inputs import DocumentSettings
from backstory.text.chunking import code
from backstory.text.chunking.code import CODE_LANGUAGES

READER = CODE


def test_every_language_is_a_chunker() -> None:
    assert set(CODE_LANGUAGES) < set(get_args(Chunker))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def f(:\n", r"^this is not valid Python 3\.\d+ in line 1: .*; it was cut as text, without its definitions$"),
        ("-" * 100_000 + "1", "^this is nested too deeply for the parser of Python"),
        ("x = 1\n" * 50_000, f"^the code has 300,000 characters, more than the {MOST_CODE_CHARACTERS:,}"),
    ],
)  # fmt: skip
def test_what_is_not_parsed_is_cut_as_text_and_said(text: str, reason: str) -> None:
    document = READER.read(text.encode(), "a.py")
    assert document is not None
    assert (document.text, document.chunker) == (text, "sentence")
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(document.unread)


def test_without_the_extra_code_is_cut_as_text_and_read_again_when_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_extra = name_reading(DocumentSettings(), READERS)
    monkeypatch.setattr(extras, "_can_be_found", extras._can_be_found.__wrapped__)
    monkeypatch.setattr(
        "backstory.base.extras.find_spec", lambda name: None if name == "tree_sitter_go" else name
    )
    code._load_grammar.cache_clear()
    document = READER.read(b"package a\n", "a.go")
    assert document is not None
    assert document.chunker == "sentence"
    assert "tree_sitter_go, which is not installed; run `pip install 'backstory[code]'`" in (
        document.unread or ""
    )
    assert name_reading(DocumentSettings(), READERS) != with_extra
