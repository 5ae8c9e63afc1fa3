"""Renders the pages of a site."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from backstory.base.local_times import write_span
from backstory.interfaces.pages.report.page import TrailLink, render_page
from backstory.interfaces.pages.site.addresses import (
    INDEX,
    TAGS,
    address_conversation,
    address_document,
    address_post,
    address_tag,
    address_window,
    link_pages,
)
from backstory.interfaces.pages.site.filter_script import FILTER_SCRIPT
from backstory.interfaces.pages.site.library import Library, Quote, SiteDocument, SitePost, Use
from backstory.interfaces.pages.site.links import SiteLinks, collect_links, name_card, paint_use
from backstory.interfaces.pages.site.markdown import render_markdown
from backstory.interfaces.pages.site.threads import BASELINE, WIDTH, draw_threads
from backstory.text.prompts.entries import cut_line

_ROOM: Final = "backstory.interfaces.pages.site"
_FREQUENT_TAGS: Final = 24
_QUOTES: Final = 2
_SHARING: Final = 8
_QUOTE_CHARACTERS: Final = 150


def render_pages(library: Library, reports: Mapping[str, str]) -> dict[str, str]:
    """Render every page of a site.

    Args:
        library: What the site shows.
        reports: Pages of windows by address, which the posts link to.

    Returns:
        HTML by address.
    """
    return dict(_Renderer(library, reports).render())


class _Renderer:
    """Renders pages that link to each other."""

    def __init__(self, library: Library, reports: Mapping[str, str]) -> None:
        self._library = library
        self._reports = reports
        self._links: SiteLinks = collect_links(library)
        self._tags = _group_by_tag(library.posts)
        self._conversations = sorted({post.window.conversation_id for post in library.posts})

    def render(self) -> Iterator[tuple[str, str]]:
        yield from self._reports.items()
        yield INDEX, self._render_index()
        yield TAGS, self._page(TAGS, "tags.html", "Tags", tags=self._count_tags(TAGS, None))
        for tag, posts in self._tags.items():
            yield self._render_list(address_tag(tag), "Tag", tag, posts)
        for name in self._conversations:
            posts = [post for post in self._library.posts if post.window.conversation_id == name]
            yield self._render_list(address_conversation(name), "Conversation", name, posts)
        for place, post in enumerate(self._library.posts):
            yield address_post(post.slug), self._render_post(post, place)
        for document in self._library.documents.values():
            yield address_document(document.document_id), self._render_document(document)

    def _page(self, here: str, template: str, title: str, **values: Any) -> str:
        trail = [TrailLink(link_pages(here, INDEX), "All posts"), TrailLink(link_pages(here, TAGS), "Tags")]
        return render_page(
            template,
            title=title,
            trail=values.pop("trail", trail if here != INDEX else ()),
            room=_ROOM,
            style="site.css",
            to=partial(link_pages, here),
            **values,
        )

    def _render_index(self) -> str:
        library = self._library
        return self._page(
            INDEX,
            "index.html",
            _title(self._conversations),
            script=FILTER_SCRIPT if library.posts else "",
            months=_group_by_month([self._describe(INDEX, post) for post in reversed(library.posts)]),
            posts=library.posts,
            cited={use.document_id for post in library.posts for use in post.cited},
            shared=library.shared_documents,
            between=library.links_between_posts,
            conversations=[
                (link_pages(INDEX, address_conversation(name)), name) for name in self._conversations
            ],
            tags=self._count_tags(INDEX, _FREQUENT_TAGS),
            all_tags=len(self._tags),
            without_post=[
                {
                    "window": window,
                    "span": write_span(window.started_at, window.ended_at),
                    "report": self._link_report(INDEX, window.window_id),
                }
                for window in library.without_post
            ],
            threads=draw_threads(library, self._links),
            width=WIDTH,
            baseline=BASELINE,
        )

    def _render_list(self, here: str, kind: str, name: str, posts: Sequence[SitePost]) -> tuple[str, str]:
        described = [self._describe(here, post) for post in reversed(posts)]
        return here, self._page(
            here, "list.html", f"{kind}: {name}", kind=kind, name=name, months=_group_by_month(described)
        )

    def _render_post(self, post: SitePost, place: int) -> str:
        here = address_post(post.slug)
        posts = self._library.posts
        neighbours = [
            (words, self._describe(here, posts[at]))
            for words, at in (("Earlier", place - 1), ("Later", place + 1))
            if 0 <= at < len(posts)
        ]
        return self._page(
            here,
            "post.html",
            post.title,
            post=post,
            about=self._describe(here, post),
            people=len({message.author for message in post.window.messages if message.author}),
            body=render_markdown(
                post.text,
                lambda address, words: self._links.resolve_citation(here, post, address, words),
                title=post.title,
            ),
            used=[self._describe_use(here, post, use) for use in post.cited],
            shown=[self._describe_use(here, post, use) for use in post.uses if not use.cited],
            later=[self._describe(here, one) for one in self._library.citing(post.document_id)],
            sharing=[
                self._describe(here, one)
                | {"shared": [(self._links.point(here, use.document_id), use.title) for use in uses]}
                for one, uses in self._library.sharing(post)[:_SHARING]
            ],
            neighbours=neighbours,
            reports=[
                report
                for one in post.window.window_ids
                if (report := self._link_report(here, one)) is not None
            ],
        )

    def _render_document(self, document: SiteDocument) -> str:
        here = address_document(document.document_id)
        citing = self._library.citing(document.document_id)
        others = [
            post
            for post in self._library.posts
            if post not in citing and any(use.document_id == document.document_id for use in post.uses)
        ]
        return self._page(
            here,
            "document.html",
            document.title,
            document=document,
            date=_write_date(document.published_at),
            body=render_markdown(
                document.text,
                lambda address, _words: self._links.resolve(here, document.path, address),
                title=document.title,
            ),
            citing=[self._describe_citing(here, post, document.document_id) for post in citing],
            others=[self._describe(here, post) for post in others],
            tags=[
                (link_pages(here, address_tag(tag)) if tag in self._tags else None, tag)
                for tag in document.tags
            ],
        )

    def _describe(self, here: str, post: SitePost) -> dict[str, Any]:
        """Describe a post as an entry of a list."""
        window = post.window
        return {
            "address": link_pages(here, address_post(post.slug)),
            "title": post.title,
            "month": f"{window.started_at:%B %Y}",
            "day": window.started_at.day,
            "weekday": f"{window.started_at:%a}",
            "date": _write_date(window.started_at),
            "iso": window.started_at.isoformat(),
            "span": write_span(window.started_at, window.ended_at),
            "topics": post.topics,
            "messages": len(window.messages),
            "cites": len(post.cited),
            "later": len(self._library.citing(post.document_id)),
            "conversation": window.conversation_id if len(self._conversations) > 1 else "",
            "conversation_address": link_pages(here, address_conversation(window.conversation_id)),
            "tags": [(link_pages(here, address_tag(tag)), tag) for tag in post.tags],
        }

    def _describe_use(self, here: str, post: SitePost, use: Use) -> dict[str, Any]:
        """Describe a document of a post: the passage, and the messages that it serves."""
        others = [one for one in self._library.citing(use.document_id) if one.slug != post.slug]
        return {
            "card": name_card(use),
            "number": use.number,
            "paint": paint_use(use),
            "title": use.title,
            "address": self._links.point(here, use.document_id),
            "date": _write_date(use.published_at),
            "is_post": self._library.written_as(use.document_id) is not None,
            "passage": render_markdown(use.passage, _drop_link, title=use.title),
            "because": [
                (f"{quote.sent_at:%H:%M}", quote.author or "", cut_line(quote.text, _QUOTE_CHARACTERS))
                for quote in _choose_quotes(use.because)
            ],
            "count": len(use.because),
            "others": [self._describe(here, one) for one in others],
        }

    def _describe_citing(self, here: str, post: SitePost, document_id: str) -> dict[str, Any]:
        """Describe a post that cites a document, with the passage in the post's prompt."""
        use = next(use for use in post.cited if use.document_id == document_id)
        return self._describe(here, post) | {"use": self._describe_use(here, post, use)}

    def _count_tags(self, here: str, most: int | None) -> list[tuple[str, str, int]]:
        """Count the posts of each tag, the most frequent tags first."""
        counted = sorted(self._tags.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:most]
        return [(link_pages(here, address_tag(tag)), tag, len(posts)) for tag, posts in counted]

    def _link_report(self, here: str, window_id: str) -> str | None:
        page = address_window(window_id)
        return link_pages(here, page) if page in self._reports else None


def _write_date(moment: datetime | None) -> str:
    return "undated" if moment is None else f"{moment.day} {moment:%B %Y}"


def _drop_link(_address: str, _words: str) -> None:
    """Leave the words of a link in a passage: its links are on the page of its document."""


def _choose_quotes(because: Sequence[Quote]) -> list[Quote]:
    """Choose the longest messages, as the most informative ones, in order of time."""
    longest = sorted(range(len(because)), key=lambda place: (-len(because[place].text), place))[:_QUOTES]
    return [because[place] for place in sorted(longest)]


def _title(conversations: Sequence[str]) -> str:
    return f"Posts of {conversations[0]}" if len(conversations) == 1 else "Posts"


def _group_by_tag(posts: Sequence[SitePost]) -> dict[str, list[SitePost]]:
    tags = sorted({tag for post in posts for tag in post.tags})
    return {tag: [post for post in posts if tag in post.tags] for tag in tags}


def _group_by_month(entries: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    months = dict.fromkeys(entry["month"] for entry in entries)
    return [(month, [entry for entry in entries if entry["month"] == month]) for month in months]
