from __future__ import annotations

import ast
import inspect
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backstory.text.chunking import cut, definitions, outline
from backstory.text.chunking.cut import Span
from backstory.text.chunking.python_code import PythonSyntaxError, cut_python, outline_python
from backstory.text.chunking.tokens import estimate_tokens
from tests.long_tests import some

MODULE = '''\
"""A module."""

import re

LIMIT = 3


# Doubles a number,
# as it says.
@cache
@other(
    1,
)
def double(number):
    """Double it."""
    return 2 * number  # at once


class Box:
    """A box."""

    size = 1

    # opens it
    def open(self):
        def inner():
            pass

        return inner

    async def close(self): return 1  # quickly

    shut = close


if LIMIT:
    def hidden(): ...

# The end.
'''


def cut_one(text: str, max_tokens: int) -> list[Span]:
    (spans,) = cut_python([text], max_tokens=[max_tokens], overlap_tokens=0, count_tokens=estimate_tokens)
    return spans


def show(text: str, spans: list[Span]) -> list[tuple[str, str]]:
    return [(span.heading, text[span.start : span.end]) for span in spans]


def check(text: str, spans: list[Span], max_tokens: int) -> None:
    assert [span.token_count for span in spans] == estimate_tokens(
        [text[span.start : span.end] for span in spans]
    ).tolist()
    assert all(span.token_count <= max_tokens for span in spans)
    assert all(before.end <= after.start for before, after in pairwise(spans))
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    assert not "".join(text[edges[place] : edges[place + 1]] for place in range(0, len(edges), 2)).strip()
    assert all(text[span.start : span.end].strip() for span in spans)


def test_each_definition_is_a_chunk_with_its_comment_and_decorators() -> None:
    found = show(MODULE, cut_one(MODULE, 500))
    assert [heading for heading, _ in found] == ["", "double", "Box", ""]
    assert found[0][1] == '"""A module."""\n\nimport re\n\nLIMIT = 3'
    assert found[1][1].startswith("# Doubles a number,\n# as it says.\n@cache\n@other(")
    assert found[1][1].endswith("return 2 * number  # at once")
    assert found[2][1].endswith("shut = close")
    assert found[3][1] == "if LIMIT:\n    def hidden(): ...\n\n# The end."


def test_a_class_over_the_ceiling_is_cut_at_its_methods() -> None:
    found = show(MODULE, cut_one(MODULE, 75))
    assert [part for part in found if part[0].startswith("Box")] == [
        ("Box", 'class Box:\n    """A box."""\n\n    size = 1'),
        (
            "Box > open",
            "    # opens it\n    def open(self):\n        def inner():\n            pass\n\n        return inner",
        ),
        ("Box > close", "    async def close(self): return 1  # quickly"),
        ("Box", "    shut = close"),
    ]


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_ends_change_nothing(end: str) -> None:
    other = MODULE.replace("\n", end)
    assert [(heading, text.replace(end, "\n")) for heading, text in show(other, cut_one(other, 500))] == show(
        MODULE, cut_one(MODULE, 500)
    )


@pytest.mark.parametrize("module", [random, cut, definitions, outline])
@pytest.mark.parametrize("max_tokens", [60, 400])
def test_real_modules_are_cut_at_every_definition(module: object, max_tokens: int) -> None:
    text = inspect.getsource(module)  # type: ignore[arg-type]
    spans = cut_one(text, max_tokens)
    check(text, spans, max_tokens)
    starts = {span.start for span in spans}
    for definition in outline_python(text):
        assert definition.start in starts
        assert not any(span.start < definition.end < span.end for span in spans)
        (node,) = ast.parse(text[definition.start : definition.end]).body
        assert getattr(node, "name", None) == definition.name


PARTS = st.sampled_from(
    ["def f():", "    pass", "    def g(self): ...", "class A:", "", "# note", "@mark", "    '''a", "b'''", "x = (",
     ")", "\tif x:", "\x0c", "é = 1  # 😀", "    async def h():", "        return [", "        ]", "x = '''", "'''"]
)  # fmt: skip


@settings(deadline=None, max_examples=some(80))
@given(
    lines=st.lists(PARTS, max_size=30), end=st.sampled_from(["\n", "\r\n"]), max_tokens=st.integers(16, 80)
)
def test_any_text_is_cut_without_loss(lines: list[str], end: str, max_tokens: int) -> None:
    text = end.join(lines)
    check(text, cut_one(text, max_tokens), max_tokens)


@pytest.mark.parametrize(
    ("text", "codes", "line"),
    [
        ("x = 1\ndef f(:\n", ["python_syntax"], 2),
        ("print 'two'", ["python_syntax"], 1),
        ("a\0b", ["python_syntax"], None),
        ("x = '\udc80'", ["python_syntax"], None),
        ("(" * 100_000, ["python_syntax", "nested_too_deeply"], None),
        ("-" * 100_000 + "1", ["nested_too_deeply"], None),
        ("a" + ".a" * 100_000, ["nested_too_deeply"], None),
        ("if 1: pass\n" + "elif 1: pass\n" * 20_000, ["nested_too_deeply"], None),
        ("lambda:" * 50_000 + "1", ["nested_too_deeply"], None),
    ],
)  # fmt: skip
def test_what_is_not_python_is_refused_and_cut_as_text(text: str, codes: list[str], line: int | None) -> None:
    with pytest.raises(PythonSyntaxError) as raised:
        outline_python(text)
    assert raised.value.code in codes
    assert line is None or f"line {line}" in str(raised.value)
    if len(text) < 1000:
        spans = cut_one(text, 100)
        check(text, spans, 100)
        assert {span.heading for span in spans} == {""}


def test_classes_within_classes_are_followed_to_a_depth() -> None:
    text = "\n".join(" " * depth + f"class A{depth}:" for depth in range(60)) + "\n" + " " * 60 + "pass"
    spans = cut_one(text, 24)
    check(text, spans, 24)
    assert spans[-1].heading.count(" > ") == 19
