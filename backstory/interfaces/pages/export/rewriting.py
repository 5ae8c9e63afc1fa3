"""Rewrites the links of Markdown for the place where it will be shown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final

from backstory.interfaces.pages.report.page import drop_controls
from backstory.interfaces.pages.site.markdown import list_links

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
    r"|(?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))"
    rf"|!\[(?P<alt>{_WORDS})\]\({_TARGET.format('image')}{_TITLE}\)"
    rf"|\[(?P<words>{_WORDS})\]\({_TARGET.format('link')}{_TITLE}\)"
    rf"|(?m:^[ ]{{0,3}}\[(?P<label>[^\[\]\n]+)\]:\s*{_TARGET.format('named')}{_TITLE}$)"
)
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_OPENING: Final = re.compile(r"\](?=\(|\[|:)")


def rewrite_links(text: str, locate: Locate) -> str:
    """Rewrite the links of Markdown.

    Args:
        text: Markdown of a post or a passage.
        locate: Where each link leads.

    Returns:
        The text, in which links that lead nowhere are words, and images their descriptions. If a link is written in
        a way that is not known here and leads nowhere, the links of the whole text are words and addresses.
    """
    text = drop_controls(text)
    allowed: set[str] = set()

    def replace(found: re.Match[str]) -> str:
        if found["fence"] is not None or found["code"] is not None:
            return found[0]
        if found["alt"] is not None:
            return rf"\[{found['alt'] or 'image'}\]"
        kind = "link" if found["words"] is not None else "named"
        written = found[f"{kind}_in"] if found[f"{kind}_in"] is not None else found[kind]
        target = locate(html.unescape(_ESCAPED.sub(r"\1", written)))
        if target is not None:
            allowed.add(target)
        if kind == "named":
            return f"[{found['label']}]: <{target}>" if target else ""
        return f"[{found['words']}](<{target}>)" if target else found["words"]

    rewritten = _PART.sub(replace, text)
    if all(address in allowed or locate(address) == address for address in list_links(rewritten)):
        return rewritten
    return _OPENING.sub(r"]\\", rewritten)
