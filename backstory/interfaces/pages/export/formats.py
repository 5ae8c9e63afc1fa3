"""The formats of an export: where each generator of sites expects files, and what it calls their front matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

FormatName = Literal["hugo", "jekyll", "astro", "eleventy", "ghost-json", "mbox"]

Stated = str | bool | int
"""A value of front matter: a constant, or a text with fields in braces."""


@dataclass(frozen=True)
class GeneratorFormat:
    """What a generator of sites expects. Its pages are at ``posts/<slug>/`` and ``documents/<id>/``.

    Attributes:
        posts: Path of the file of a post, with fields in braces.
        documents: Path of the page of a document.
        front_matter: Fields of the front matter of both.
        post_only: Further ones of posts.
        document_only: Further ones of pages of documents.
    """

    posts: str
    documents: str
    front_matter: Mapping[str, Stated]
    post_only: Mapping[str, Stated]
    document_only: Mapping[str, Stated]


_STATED: Final[Mapping[str, Stated]] = {"title": "{title}", "date": "{date}", "description": "{description}"}

GENERATORS: Final[Mapping[str, GeneratorFormat]] = {
    "hugo": GeneratorFormat(
        "content/posts/{slug}.md",
        "content/documents/{slug}.md",
        {**_STATED, "slug": "{slug}"},
        {"tags": "{tags}"},
        {},
    ),
    "jekyll": GeneratorFormat(
        "_posts/{dated}.md",
        "documents/{slug}.md",
        # Texts of people may hold braces, which Liquid would take for orders.
        {**_STATED, "render_with_liquid": False},
        {"layout": "post", "tags": "{tags}", "permalink": "/posts/{slug}/"},
        {"layout": "page", "permalink": "/documents/{slug}/"},
    ),
    "astro": GeneratorFormat(
        "src/content/posts/{slug}.md",
        "src/content/documents/{slug}.md",
        # Without a slug, Astro makes another address of a file name that holds a dot.
        {"title": "{title}", "pubDate": "{date}", "description": "{description}", "slug": "{slug}"},
        {"tags": "{tags}"},
        {},
    ),
    "eleventy": GeneratorFormat(
        "posts/{slug}.md",
        "documents/{slug}.md",
        {**_STATED, "templateEngineOverride": "md"},
        {"tags": "{tags}", "permalink": "/posts/{slug}/"},
        {"permalink": "/documents/{slug}/"},
    ),
}
"""The generators of sites that read Markdown with front matter."""
