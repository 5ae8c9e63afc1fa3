"""Cutting Python source code into chunks: one per function and class, by Python's own parser."""

from __future__ import annotations

import ast
import re
import sys
import threading
import warnings
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from backstory.base.errors import InputError
from backstory.text.chunking.cut import Span
from backstory.text.chunking.definitions import Definition, cut_definitions, cut_long_text
from backstory.text.chunking.tokens import CountTokens

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_MOST_DEPTH: Final = 20
_parser: Final = threading.Lock()
"""CPython 3.11 lets threads disturb each other in its parser, and the filters of warnings belong to all threads."""

_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class PythonSyntaxError(InputError):
    """A text is not Python source code of the version that runs; the message names the line."""


def cut_python(
    texts: Sequence[str],
    *,
    max_tokens: Sequence[int],
    overlap_tokens: int,  # noqa: ARG001 - part of every chunker; code is not repeated
    count_tokens: CountTokens,
) -> list[list[Span]]:
    """Cut many Python modules into chunks at once; see :func:`backstory.text.chunking.definitions.cut_definitions`.

    A definition over the ceiling is cut into its methods and nested functions, else at blank lines and lines. A text
    that is not valid Python has no definitions, and is cut so as a whole.

    It raises ``InputError`` if a single character is over the ceiling.
    """
    outlines = []
    for text in texts:
        try:
            outlines.append(outline_python(text))
        except PythonSyntaxError:  # the reader of documents has said so
            outlines.append(())
    return cut_definitions(
        texts, outlines, max_tokens=max_tokens, count_tokens=count_tokens, cut_long=cut_long_text
    )


def outline_python(text: str) -> tuple[Definition, ...]:
    """Find the functions and classes of a Python module.

    Each begins with the comment lines directly above it and its decorators, and ends with its last line. Functions and
    classes inside other statements, such as ``if`` and ``try``, are code of the module.

    It raises ``PythonSyntaxError`` if the text is not valid Python, or is nested too deeply to be parsed.
    """
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    try:
        with _parser, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of doubtful escapes in someone else's code
            module = ast.parse(text)
    except SyntaxError as error:
        raise PythonSyntaxError(f"not valid {version} in line {error.lineno or 1}: {error.msg}") from error
    except (RecursionError, MemoryError) as error:  # the parser reports a full stack as a lack of memory
        raise PythonSyntaxError(
            f"nested too deeply for the parser of {version}", code="nested_too_deeply"
        ) from error
    except ValueError as error:  # null bytes, half a surrogate pair
        raise PythonSyntaxError(f"not valid {version}: {error}") from error
    ends = [match.end() for match in _LINE_END.finditer(text)]
    return _outline(text, [0, *ends, len(text)], module.body, 0, 0)


def _outline(
    text: str, bounds: Sequence[int], body: Sequence[ast.stmt], first_line: int, depth: int
) -> tuple[Definition, ...]:
    """List the definitions of a body."""
    found = []
    for statement, line_above in zip(
        body, accumulate(map(_last_line, body), max, initial=first_line), strict=False
    ):
        if not isinstance(statement, _Named) or depth == _MOST_DEPTH:
            continue
        first = min([statement.lineno, *(mark.lineno for mark in statement.decorator_list)])
        while first - 1 > line_above and text[bounds[first - 2] : bounds[first - 1]].lstrip().startswith("#"):
            first -= 1
        code = text[
            bounds[first - 1] : bounds[_last_line(statement)]
        ].rstrip()  # a comment after it is part of it
        parts = _outline(text, bounds, statement.body, statement.lineno, depth + 1)
        found.append(Definition(bounds[first - 1], bounds[first - 1] + len(code), statement.name, parts))
    return tuple(found)


def _last_line(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
