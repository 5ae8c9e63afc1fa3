"""Cutting source code of languages that tree-sitter parses into chunks: one per definition.

tree-sitter finds the definitions; a definition over the ceiling that has no others in it is cut by
``semantic_text_splitter`` at statements. Both are installed with the extra ``code``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from backstory.base.extras import require_extra
from backstory.text.chunking.cut import Cut, Span, cut_chunks
from backstory.text.chunking.definitions import Definition, cut_definitions
from backstory.text.chunking.tokens import CountTokens

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Tree

CodeLanguage: TypeAlias = Literal[
    "bash", "c", "cpp", "css", "go", "java", "javascript", "ruby", "rust", "tsx", "typescript"
]

CODE_LANGUAGES: Final[tuple[CodeLanguage, ...]] = get_args(CodeLanguage)


_GRAMMARS: Final[dict[CodeLanguage, tuple[str, str]]] = {
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
"""Module and function of a grammar whose names do not follow from the language's."""

_COMMENTS: Final = frozenset({"comment", "line_comment", "block_comment", "attribute_item", "decorator"})
"""Nodes before a definition that belong to it."""

_WRAPPERS: Final = frozenset(
    {
        "ambient_declaration", "export_statement", "expression_statement", "lexical_declaration",
        "template_declaration", "type_declaration", "variable_declaration",
    }
)  # fmt: skip
"""Nodes that hold one definition, and little else."""

_BESIDE: Final = _COMMENTS | {"template_parameter_list"}
"""Nodes in a wrapper next to its definition."""

_TRANSPARENT: Final = frozenset(
    {"linkage_specification", "preproc_elif", "preproc_else", "preproc_if", "preproc_ifdef"}
)
"""Nodes whose content counts as content of the node around them."""

_NAME_CHARACTERS: Final = 100
_TYPES_WITHOUT_BODY: Final = frozenset({"struct_type", "interface_type"})
_MOST_DEPTH: Final = 20
_MOST_LEVELS: Final = 100
_MOST_WRAPPERS: Final = 4


def cut_code_in(language: CodeLanguage) -> Cut:
    """Return the function that cuts texts of one language; see :func:`cut_code`."""
    return partial(cut_code, language=language)


def cut_code(
    texts: Sequence[str],
    *,
    language: CodeLanguage,
    max_tokens: Sequence[int],
    overlap_tokens: int,  # noqa: ARG001 - part of every chunker; code is not repeated
    count_tokens: CountTokens,
) -> list[list[Span]]:
    """Cut many texts of one language at once; see :func:`backstory.text.chunking.definitions.cut_definitions`.

    A definition over the ceiling is cut into the definitions in it, else at its statements.

    It raises ``InputError`` if a single character is over the ceiling. It raises ``MissingExtraError`` if the extra
    ``code`` is not installed.
    """
    outlines = [outline_code(text, language) for text in texts]
    return cut_definitions(
        texts,
        outlines,
        max_tokens=max_tokens,
        count_tokens=count_tokens,
        cut_long=partial(_cut_statements, language),
    )


def outline_code(text: str, language: CodeLanguage) -> tuple[Definition, ...]:
    """Find the definitions in source code: what has a name and a body.

    Each begins with the comments and attributes directly above it.

    It raises ``MissingExtraError`` if the extra ``code`` is not installed.
    """
    content = text.encode("utf-8", "surrogatepass")
    return tuple(_outline(_parse(content, language).root_node, text, _number_characters(content), 0))


def _parse(content: bytes, language: CodeLanguage) -> Tree:
    grammar = _load_grammar(language)
    from tree_sitter import Parser

    return Parser(grammar).parse(content)


@cache
def _load_grammar(language: CodeLanguage) -> Language:
    pointer = _load_pointer(language)  # first, since it names the extra of an absent package
    from tree_sitter import Language

    return Language(pointer)


@cache
def _load_pointer(language: CodeLanguage) -> object:
    require_extra("code", f"cutting {language} source code into definitions", "read the file as text")
    module, function = _GRAMMARS.get(language, (f"tree_sitter_{language}", "language"))
    return getattr(import_module(module), function)()


def _number_characters(content: bytes) -> NDArray[np.int64]:
    """Return the number of characters that begin before each byte of a text in UTF-8, and before its end."""
    begins = (np.frombuffer(content, np.uint8) & 0xC0) != 0x80
    return np.concatenate([[0], np.cumsum(begins)]).astype(np.int64)


