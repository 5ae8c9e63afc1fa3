"""The definitions in source code, at which it is cut, as tree-sitter finds them.

tree-sitter is installed with the extra ``code``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from backstory.base.extras import require_extra
from backstory.text.chunking.outline import Outline, Part, outline_paragraphs

if TYPE_CHECKING:
    from tree_sitter import Language, Node

CodeLanguage: TypeAlias = Literal[
    "bash", "c", "cpp", "go", "java", "javascript", "python", "ruby", "rust", "tsx", "typescript"
]

CODE_LANGUAGES: Final[tuple[CodeLanguage, ...]] = get_args(CodeLanguage)

_CLOSING: Final = re.compile(r"(?:\W|_|\bend(?:if)?\b)+")
"""What closes a definition in languages with brackets, in Ruby, and in the preprocessor of C."""

_COMMENTS: Final = frozenset({"comment", "line_comment", "block_comment", "attribute_item", "decorator"})
"""Nodes before a definition that belong to it."""

_BESIDE: Final = _COMMENTS | {"template_parameter_list"}
"""Nodes beside a definition in the node that holds it, such as an export."""

_TRANSPARENT: Final = frozenset(
    {"linkage_specification", "preproc_elif", "preproc_else", "preproc_if", "preproc_ifdef"}
)
"""Nodes whose content counts as content of the node around them."""

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
"""Characters for which the parser gets one letter or space, so that it counts as Python does."""
_NAME_CHARACTERS: Final = 100
_TYPES_WITHOUT_BODY: Final = frozenset({"struct_type", "interface_type"})
_MOST_DEPTH: Final = 20
_MOST_WRAPPERS: Final = 4


class Definition(NamedTuple):
    """A function, a class, a method and the like, with the comment and the decorators above it.

    Its ``parts`` are the definitions directly in it, in order, without overlap.
    """

    start: int
    end: int
    name: str
    parts: Sequence[Definition]


def outline_code(text: str, language: CodeLanguage) -> Outline:
    """Keep apart the outermost definitions and the code between them, and in each the definitions in it.

    A heading names a definition with those around it, such as ``"Class > method"``; it is empty between definitions.
    """
    headings: list[tuple[int, str]] = []
    parts = _list_parts(text, Definition(0, len(text), "", find_definitions(text, language)), headings)
    starts, names = [start for start, _ in headings], [name for _, name in headings]
    return Outline(outline_paragraphs(text).units, parts, starts, names)


def _list_parts(text: str, whole: Definition, headings: list[tuple[int, str]]) -> tuple[Part, ...]:
    """Divide code into its definitions and what is between them, each with its heading.

    What only closes a definition, such as a bracket, belongs to the part before it.
    """
    parts: list[Part] = []
    position = whole.start
    below = [definition.start for definition in whole.parts[1:]]
    for definition, following in zip(whole.parts, [*below, whole.end], strict=False):
        if text[position : definition.start].strip():
            headings.append((position, whole.name))
            parts.append(Part(position, definition.start))
        position = following if _CLOSING.fullmatch(text, definition.end, following) else definition.end
        name = f"{whole.name} > {definition.name}" if whole.name else definition.name
        headings.append((definition.start, name))
        inner = _list_parts(text, definition._replace(end=position, name=name), headings)
        parts.append(Part(definition.start, position, inner))
    if text[position : whole.end].strip():
        headings.append((position, whole.name))
        parts.append(Part(position, whole.end))
    return tuple(parts)


def find_definitions(text: str, language: CodeLanguage) -> Sequence[Definition]:
    """Find the definitions in source code, which have a name and a body, with the comments and decorators above each.

    Those inside other statements, such as ``if``, are code of the module. It raises ``MissingExtraError`` without the
    extra.
    """
    grammar = _load_grammar(language)
    from tree_sitter import Parser

    content = _NOT_ASCII.sub(lambda found: " " if found[0].isspace() else "a", text).encode()
    return _find_in_tree(Parser(grammar).parse(content).root_node, text, 0)


@cache
def _load_grammar(language: CodeLanguage) -> Language:
    require_extra("code", f"cutting {language} source code into definitions", "read the file as text")
    from tree_sitter import Language

    if language in ("tsx", "typescript"):
        return Language(getattr(import_module("tree_sitter_typescript"), f"language_{language}")())
    return Language(import_module(f"tree_sitter_{language}").language())


def _find_in_tree(parent: Node, text: str, depth: int) -> list[Definition]:
    """List the definitions directly in a node."""
    found: list[Definition] = []
    above: int | None = None
    position = parent.start_byte
    for node in _list_children(parent, 0):
        line = text.rfind("\n", 0, node.start_byte) + 1
        is_first = not text[line : node.start_byte].strip()
        start = line if is_first else node.start_byte
        end = position + len(text[position : node.end_byte].rstrip())
        if above is not None and text.count("\n", position, start) > 1:
            above = None  # a blank line is between
        if node.type in _COMMENTS:
            if is_first:
                above = start if above is None else above
            elif found and found[-1].end == position:
                found[-1] = found[-1]._replace(end=end)
        else:
            definition = _find_definition(node, text) if depth < _MOST_DEPTH else None
            if definition is not None:
                name, body = definition
                parts = _find_in_tree(body, text, depth + 1)
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


def _find_definition(node: Node, text: str) -> tuple[str, Node] | None:
    """Return the name and the body of a definition, also of one that a node holds alone; None for any other node."""
    for _ in range(_MOST_WRAPPERS):
        name, body = _name(node, text), node.child_by_field_name("body")
        holder = node.child_by_field_name("value") or node.child_by_field_name("type")
        if body is None and holder is not None:
            body = holder if holder.type in _TYPES_WITHOUT_BODY else holder.child_by_field_name("body")
        if name and body is not None:
            return name, body
        inner = [child for child in node.named_children if child.type not in _BESIDE]
        if len(inner) != 1:
            break
        node = inner[0]
    return None


def _name(node: Node, text: str) -> str:
    named = [node.child_by_field_name("name")]
    declarator = node.child_by_field_name("declarator")
    if node.type == "impl_item":
        named = [node.child_by_field_name("trait"), node.child_by_field_name("type")]
    while named == [None] and declarator is not None:
        is_reference = declarator.type == "reference_declarator"
        inner = declarator.named_child(0) if is_reference else declarator.child_by_field_name("declarator")
        named = [declarator if inner is None else None]
        declarator = inner
    names = (" ".join(text[each.start_byte : each.end_byte].split()) for each in named if each is not None)
    return " for ".join(name[:_NAME_CHARACTERS] for name in names)
