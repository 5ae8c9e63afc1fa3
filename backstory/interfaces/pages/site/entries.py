"""Describes posts and documents for the templates of a site: as entries of lists, and as cards."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from backstory.base.local_times import write_span
from backstory.interfaces.pages.site.addresses import (
    address_conversation,
    address_post,
    address_tag,
    link_pages,
)
from backstory.interfaces.pages.site.library import Library, Quote, SitePost, Use
from backstory.interfaces.pages.site.links import SiteLinks, name_card, paint_use
from backstory.interfaces.pages.site.markdown import Markdown
from backstory.text.prompts.entries import cut_line

_QUOTES: Final = 2
_QUOTE_CHARACTERS: Final = 150


class Entries:
    """Describes the posts and documents of a site.

    Args:
        library: What the site shows.
        links: The pages of its posts and documents.
        several: Whether it shows several conversations, which entries then name.
    """

    def __init__(self, library: Library, links: SiteLinks, *, several: bool) -> None:
        self._library = library
        self._links = links
        self._several = several

    def describe(self, here: str, post: SitePost) -> dict[str, Any]:
        """Describe a post as an entry of a list on a page."""
        window = post.window
        return {
            "address": link_pages(here, address_post(post.slug)),
            "title": post.title,
            "month": f"{window.started_at:%B %Y}",
            "day": window.started_at.day,
            "weekday": f"{window.started_at:%a}",
            "date": write_date(window.started_at),
            "iso": window.started_at.isoformat(),
            "span": write_span(window.started_at, window.ended_at),
            "topics": [topic for topic in post.topics if topic != post.title],
            "messages": len(window.messages),
            "cites": len(post.cited),
            "later": len(self._library.citing(post.document_id)),
            "conversation": self._library.conversation_names[window.conversation_id] if self._several else "",
            "conversation_address": link_pages(here, address_conversation(window.conversation_id)),
            "tags": [(link_pages(here, address_tag(tag)), tag) for tag in post.tags],
        }

    def describe_use(self, here: str, use: Use) -> dict[str, Any]:
        """Describe a document of a post: the passage, and the messages that it serves.

        Its other posts are on its own page: a list of them here would have every post that shares a document made
        again with each further one.
        """
        address = self._links.point(here, use.document_id)
        page = self._links.point_page(here, use.document_id)
        return {
            "card": name_card(use),
            "number": use.number,
            "paint": paint_use(use),
            "title": use.title,
            "address": address,
            "page": page if page != address else None,
            "date": write_date(use.published_at),
            "is_post": self._library.written_as(use.document_id) is not None,
            "passage": Markdown(use.passage, _drop_link, title=use.title),
            "because": [
                (f"{quote.sent_at:%H:%M}", quote.author or "", cut_line(quote.text, _QUOTE_CHARACTERS))
                for quote in _choose_quotes(use.because)
            ],
            "count": len(use.because),
        }

    def describe_citing(self, here: str, post: SitePost, document_id: str) -> dict[str, Any]:
        """Describe a post that cites a document, with the messages because of which it does."""
        use = next(use for use in post.cited if use.document_id == document_id)
        quotes = _choose_quotes(use.because)
        return self.describe(here, post) | {
            "count": len(use.because),
            "because": [
                (f"{quote.sent_at:%H:%M}", quote.author or "", cut_line(quote.text, _QUOTE_CHARACTERS))
                for quote in quotes
            ],
        }


def write_date(moment: datetime | None) -> str:
    """Return a date in words."""
    return "undated" if moment is None else f"{moment.day} {moment:%B %Y}"


def _drop_link(_address: str, _words: str) -> None:
    """Leave the words of a link in a passage: its links are on the page of its document."""


def _choose_quotes(because: Sequence[Quote]) -> list[Quote]:
    """Choose the longest messages, as the most informative ones, in order of time."""
    longest = sorted(range(len(because)), key=lambda place: (-len(because[place].text), place))[:_QUOTES]
    return [because[place] for place in sorted(longest)]
