"""Rewrites the links of Markdown for the place where it will be shown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final

from backstory.interfaces.pages.report.page import drop_controls
from backstory.interfaces.pages.site.markdown import holds_html, list_links

Locate = Callable[[str], str | None]
"""Returns where a link leads by its address in the text; None for nowhere."""

_WORDS: Final = r"(?:\\.|`[^`\n]*`|[^\[\]\\`])*"
_TITLE: Final = r"""(?:\s+(?:"[^"]*"|'[^']*'|\([^()]*\)))?\s*"""
_TARGET: Final = r"(?:<(?P<{0}_in>[^<>\n]*)>|(?P<{0}>(?:\\.|[^\s()\\<>]|\([^\s()]*\))*))"
_FENCE: Final = (
    r"(?m:^(?P<fence>[ ]{0,3}(?P<mark>`{3,}|~{3,})[^\n]*\n(?:.*\n)*?"
    r"(?:[ ]{0,3}(?P=mark)[`~]*[ \t]*(?:\n|\Z)|\Z)))"
)
_PART: Final = re.compile(
    rf"{_FENCE}"
    r"|(?P<escaped>\\[!-/:-@\[-`{-~])"
    r"|(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    r"|<(?P<auto>https?://[^\s<>]*)>"
    rf"|!\[(?P<alt>{_WORDS})\]\({_TARGET.format('image')}{_TITLE}\)"
    rf"|\[(?P<words>{_WORDS})\]\({_TARGET.format('link')}{_TITLE}\)"
    rf"|(?m:^[ ]{{0,3}}\[(?P<label>[^\[\]\n]+)\]:\s*{_TARGET.format('named')}{_TITLE}$)"
)
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_OPENING: Final = re.compile(r"\](?=\(|\[|:)")
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])")
_TAG_OR_NONE: Final = re.compile(rf"\\.|(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|(?P<tag>{_TAG.pattern})")


def rewrite_links(text: str, locate: Locate) -> str:
    """Rewrite the links of Markdown.

    Args:
        text: Markdown of a post or a passage.
        locate: Where each link leads.

    Returns:
        The text, in which links that lead nowhere are words, images their descriptions, and HTML outside code is
        text. If a link or HTML is written in a way that is not known here, the links of the whole text are words and
        addresses, and all HTML is text.
    """
    text = drop_controls(text)
    allowed: set[str] = set()

    def replace(found: re.Match[str]) -> str:
        if any(found[kind] is not None for kind in ("fence", "code", "escaped")):
            return found[0]
        if found["auto"] is not None:
            target = locate(found["auto"])
            return _escape_tags(found[0]) if target is None else f"<{target}>"
        if found["alt"] is not None:
            return rf"\[{_escape_tags(found['alt']) or 'image'}\]"
        kind = "link" if found["words"] is not None else "named"
        written = found[f"{kind}_in"] if found[f"{kind}_in"] is not None else found[kind]
        target = locate(html.unescape(_ESCAPED.sub(r"\1", written)))
        if target is not None:
            allowed.add(target)
        if kind == "named":
            return f"[{_escape_tags(found['label'])}]: <{target}>" if target else ""
        words = _escape_tags(found["words"])
        return f"[{words}](<{target}>)" if target else words

    parts = []
    end = 0
    for found in _PART.finditer(text):
        parts += [_escape_tags(text[end : found.start()]), replace(found)]
        end = found.end()
    rewritten = "".join([*parts, _escape_tags(text[end:])])
    links = list_links(rewritten)
    if not holds_html(rewritten) and all(link in allowed or locate(link) == link for link in links):
        return rewritten
    return _TAG.sub("&lt;", _OPENING.sub(r"]\\", rewritten))


def _escape_tags(text: str) -> str:
    """Escape what could begin an element of HTML, outside code."""
    return _TAG_OR_NONE.sub(lambda found: found[0] if found["tag"] is None else "&lt;", text)
