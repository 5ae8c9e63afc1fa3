"""Escaping foreign text in a prompt, so that no document content can be read as structure of the prompt.

Readers differ: Markdown ends a line at a line feed only, Python and terminals also at other characters. A parser
sees an invisible character before a ``#``, a person does not. So line ends are unified, invisible characters are
dropped, and everything that some reader takes for structure gets a backslash. Other text is unchanged.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache
from typing import Final

import regex

_LINE_END: Final = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_WHITESPACE: Final = re.compile(r"\s+")

# Control characters, including the escape of terminals; direction marks; characters without width, such as the tag
# characters that are used to hide instructions.
_UNSEEN: Final = regex.compile(
    r"(?V1)[[\p{Cc}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]"
    r"--[\t\n\u00ad\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef]]+"
)
_SELECTOR: Final = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_JOINERS: Final = re.compile(f"(?:[\u00ad\u200c\u200d]|{_SELECTOR})+")
_ONE_SELECTOR: Final = re.compile(_SELECTOR)
_ONE_JOINER: Final = re.compile(f"{_SELECTOR}?[\u200c\u200d]")
_SOFT_HYPHEN: Final = "\u00ad"
_KEYCAP: Final = "\ufe0f\u20e3"

# A model's marker such as <|im_start|>, a comment, a closing tag; a web address in angle brackets is not a tag.
_MARKER: Final = re.compile(r"<(?=[/!?|｜])")
_TAG: Final = re.compile(r"<(?=[A-Za-z])(?!https?://[^\s<>]*>)")
_IMAGE: Final = re.compile(r"!(?=\[)")
_INSTRUCTION: Final = re.compile(
    r"\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\])", re.IGNORECASE
)
_LINK: Final = re.compile(r"\](?=\(\s*<?([^\s)>]*))")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_HARMLESS_SCHEMES: Final = frozenset({"http", "https", "mailto", "tel"})

# Spaces of every kind, the empty Braille pattern, and combining accents without a base letter.
_BLANKS: Final = regex.compile(r"(?:[^\S\n]|\p{M}|\u2800)*+")
_CONTAINER: Final = re.compile(r">|[-+*](?=\s|$)|\d{1,9}[.)](?=\s|$)", re.MULTILINE)
# Underlines of a heading, rules, and definitions that would make a link of a title.
_BLOCK: Final = (
    r"=+[ \t]*$|-+[ \t]*$|([-*_])(?:[ \t]*\1){2,}[ \t]*$|`{3}|~{3}|<(?!\\)|\[(?:[^\[\]\\]|\\.)*+\]:"
)
_AT_LINE_START: Final = re.compile(rf"#|={{2,}}|-{{2,}}|{_BLOCK}", re.MULTILINE | re.DOTALL)
_IN_CONTAINER: Final = re.compile(rf"#{{1,6}}(?=\s|$)|{_BLOCK}", re.MULTILINE | re.DOTALL)
_ROLE: Final = re.compile(
    r"([*_]{0,3}(?:human|assistant|system|user|developer)[*_]{0,3}[^\S\n]*)[:：]", re.IGNORECASE
)
_ITEM: Final = re.compile(r"(?:[-+*•‣⁃∙·–—−]|\d{1,9}[.)])([^\n]{1,200})")
_NO_LETTER: Final = re.compile(r"[^\w:]|_")
_FIELDS: Final = ("tags:", "similarity:")


@lru_cache(maxsize=512)  # the same documents stand in the contexts of many windows
def escape_block(text: str) -> str:
    """Escape everything that could be read as structure of the prompt with a backslash.

    It returns lines that end with a line feed. As CommonMark they contain paragraphs, lists, quotes, indented code and
    web links. They contain no heading, rule, fence, HTML, image or link definition, no link of another scheme, and no
    list item that looks like a line of the prompt entry itself.
    """
    lines = _escape_inline(_drop_unseen(_LINE_END.sub("\n", text)))
    pieces, done = [], 0
    for begin in re.finditer("^", lines, re.MULTILINE):
        place = _find_structure(lines, begin.start())
        if place is not None:
            pieces += [lines[done:place], "\\"]
            done = place
    return "".join([*pieces, lines[done:]])


@lru_cache(maxsize=4096)
def escape_line(text: str) -> str:
    """Fold a text into one line without brackets that would close a title early, and without inline structure."""
    folded = _WHITESPACE.sub(" ", _drop_unseen(_LINE_END.sub(" ", text))).strip()
    return _escape_inline(folded.replace("[", "(").replace("]", ")"))


def _drop_unseen(text: str) -> str:
    return (
        text if text.isascii() and text.isprintable() else _JOINERS.sub(_keep_joiners, _UNSEEN.sub("", text))
    )


def _keep_joiners(found: re.Match[str]) -> str:
    """Keep joiners, which emoji and several scripts need; drop them next to ASCII, where they could hide a marker."""
    run, text = found[0], found.string
    start, end = found.span()
    before, after = text[max(start - 1, 0) : start], text[end : end + 1]
    if run == _SOFT_HYPHEN:
        return run if before.isalnum() and after.isalnum() else ""
    if _ONE_SELECTOR.fullmatch(run):
        return run if _is_foreign(before) or f"{run}{after}" == _KEYCAP else ""
    return run if _ONE_JOINER.fullmatch(run) and _is_foreign(before) and _is_foreign(after) else ""


def _is_foreign(character: str) -> bool:
    return bool(character) and not character.isascii() and not character.isspace()


def _escape_inline(text: str) -> str:
    if not ("<" in text or "[" in text or "]" in text):  # as in most messages
        return text
    # A backslash after the "<" breaks both a Markdown tag and a model's marker. A backslash that the author wrote
    # before the "<" cannot undo it. A "<" before a letter without a later ">" is a comparison.
    end = text.rfind(">") + 1
    text = _TAG.sub(r"<\\", text[:end]) + text[end:]
    text = _IMAGE.sub(r"!\\", _MARKER.sub(r"<\\", text))
    return _INSTRUCTION.sub(r"[\\", _LINK.sub(_escape_link, text))


def _escape_link(found: re.Match[str]) -> str:
    scheme = _SCHEME.match(html.unescape(found[1]).replace("\\", ""))
    harmless = scheme is None or scheme[1].lower() in _HARMLESS_SCHEMES
    return found[0] if harmless else f"{found[0]}\\"


def _find_structure(text: str, place: int) -> int | None:
    """Find the position of a line's backslash: before its structure, also inside quotes and lists."""
    structure = _AT_LINE_START
    while blanks := _BLANKS.match(text, place):
        place = blanks.end()
        if structure.match(text, place) or _forges_field(text, place):
            return place
        if structure is _AT_LINE_START and (role := _ROLE.match(text, place)):
            return role.end(1)
        marker = _CONTAINER.match(text, place)
        if marker is None:
            return None
        place, structure = marker.end(), _IN_CONTAINER
    return None


def _forges_field(text: str, place: int) -> bool:
    item = _ITEM.match(text, place)
    if item is None:
        return False
    label = _NO_LETTER.sub("", unicodedata.normalize("NFKC", html.unescape(item[1])).casefold())
    return label.startswith(_FIELDS)
