"""Tags in the text of a note, as Obsidian writes them: ``#garden``, ``#house/garden``."""

from __future__ import annotations

import re

# As in Obsidian, a tag is at the start of a line or after white space, and does not consist of digits alone.
_TAG = re.compile(r"(?<!\S)#([\w/-]*[^\W\d][\w/-]*)")


def find_inline_tags(text: str) -> tuple[str, ...]:
    """Find the tags in the running text of Markdown, without duplicates; code, links and HTML are skipped.

    Returns:
        The tags without ``#``, in order.
    """
    if _TAG.search(text) is None:
        return ()
    from markdown_it import MarkdownIt

    texts = [
        child.content
        for token in MarkdownIt("commonmark").parse(text)
        for child in token.children or ()
        if child.type == "text"
    ]
    tags = (tag.strip("/-") for part in texts for tag in _TAG.findall(part))
    return tuple(dict.fromkeys(tag for tag in tags if tag))
