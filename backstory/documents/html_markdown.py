"""HTML -> Markdown, by html-to-markdown.

Of the converters that were compared on saved pages of documentation and on markup that is broken or nested, it keeps
the most. It reads unclosed cells and items as browsers do (markdownify, which stands on Python's own parser, mixes
their columns), keeps the language of code, nests lists rightly, and takes time in proportion to the page: 0.6 s for
15 MB.
trafilatura and readability-lxml look for the main text and drop what else a saved wiki or an exported note holds.
html2text is under the GPL. html-to-markdown is under the MIT licence, is one compiled wheel of 22 MB without
dependencies, and follows neither links nor entities.
"""

from __future__ import annotations

import re
from typing import Final

_LEFT_OUT: Final = (
    "nav",
    "[role=navigation]",
    "[role=contentinfo]",
    "a.headerlink",
    "button",
    "select",
    "iframe",
)
"""What is marked as not belonging to the text of a page."""

_INNER_LINK: Final = re.compile(
    r"""(<a\b[^<>]*?)\shref\s*=\s*(?:"#[^"<>]*"|'#[^'<>]*'|#[^\s<>]*)""", re.IGNORECASE
)
"""A link within its page, as around headings, which leads nowhere in a document."""

_SELF_CLOSED: Final = re.compile(r"<([A-Za-z][\w:.-]*)((?:\s[^<>]*)?)/>")
_VOID: Final = frozenset(
    "area base br col embed hr img input link meta param source track wbr".split()  # noqa: SIM905
)
_DEEP: Final = "depth_limit_exceeded"


def convert_html(html: str, *, is_xml: bool = False) -> tuple[str, str | None]:
    r"""Convert a page.

    Scripts, styles, hidden parts, and what is marked as navigation or as the footer of a site are left out; everything
    else is kept.

    Args:
        html: A page, or a part of one.
        is_xml: Whether it is XHTML, in which every element may be closed by its first tag (``<title/>``).

    Returns:
        Markdown with newlines as ``\n``, and what was not read, None if all was.
    """
    from html_to_markdown import ConversionOptions, PreprocessingOptions, convert

    if is_xml:
        html = _SELF_CLOSED.sub(_close, html)
    html = _INNER_LINK.sub(r"\1", html)
    options = ConversionOptions(
        extract_metadata=False,
        compact_tables=True,
        inline_data_media="alt_text_only",
        preprocessing=PreprocessingOptions(enabled=False),
        exclude_selectors=list(_LEFT_OUT),
    )
    result = convert(html, options)
    is_cut = any(str(warning.kind) == _DEEP for warning in result.warnings)
    unread = (
        "parts nested deeper than 1,024 tags were not read; save the page again with a browser"
        if is_cut
        else None
    )
    return (result.content or "").strip("\n"), unread


def _close(found: re.Match[str]) -> str:
    name = found[1]
    return found[0] if name.lower() in _VOID else f"<{name}{found[2]}></{name}>"