def _outline(parent: Node, text: str, characters: NDArray[np.int64], depth: int) -> list[Definition]:
    """List the definitions directly in a node."""
    found: list[Definition] = []
    above: int | None = None
    position = int(characters[parent.start_byte])
    for node in _list_children(parent, 0):
        start, is_first = _begin_of_line(text, int(characters[node.start_byte]))
        end = position + len(text[position : int(characters[node.end_byte])].rstrip())
        if above is not None and text.count("\n", position, start) > 1:
            above = None  # a blank line is between
        if node.type in _COMMENTS:
            if is_first:
                above = start if above is None else above
            elif found and found[-1].end == position:
                found[-1] = replace(found[-1], end=end)
        else:
            definition = _find_definition(node) if depth < _MOST_DEPTH else None
            if definition is not None:
                name, body = definition
                parts = tuple(_outline(body, text, characters, depth + 1))
                found.append(Definition(start if above is None else above, end, name, parts))
            above = None
        position = max(position, end)
    return found


def _list_children(parent: Node, depth: int) -> Iterator[Node]:
    """List the nodes in a node, those inside conditions of the preprocessor among them."""
    for node in parent.named_children:
        if node.type in _TRANSPARENT and depth < _MOST_WRAPPERS:
            yield from _list_children(node.child_by_field_name("body") or node, depth + 1)
        else:
            yield node


def _find_definition(node: Node) -> tuple[str, Node] | None:
    """Return the name and the body of a definition; None for any other node."""
    for _ in range(_MOST_WRAPPERS):
        if node.type not in _WRAPPERS:
            break
        inner = [child for child in node.named_children if child.type not in _BESIDE]
        if len(inner) != 1:
            return None
        node = inner[0]
    holder = node.child_by_field_name("value") or node.child_by_field_name("type")
    body = node.child_by_field_name("body")
    if body is None and holder is not None:
        body = holder if holder.type in _TYPES_WITHOUT_BODY else holder.child_by_field_name("body")
    name = _name(node)
    return (name, body) if name and body is not None else None


def _name(node: Node) -> str:
    if node.type == "impl_item":
        parts = [node.child_by_field_name("trait"), node.child_by_field_name("type")]
        return " for ".join(_read(part) for part in parts if part is not None)
    named = node.child_by_field_name("name")
    declarator = node.child_by_field_name("declarator")
    while named is None and declarator is not None:
        is_reference = declarator.type == "reference_declarator"
        inner = declarator.named_child(0) if is_reference else declarator.child_by_field_name("declarator")
        named = declarator if inner is None else None
        declarator = inner
    return "" if named is None else _read(named)


def _read(node: Node) -> str:
    return " ".join((node.text or b"").decode("utf-8", "replace").split())[:_NAME_CHARACTERS]


def _begin_of_line(text: str, start: int) -> tuple[int, bool]:
    """Return the beginning of a line if only blanks are before an offset, else the offset; and which of both."""
    line = text.rfind("\n", 0, start) + 1
    is_first = not text[line:start].strip()
    return (line if is_first else start), is_first


def _cut_statements(
    language: CodeLanguage, texts: Sequence[str], max_tokens: Sequence[int], count_tokens: CountTokens
) -> list[list[Span]]:
    """Cut code at its statements, and deeply nested code at lines; see :data:`.definitions.CutLong`."""
    from semantic_text_splitter import CodeSplitter

    pieces: list[tuple[int, int, int]] = []
    for number, (text, ceiling) in enumerate(zip(texts, max_tokens, strict=True)):
        if _is_deep(text, language):
            pieces.append((number, 0, len(text)))
            continue
        splitter = CodeSplitter.from_callback(
            _load_pointer(language), lambda piece: int(count_tokens([piece])[0]), ceiling
        )
        pieces += [(number, start, start + len(piece)) for start, piece in splitter.chunk_indices(text)]
    slices = [texts[number][start:end] for number, start, end in pieces]
    # The splitter may exceed a ceiling where a single token of the language does.
    cut = cut_chunks(
        slices,
        max_tokens=[max_tokens[number] for number, _, _ in pieces],
        overlap_tokens=0,
        count_tokens=count_tokens,
    )
    spans: list[list[Span]] = [[] for _ in texts]
    for (number, start, _), found in zip(pieces, cut, strict=True):
        spans[number] += [piece._replace(start=start + piece.start, end=start + piece.end) for piece in found]
    return spans


def _is_deep(text: str, language: CodeLanguage) -> bool:
    """Return whether code is nested so deeply that the splitter, which tries every level, takes long."""
    cursor = _parse(text.encode("utf-8", "surrogatepass"), language).walk()
    depth = 0
    while depth <= _MOST_LEVELS:
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return False
            depth -= 1
    return True
