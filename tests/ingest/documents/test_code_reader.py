from __future__ import annotations

import pytest

from backstory.base import extras
from backstory.ingest.documents.formats.texts import CODE, MOST_CODE_CHARACTERS
from backstory.ingest.documents.reader import name_reading
from backstory.settings.inputs import DocumentSettings
from backstory.text.chunking import code

READER = CODE


def test_what_is_too_long_to_be_parsed_is_cut_as_text_and_said() -> None:
    text = "x = 1\n" * 50_000
    document = READER.read(text.encode(), "a.py")
    assert (document.text, document.chunker) == (text, "sentence")
    assert f"{MOST_CODE_CHARACTERS:,}" in (document.unread or "")


def test_without_the_extra_code_is_cut_as_text_and_read_again_when_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_extra = name_reading(DocumentSettings())
    monkeypatch.setattr(extras, "_can_be_found", extras._can_be_found.__wrapped__)
    monkeypatch.setattr(
        "backstory.base.extras.find_spec", lambda name: None if name == "tree_sitter_go" else name
    )
    code._load_grammar.cache_clear()
    document = READER.read(b"package a\n", "a.go")
    assert document.chunker == "sentence"
    assert "tree_sitter_go, which is not installed; run `pip install 'backstory[code]'`" in (
        document.unread or ""
    )
    assert name_reading(DocumentSettings()) != with_extra
