from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.base.errors import MissingExtraError
from backstory.text.chunking import code
from backstory.text.chunking.code import CODE_LANGUAGES, CodeLanguage, cut_code, cut_code_in
from backstory.text.chunking.cut import Span
from backstory.text.chunking.tokens import estimate_tokens
from tests.errors import raises
from tests.long_tests import LONG_TESTS, some

SOURCES: dict[CodeLanguage, str] = {
    "bash": "#!/bin/sh\nset -e\n\n# Greets.\ngreet() {\n  echo hello\n}\n\ngreet\n",
    "c": "#ifndef A_H\n#include <a.h>\n\n/* Adds. */\nstatic int *add(int a) { return a; }\n\nstruct box { int a; };\n"
    "typedef struct { int b; } lid;\n#endif\n",
    "cpp": "namespace room {\nclass Box {\n public:\n  int open() { return 1; }\n};\n}\n"
    'extern "C" {\nint shut() { return 1; }\n}\n'
    "// Any.\ntemplate <class T> T any(T a) { return a; }\nint &Box::lid() { return x; }\n",
    "css": "/* Colours */\na { color: red; }\nb { color: blue; }\n",
    "go": "package main\n\n// Box is one.\ntype Box struct {\n\tA int\n}\n\n// Open it.\nfunc (b *Box) Open() {}\n",
    "java": "package x;\n\n/** A box. */\n@Safe\npublic class Box {\n  int a;\n\n  /** Opens. */\n"
    "  @Override\n  void open() {}\n  Box() {}\n}\n",
    "javascript": "import a from 'b'\n\n/** A box. */\nexport default class Box {\n  open() { return 'é😀' } // at once"
    "\n  #shut() {}\n}\n\nexport const twice = (x) => 2 * x\nfunction f() {}\nlet a, b\n",
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
    "css": [""],
    "go": ["", "Box", "Open"],
    "java": ["", "Box"],
    "javascript": ["", "Box", "twice", "f", ""],
    "ruby": ["Box", ""],
    "rust": ["", "Box", "fmt::Debug for Box"],
    "tsx": ["View"],
    "typescript": ["Lid", "Box", "Room"],
}


def cut(text: str, language: CodeLanguage, max_tokens: int) -> list[Span]:
    (spans,) = cut_code_in(language)(
        [text], max_tokens=[max_tokens], overlap_tokens=0, count_tokens=estimate_tokens
    )
    return spans


def check(text: str, spans: list[Span], max_tokens: int) -> None:
    chunks = [text[span.start : span.end] for span in spans]
    assert [span.token_count for span in spans] == estimate_tokens(chunks).tolist()
    assert all(span.token_count <= max_tokens for span in spans)
    assert all(chunk.strip() for chunk in chunks)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    assert not "".join(text[edges[place] : edges[place + 1]] for place in range(0, len(edges), 2)).strip()


@pytest.mark.parametrize("language", CODE_LANGUAGES)
def test_each_definition_is_a_chunk(language: CodeLanguage) -> None:
    text = SOURCES[language]
    spans = cut(text, language, 200)
    check(text, spans, 200)
    assert [span.heading for span in spans] == WHOLE[language]


def test_comments_and_attributes_belong_to_the_definition_below() -> None:
    text = SOURCES["rust"]
    found = {span.heading: text[span.start : span.end] for span in cut(text, "rust", 40)}
    assert found["Box"] == "/// A box.\n#[derive(Debug)]\nstruct Box { a: u8 }"
    assert found["fmt::Debug for Box"] == "impl fmt::Debug for Box {"
    assert found["fmt::Debug for Box > open"] == "    /// Opens.\n    fn open(&self) {}"
    assert found["fmt::Debug for Box > shut"] == "    fn shut(&self) {}\n}"


def test_a_comment_beside_a_definition_belongs_to_it() -> None:
    text = SOURCES["javascript"]
    found = {span.heading: text[span.start : span.end] for span in cut(text, "javascript", 40)}
    assert found["Box > open"] == "  open() { return 'é😀' } // at once"


def test_a_long_function_is_cut_at_its_statements() -> None:
    lines = "".join(f"    let value_{number} = compute({number}, 2);\n" for number in range(40))
    text = f"fn long() {{\n{lines}}}\n"
    spans = cut(text, "rust", 100)
    check(text, spans, 100)
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
    check(text, cut(text, language, max_tokens), max_tokens)


@pytest.mark.parametrize(("number", "language"), list(enumerate(CODE_LANGUAGES)))
def test_deep_nesting_ends(number: int, language: CodeLanguage) -> None:
    bombs = ("{(" * 5_000, "class A{" * 1_000, "/*" * 1_000)
    for bomb in bombs if LONG_TESTS else bombs[number % len(bombs) :][:1]:
        check(bomb, cut(bomb, language, 500), 500)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backstory.base.extras._found", set())
    monkeypatch.setattr("backstory.base.extras.find_spec", lambda _: None)
    code._load_pointer.cache_clear()
    code._load_grammar.cache_clear()
    with raises(MissingExtraError):
        cut_code(["package a"], language="go", max_tokens=[9], overlap_tokens=0, count_tokens=estimate_tokens)
