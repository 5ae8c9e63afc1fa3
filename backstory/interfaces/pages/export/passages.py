"""The page of a document in an export: its passages that writers were shown, and the posts that cite them."""

from __future__ import annotations

import re
from typing import Final

from backstory.interfaces.pages.export.places import Places
from backstory.interfaces.pages.export.rewriting import rewrite_links
from backstory.interfaces.pages.report.page import drop_controls
from backstory.interfaces.pages.site.addresses import address_post
from backstory.interfaces.pages.site.library import Library, SiteDocument

_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>&~]")


def write_passages(library: Library, document: SiteDocument, places: Places) -> str:
    """Write the passages of a document that posts cite, each with the posts, as Markdown."""
    posts: dict[str, list[str]] = {}
    for post in library.citing(document.document_id):
        use = next(use for use in post.cited if use.document_id == document.document_id)
        address = places.addresses.get(address_post(post.slug))
        title = _SPECIAL.sub(r"\\\g<0>", " ".join(drop_controls(post.title).split()))
        posts.setdefault(use.passage, []).append(f"[{title}](<{address}>)" if address else title)
    parts = []
    for passage, citing in posts.items():
        shown = rewrite_links(passage, lambda address: places.locate(document.path, address))
        quoted = "\n".join(
            f"> {line}".rstrip() for line in shown.strip().split("\n")
        )  # as CommonMark ends lines
        parts.append(f"{quoted}\n\nCited by {', '.join(citing)}.\n")
    return "\n".join(parts)
