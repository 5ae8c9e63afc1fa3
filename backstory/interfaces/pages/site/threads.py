"""The picture of a site: documents and posts in order of time, and an arc from each post to each of its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from backstory.interfaces.pages.site.addresses import INDEX, address_post, link_pages
from backstory.interfaces.pages.site.library import Library, SiteDocument, SitePost
from backstory.interfaces.pages.site.links import SiteLinks
from backstory.text.prompts.entries import cut_line

MOST_POSTS: Final = 60
"""Most posts in the picture: the last ones."""

WIDTH: Final = 1160
BASELINE: Final = 230
_MARGIN: Final = 24
_HIGHEST: Final = 200
_LEAST_RADIUS: Final = 2.5
_TITLE_CHARACTERS: Final = 80
_LABEL_WIDTH: Final = 17
_YEAR_WIDTH: Final = 36


@dataclass(frozen=True)
class Node:
    """A document or a post in the picture; ``radius`` grows with the number of posts that cite it."""

    x: float
    radius: float
    address: str | None
    title: str
    label: str


@dataclass(frozen=True)
class Arc:
    """An arc from a post to a document or another post that it cites."""

    path: str
    to_post: bool


@dataclass(frozen=True)
class Thread:
    """A post with its arcs."""

    node: Node
    arcs: tuple[Arc, ...]


@dataclass(frozen=True)
class Threads:
    """The picture: documents, posts with their arcs, and the number of earlier posts that are left out."""

    documents: tuple[Node, ...]
    posts: tuple[Thread, ...]
    left_out: int


def draw_threads(library: Library, links: SiteLinks) -> Threads | None:
    """Lay out the picture; None if no post cites anything."""
    posts = library.posts[-MOST_POSTS:]
    cited = list(dict.fromkeys(use.document_id for post in posts for use in post.cited))
    documents = [library.documents[key] for key in library.documents if key in set(cited)]
    if not documents and not any(library.written_as(key) for key in cited):
        return None
    step = (WIDTH - 2 * _MARGIN) / max(len(documents) + 1.5 * len(posts), 1)
    places = {document.document_id: _MARGIN + step * place for place, document in enumerate(documents)}
    begin = _MARGIN + step * (len(documents) + 0.5)
    post_places = [begin + 1.5 * step * place for place in range(len(posts))]
    places |= {post.document_id: x for post, x in zip(posts, post_places, strict=True) if post.document_id}
    labelled = range(len(posts) - 1, -1, -max(1, ceil(_LABEL_WIDTH / (1.5 * step))))
    most = max(step * 0.6, _LEAST_RADIUS)
    return Threads(
        documents=tuple(
            Node(
                x=places[document.document_id],
                radius=min(_grow(library, document.document_id), most),
                address=links.point_page(INDEX, document.document_id),
                title=cut_line(document.title, _TITLE_CHARACTERS),
                label=label,
            )
            for document, label in zip(documents, _label_years(documents, step), strict=True)
        ),
        posts=tuple(
            Thread(
                Node(
                    x=x,
                    radius=min(_grow(library, post.document_id), most),
                    address=link_pages(INDEX, address_post(post.slug)),
                    title=cut_line(post.title, _TITLE_CHARACTERS),
                    label=f"{post.window.started_at.day} {post.window.started_at:%b}"
                    if place in labelled
                    else "",
                ),
                _draw_arcs(library, post, x, places),
            )
            for place, (post, x) in enumerate(zip(posts, post_places, strict=True))
        ),
        left_out=len(library.posts) - len(posts),
    )


def _label_years(documents: Sequence[SiteDocument], step: float) -> list[str]:
    """Write the year under the first document of each, where it leaves the one before legible."""
    labels: list[str] = []
    year, free = None, 0.0
    for place, document in enumerate(documents):
        own = document.published_at.year if document.published_at else None
        is_shown = own is not None and own != year and place * step >= free
        labels.append(str(own) if is_shown else "")
        if is_shown:
            year, free = own, place * step + _YEAR_WIDTH
    return labels


def _grow(library: Library, document_id: str | None) -> float:
    count = len(library.citing(document_id)) if document_id else 0
    return 4 + min(count, 6) * 0.8


def _draw_arcs(library: Library, post: SitePost, x: float, places: dict[str, float]) -> tuple[Arc, ...]:
    ends = [(use.document_id, places[use.document_id]) for use in post.cited if use.document_id in places]
    return tuple(
        Arc(_curve(x, end), to_post=library.written_as(document_id) is not None) for document_id, end in ends
    )


def _curve(start: float, end: float) -> str:
    height = min(abs(start - end) * 0.55, _HIGHEST * 4 / 3)
    top = BASELINE - height
    return f"M{start:.1f} {BASELINE}C{start:.1f} {top:.1f} {end:.1f} {top:.1f} {end:.1f} {BASELINE}"
