from __future__ import annotations

import inspect
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.base import extras
from backstory.base.errors import MissingExtraError
from backstory.text.chunking import code, cut, outline
from backstory.text.chunking.code import CODE_LANGUAGES, CodeLanguage, find_definitions
from backstory.text.chunking.cut import Span
from backstory.text.chunking.units import ESTIMATED_TOKENS
from tests.errors import raises
from tests.long_tests import LONG_TESTS, some
from tests.text.chunking.cutting import check_spans, cut_by

SOURCES: dict[CodeLanguage, str] = {
    "bash": "#!/bin/sh\nset -e\n\n# Greets.\ngreet() {\n  echo hello\n}\n\ngreet\n",
    "c": "#ifndef A_H\n#include <a.h>\n\n/* Adds. */\nstatic int *add(int a) { return a; }\n\nstruct box { int a; };\n"
    "typedef struct { int b; } lid;\n#endif\n",
    "cpp": "namespace room {\nclass Box {\n public:\n  int open() { return 1; }\n};\n}\n"
    'extern "C" {\nint shut() { return 1; }\n}\n'
    "// Any.\ntemplate <class T> T any(T a) { return a; }\nint &Box::lid() { return x; }\n",
    "go": "package main\n\n// Box is one.\ntype Box struct {\n\tA int\n}\n\n// Open it.\nfunc (b *Box) Open() {}\n",
    "java": "package x;\n\n/** A box. */\n@Safe\npublic class Box {\n  int a;\n\n  /** Opens. */\n"
    "  @Override\n  void open() {}\n  Box() {}\n}\n",
    "javascript": "import a from 'b'\n\n/** A box. */\nexport default class Box {\n  open() { return 'é😀' } // at once"
    "\n  #shut() {}\n}\n\nexport const twice = (x) => 2 * x\nfunction f() {}\nlet a, b\n",
    "python": "import re\n\n# Doubles.\n@cache\ndef double(number):\n    return 2 * number  # at once\n\n"
    "class Box:\n    size = 1\n\n    # Shuts.\n    async def shut(self): return 1  # quickly\n\n"
    "if re:\n    def hidden(): ...\n",
    "ruby": "# A box.\nclass Box\n  # Opens.\n  def open; 1; end\n\n  def shut; 2; end\nend\n\nputs 1\n",
    "rust": "use std::fmt;\n\n/// A box.\n#[derive(Debug)]\nstruct Box { a: u8 }\n\nimpl fmt::Debug for Box {\n"
    "    /// Opens.\n    fn open(&self) {}\n\n    fn shut(&self) {}\n}\n",
    "tsx": "function View() {\n  return <b>hello</b>\n}\n",
    "typescript": "interface Lid { a: string }\n\n@Safe()\nexport class Box {\n  constructor(private a: number) {}\n}\n"
    "namespace Room {\n  export function enter() {}\n}\n",
}

WHOLE: dict[CodeLanguage, list[str]] = {
    "bash": ["", "greet", ""],
    "c": ["", "add", "box", "lid"],
    "cpp": ["room", "", "shut", "any", "Box::lid"],
    "go": ["", "Box", "Open"],
    "java": ["", "Box"],
    "javascript": ["", "Box", "twice", "f", ""],
    "python": ["", "double", "Box", ""],
    "ruby": ["Box", ""],
    "rust": ["", "Box", "fmt::Debug for Box"],
    "tsx": ["View"],
    "typescript": ["Lid", "Box", "Room"],
}


def cut_code(text: str, language: CodeLanguage, max_tokens: int) -> list[Span]:
    return cut_by(language, text, ESTIMATED_TOKENS, max_tokens=max_tokens)


def cut_python(text: str, max_tokens: int) -> list[Span]:
    return cut_code(text, "python", max_tokens)


def check_code(text: str, spans: list[Span], max_tokens: int) -> None:
    check_spans(text, spans, max_tokens, ESTIMATED_TOKENS)
    assert all(before.end <= after.start for before, after in pairwise(spans)), "code is repeated"


@pytest.mark.parametrize("language", CODE_LANGUAGES)
def test_each_definition_is_a_chunk(language: CodeLanguage) -> None:
    text = SOURCES[language]
    spans = cut_code(text, language, 200)
    check_code(text, spans, 200)
    assert [span.heading for span in spans] == WHOLE[language]


