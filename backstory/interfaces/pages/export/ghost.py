"""The posts as a file that Ghost imports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from backstory.base.ids import digest
from backstory.interfaces.pages.export.passages import write_passages
from backstory.interfaces.pages.export.places import make_ghost_slug, place_on_ghost
from backstory.interfaces.pages.export.rewriting import rewrite_links
from backstory.interfaces.pages.report.page import drop_controls, encode_page
from backstory.interfaces.pages.site.descriptions import describe_post
from backstory.interfaces.pages.site.library import Library
from backstory.text.prompts.entries import cut_line

GHOST_FILE: Final = "ghost.json"

_VERSION: Final = "5.0.0"
_ID_CHARACTERS: Final = 24
_TITLE_CHARACTERS: Final = 250
"""Most characters of a title without an ellipsis. Ghost imports nothing if one has more than 255."""
_TAG_CHARACTERS: Final = 185
"""The same of the name of a tag, of which Ghost takes 191. It may not begin with a comma."""


def write_ghost_file(library: Library) -> bytes:
    """Write the posts, and a page of passages for each cited document that lives nowhere in the web."""
    posts = list(_list_posts(library))
    names = sorted({tag for post in library.posts for tag in post.tags})
    tags = [
        {
            "id": _make_id("tag", name),
            "name": cut_line(name.lstrip(","), _TAG_CHARACTERS),
            "slug": make_ghost_slug(name),
        }
        for name in names
    ]
    uses = [
        {"post_id": _make_id("post", post.slug), "tag_id": _make_id("tag", tag), "sort_order": place}
        for post in library.posts
        for place, tag in enumerate(dict.fromkeys(post.tags))
    ]
    latest = max((post.window.ended_at for post in library.posts), default=datetime(1970, 1, 1, tzinfo=UTC))
    exported = {
        "meta": {"exported_on": round(latest.timestamp() * 1000), "version": _VERSION},
        "data": {"posts": posts, "tags": tags, "posts_tags": uses},
    }
    return encode_page(drop_controls(json.dumps({"db": [exported]}, ensure_ascii=False, indent=1)) + "\n")


def _list_posts(library: Library) -> Iterator[dict[str, Any]]:
    places = place_on_ghost(library)
    for post in library.posts:
        text = rewrite_links(post.text, partial(places.locate, post.path))
        moment = post.window.ended_at
        made = _make_post(("post", post.slug), post.title, make_ghost_slug(post.slug), moment, text)
        yield made | {"custom_excerpt": describe_post(post)}
    for document in library.documents.values():
        if document.home is None and library.citing(document.document_id):
            text = write_passages(library, document, places)
            slug = f"document-{make_ghost_slug(document.document_id)}"
            key = ("page", document.document_id)
            yield _make_post(key, document.title, slug, document.published_at, text)


def _make_post(
    key: tuple[str, str], title: str, slug: str, moment: datetime | None, text: str
) -> dict[str, Any]:
    """Make a post of Ghost that consists of a card of Markdown."""
    card = {
        "version": "0.3.1",
        "atoms": [],
        "markups": [],
        "cards": [["markdown", {"markdown": text}]],
        "sections": [[10, 0]],
    }
    written = None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
    return {
        "id": _make_id(*key),
        "title": cut_line(title, _TITLE_CHARACTERS) or slug,
        "slug": slug,
        "mobiledoc": json.dumps(card, ensure_ascii=False),
        "type": key[0],
        "status": "published",
        "published_at": written,
        "created_at": written,
        "updated_at": written,
    }


def _make_id(kind: str, key: str) -> str:
    return digest([kind, key], length=_ID_CHARACTERS)
