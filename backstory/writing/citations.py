"""The citations and links of a draft: those of shown documents become links to their files, all others are removed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from backstory.writing.material import Citation, ContextMaterial

_CITED: Final = re.compile(
    r"(?<!\\)(!?)\[([^\[\]\n]*)\](?:\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"\n]*\")?\))?"
)
_NUMBER: Final = re.compile(r"\d{1,4}\Z")


@dataclass(frozen=True)
class LinkedText:
    """A text whose citations are links.

    Attributes:
        text: Markdown.
        cited: Ids of the cited documents, in order of their first citation.
        removed: Number of links and citations that named no shown document.
    """

    text: str
    cited: tuple[str, ...]
    removed: int


def link_citations(text: str, context: ContextMaterial, *, folder: str) -> LinkedText:
    """Turn each citation of a shown document into a link to its file, and remove every other link.

    Args:
        text: Markdown in which ``[2]`` cites a document, and ``[words](2)`` links to it.
        context: The documents that the writer was shown.
        folder: Folder of the post, relative to the workspace; links are relative to it.

    Returns:
        The text. Of a removed link its words stay; a removed citation leaves nothing; an image leaves its description.
    """
    targets = _name_targets(context)
    cited: dict[str, None] = {}
    removed = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal removed
        image, words, target = found[1], found[2], found[3]
        if target is None and not _NUMBER.match(words):
            return found[0]  # brackets without a link, such as a list's check box
        citation = targets.get(words if target is None else target.strip("<>"))
        if citation is None or image:
            removed += 1
            return words if target is not None else ""
        cited[citation.document_id] = None
        shown = f"\\[{citation.number}\\]" if target is None else words
        return f"[{shown}]({_link(citation, folder)})"

    linked = _CITED.sub(replace, text)
    return LinkedText(linked, tuple(cited), removed)


def _name_targets(context: ContextMaterial) -> Mapping[str, Citation]:
    """Give every name under which a document may be cited: number, path and slug."""
    targets: dict[str, Citation] = {}
    for citation in context.citations:
        for name in (str(citation.number), citation.path, citation.slug):
            targets.setdefault(name, citation)
    return targets


def _link(citation: Citation, folder: str) -> str:
    return quote(
        os.path.relpath(PurePosixPath(citation.path or citation.slug), PurePosixPath(folder)), safe="/.-_~"
    )