@pytest.mark.parametrize(
    ("language", "heading", "chunk"),
    [
        ("rust", "Box", "/// A box.\n#[derive(Debug)]\nstruct Box { a: u8 }"),
        ("rust", "fmt::Debug for Box", "impl fmt::Debug for Box {"),
        ("rust", "fmt::Debug for Box > open", "    /// Opens.\n    fn open(&self) {}"),
        ("rust", "fmt::Debug for Box > shut", "    fn shut(&self) {}\n}"),
        ("javascript", "Box > open", "  open() { return 'é😀' } // at once"),
        ("python", "double", "# Doubles.\n@cache\ndef double(number):\n    return 2 * number  # at once"),
        ("python", "Box", "class Box:\n    size = 1"),
        ("python", "Box > shut", "    # Shuts.\n    async def shut(self): return 1  # quickly"),
    ],
)
def test_comments_and_attributes_belong_to_their_definition(
    language: CodeLanguage, heading: str, chunk: str
) -> None:
    text = SOURCES[language]
    found = {span.heading: text[span.start : span.end] for span in cut_code(text, language, 50)}
    assert found[heading] == chunk


def test_a_long_function_is_cut_at_its_statements() -> None:
    lines = "".join(f"    let value_{number} = compute({number}, 2);\n" for number in range(40))
    text = f"fn long() {{\n{lines}}}\n"
    spans = cut_code(text, "rust", 100)
    check_code(text, spans, 100)
    assert {span.heading for span in spans} == {"long"}
    assert all(text[span.start : span.end].rstrip("\n}").endswith((";", "()", "{")) for span in spans)


@settings(deadline=None, max_examples=some(15))
@given(data=st.data(), max_tokens=st.integers(16, 60))
@pytest.mark.parametrize("language", CODE_LANGUAGES)
def test_damaged_code_is_cut_without_loss(
    language: CodeLanguage, data: st.DataObject, max_tokens: int
) -> None:
    text = SOURCES[language]
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(text)))
        size = data.draw(st.integers(0, 12))
        text = (
            text[:at]
            + data.draw(st.sampled_from(["", "{", "}", "(", "é", "\n", "\0", "/*", "'", "😀\r\n"]))
            + text[at + size :]
        )
    check_code(text, cut_code(text, language, max_tokens), max_tokens)


@pytest.mark.parametrize(("number", "language"), list(enumerate(CODE_LANGUAGES)))
def test_deep_nesting_ends(number: int, language: CodeLanguage) -> None:
    bombs = ("{(" * 5_000, "class A{" * 1_000, "/*" * 1_000)
    for bomb in bombs if LONG_TESTS else bombs[number % len(bombs) :][:1]:
        check_code(bomb, cut_code(bomb, language, 500), 500)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_can_be_found", extras._can_be_found.__wrapped__)
    monkeypatch.setattr("backstory.base.extras.find_spec", lambda _: None)
    code._load_grammar.cache_clear()
    with raises(MissingExtraError):
        find_definitions("package a", "go")


@pytest.mark.parametrize("module", [random, cut, code, outline])
@pytest.mark.parametrize("max_tokens", [60, 400])
def test_real_modules_are_cut_at_every_definition(module: object, max_tokens: int) -> None:
    text = inspect.getsource(module)  # type: ignore[arg-type]
    spans = cut_python(text, max_tokens)
    check_code(text, spans, max_tokens)
    definitions = find_definitions(text, "python")
    assert [definition.name for definition in definitions] == re.findall(
        r"(?m)^(?:async )?(?:def|class) (\w+)", text
    )
    assert {definition.start for definition in definitions} <= {span.start for span in spans}
    for definition in definitions:
        assert not any(span.start < definition.end < span.end for span in spans)


def test_classes_within_classes_are_followed_to_a_depth() -> None:
    text = "\n".join(" " * depth + f"class A{depth}:" for depth in range(60)) + "\n" + " " * 60 + "pass"
    spans = cut_python(text, 250)
    check_code(text, spans, 250)
    assert spans[-1].heading.count(" > ") == 19
