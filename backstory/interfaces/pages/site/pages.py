"""Lists the pages of a site, and what each of them is made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from backstory.base.ids import digest
from backstory.base.local_times import write_span
from backstory.interfaces.pages.report.page import Preview, TrailLink, encode_page, render_page
from backstory.interfaces.pages.site.addresses import (
    ARCHIVE,
    ATOM,
    INDEX,
    JSON_FEED,
    SEARCH,
    SITEMAP,
    TAGS,
    WITHOUT_POST,
    address_conversation,
    address_document,
    address_month,
    address_post,
    address_tag,
    address_window,
    link_pages,
)
from backstory.interfaces.pages.site.descriptions import describe_post
from backstory.interfaces.pages.site.entries import Entries, write_date
from backstory.interfaces.pages.site.feeds import MOST_ENTRIES, write_atom, write_json_feed, write_sitemap
from backstory.interfaces.pages.site.library import Library, SiteDocument, SitePost
from backstory.interfaces.pages.site.links import SiteLinks
from backstory.interfaces.pages.site.markdown import Markdown, Target, begin_markdown
from backstory.interfaces.pages.site.page import Page
from backstory.interfaces.pages.site.search_index import ASK_SCRIPT, SEARCH_SCRIPT, make_search_index
from backstory.interfaces.pages.site.threads import BASELINE, WIDTH, draw_threads

_ROOM: Final = "backstory.interfaces.pages.site"
_FREQUENT_TAGS: Final = 24
_SHARING: Final = 8
_LISTED: Final = 100
"""Most posts of a list; older ones are in the archive."""
_LATEST: Final = 20
_TOPICS_OF_BEST: Final = 2


@dataclass(frozen=True)
class Frame:
    """What all pages of a site share.

    Attributes:
        title: Title of the site; empty for that of its conversation.
        base: Address where the site will stand, without a slash at its end; None if that is not known.
        common: Hash of what any page may depend on: the code and the settings.
    """

    title: str = ""
    base: str | None = None
    common: str = ""


def list_pages(
    library: Library, links: SiteLinks, reports: Mapping[str, Page], frame: Frame
) -> dict[str, Page]:
    """List every page of a site, with its feeds and sitemap if it has an address.

    Args:
        library: What the site shows.
        links: The pages of its posts and documents.
        reports: Pages of windows by address, which the posts link to.
        frame: What the pages share.
    """
    return dict(_Pages(library, links, reports, frame).list())


class _Pages:
    """Lists pages that link to each other."""

    def __init__(self, library: Library, links: SiteLinks, reports: Mapping[str, Page], frame: Frame) -> None:
        self._library = library
        self._reports = reports
        self._links = links
        self._frame = frame
        self._tags = _group_by_tag(library.posts)
        self._months = _group_by_month(library.posts)
        self._conversations = {
            key: library.conversation_names[key]
            for key in sorted({post.window.conversation_id for post in library.posts})
        }
        self._entries = Entries(library, links, several=len(self._conversations) > 1)
        self._title = frame.title or _name_site(list(self._conversations.values()))

    def list(self) -> Iterator[tuple[str, Page]]:
        yield from self._reports.items()
        listed = dict(self._list_readable())
        yield from listed.items()
        if self._frame.base is not None:
            yield from self._list_for_programs(self._frame.base, listed)

    def _list_readable(self) -> Iterator[tuple[str, Page]]:
        yield INDEX, self._list_index()
        yield TAGS, self._page(TAGS, "tags.html", "Tags", tags=self._count_tags(TAGS, None))
        yield ARCHIVE, self._page(ARCHIVE, "archive.html", "Archive", years=self._count_months(ARCHIVE))
        yield (
            SEARCH,
            self._page(
                SEARCH,
                "search.html",
                "Search",
                script=SEARCH_SCRIPT,
                posts=len(self._library.posts),
                index=_Index(self._library.posts),
            ),
        )
        if self._library.without_post:
            yield (
                WITHOUT_POST,
                self._page(
                    WITHOUT_POST,
                    "without_post.html",
                    "Windows without a post",
                    without_post=self._describe_absences(WITHOUT_POST),
                ),
            )
        for tag, posts in self._tags.items():
            yield self._list_posts(address_tag(tag), "Tag", tag, posts)
        for month, posts in self._months.items():
            name = f"{posts[0].window.started_at:%B %Y}"
            yield self._list_posts(address_month(month), "Month", name, posts, most=len(posts))
        for key, name in self._conversations.items():
            posts = [post for post in self._library.posts if post.window.conversation_id == key]
            yield self._list_posts(address_conversation(key), "Conversation", name, posts)
        for place, post in enumerate(self._library.posts):
            yield address_post(post.slug), self._list_post(post, place)
        for document in self._library.documents.values():
            yield address_document(document.document_id), self._list_document(document)

    def _list_for_programs(self, base: str, listed: Mapping[str, Page]) -> Iterator[tuple[str, Page]]:
        latest = self._library.posts[: -MOST_ENTRIES - 1 : -1]
        pages = {post.slug: listed[address_post(post.slug)].inputs for post in latest}
        inputs = digest([self._frame.common, self._title, base, repr(pages)])
        yield ATOM, Page(inputs, partial(write_atom, self._title, base, latest, self._links))
        yield JSON_FEED, Page(inputs, partial(write_json_feed, self._title, base, latest, self._links))
        changed = {address_post(post.slug): post.window.ended_at for post in self._library.posts}
        places = [(address, changed.get(address)) for address in listed if address != WITHOUT_POST]
        yield SITEMAP, Page(digest([base, repr(places)]), partial(write_sitemap, base, places))

    def _page(
        self,
        here: str,
        template: str,
        title: str,
        *,
        script: str = "",
        description: str = "",
        post: SitePost | None = None,
        **values: Any,
    ) -> Page:
        base = self._frame.base
        trail = [
            TrailLink(link_pages(here, there), words)
            for there, words in (
                (INDEX, "All posts"),
                (ARCHIVE, "Archive"),
                (TAGS, "Tags"),
                (SEARCH, "Search"),
                *([(ATOM, "Feed")] if base else []),
            )
            if there != here
        ]
        preview = Preview(
            "" if post else description,
            "article" if post else "website",
            base and f"{base}/{here}",
            base and f"{base}/{ATOM}",
        )
        shared = {"title": title, "script": script, "post": post, "site": self._title, **values}
        return Page(
            digest([self._frame.common, template, repr(trail), repr(preview), repr(shared)]),
            lambda: encode_page(
                render_page(
                    template,
                    trail=trail,
                    room=_ROOM,
                    style="site.css",
                    # The description of a post follows from the post, and is made when its page is.
                    preview=replace(preview, description=describe_post(post)) if post else preview,
                    to=partial(link_pages, here),
                    **shared,
                )
            ),
        )

    def _list_index(self) -> Page:
        library = self._library
        latest = library.posts[: -_LATEST - 1 : -1]
        conversations = [
            (link_pages(INDEX, address_conversation(key)), name) for key, name in self._conversations.items()
        ]
        return self._page(
            INDEX,
            "index.html",
            self._title,
            script=ASK_SCRIPT if library.posts else "",
            description=f"{len(library.posts)} posts" if library.posts else "",
            best=self._describe_best(),
            months=_split_months(self._entries.describe(INDEX, post) for post in latest),
            posts=len(library.posts),
            latest=len(latest),
            cited=len({use.document_id for post in library.posts for use in post.cited}),
            shared=library.shared_documents,
            between=library.links_between_posts,
            conversations=conversations,
            tags=self._count_tags(INDEX, _FREQUENT_TAGS),
            all_tags=len(self._tags),
            years=self._count_months(INDEX),
            absent=len(library.without_post),
            without_post=[] if library.posts else self._describe_absences(INDEX),
            threads=draw_threads(library, self._links),
            width=WIDTH,
            baseline=BASELINE,
        )

    def _describe_best(self) -> dict[str, Any] | None:
        """Describe the post on which the first page opens, with its beginning."""
        post = self._library.best
        if post is None:
            return None
        page = address_post(post.slug)

        def resolve(address: str, words: str) -> Target | None:
            target = self._links.resolve_citation(INDEX, post, address, words)
            if target is None or target.number is None:
                return target
            return Target(f"{page}{target.address}", target.about, target.number, target.paint)

        beginning = begin_markdown(post.text, _TOPICS_OF_BEST)
        return self._entries.describe(INDEX, post) | {
            "body": Markdown(beginning, resolve, title=post.title),
            "served": post.served,
            "is_whole": beginning == post.text,
            "uses": [(use.number, use.title) for use in post.cited],
        }

    def _list_posts(
        self, here: str, kind: str, name: str, posts: Sequence[SitePost], *, most: int = _LISTED
    ) -> tuple[str, Page]:
        shown = posts[: -most - 1 : -1]
        return here, self._page(
            here,
            "list.html",
            f"{kind}: {name}",
            kind=kind,
            name=name,
            description=f"{len(posts)} posts",
            older=len(posts) - len(shown),
            months=_split_months(self._entries.describe(here, post) for post in shown),
        )

    def _list_post(self, post: SitePost, place: int) -> Page:
        here = address_post(post.slug)
        posts, entries = self._library.posts, self._entries
        neighbours = [
            (words, entries.describe(here, posts[at]))
            for words, at in (("Earlier", place - 1), ("Later", place + 1))
            if 0 <= at < len(posts)
        ]
        return self._page(
            here,
            "post.html",
            post.title,
            post=post,
            about=entries.describe(here, post),
            conversation=self._conversations[post.window.conversation_id],
            people=len({message.author for message in post.window.messages if message.author}),
            body=Markdown(post.text, partial(self._links.resolve_citation, here, post), title=post.title),
            used=[entries.describe_use(here, use) for use in post.cited],
            shown=[entries.describe_use(here, use) for use in post.uses if not use.cited],
            later=[entries.describe(here, one) for one in self._library.citing(post.document_id)],
            sharing=[
                entries.describe(here, one)
                | {"shared": [(self._links.point_page(here, use.document_id), use.title) for use in uses]}
                for one, uses in self._library.sharing(post, _SHARING)
            ],
            neighbours=neighbours,
            reports=[
                report
                for one in post.window.window_ids
                if (report := self._link_report(here, one)) is not None
            ],
        )

    def _list_document(self, document: SiteDocument) -> Page:
        here = address_document(document.document_id)
        citing = self._library.citing(document.document_id)
        others = self._library.showing(document.document_id)
        return self._page(
            here,
            "document.html",
            document.title,
            document=document,
            date=write_date(document.published_at),
            body=Markdown(
                document.text,
                lambda address, _words: self._links.resolve(here, document.path, address),
                title=document.title,
            ),
            citations=len(citing),
            citing=[
                self._entries.describe_citing(here, post, document.document_id)
                for post in citing[: -_LISTED - 1 : -1]
            ],
            older=max(len(citing) - _LISTED, 0),
            others=[self._entries.describe(here, post) for post in others[: -_LISTED - 1 : -1]],
            tags=[
                (link_pages(here, address_tag(tag)) if tag in self._tags else None, tag)
                for tag in document.tags
            ],
        )

    def _count_tags(self, here: str, most: int | None) -> Sequence[tuple[str, str, int]]:
        """Count the posts of each tag, the most frequent tags first."""
        counted = sorted(self._tags.items(), key=lambda entry: (-len(entry[1]), entry[0]))[:most]
        return [(link_pages(here, address_tag(tag)), tag, len(posts)) for tag, posts in counted]

    def _count_months(self, here: str) -> Sequence[tuple[int, Sequence[tuple[str, str, int]]]]:
        """Count the posts of each month, by year, the latest first."""
        years: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
        for month, posts in reversed(self._months.items()):
            begun = posts[0].window.started_at
            years[begun.year].append((link_pages(here, address_month(month)), f"{begun:%B}", len(posts)))
        return list(years.items())

    def _describe_absences(self, here: str) -> Sequence[dict[str, Any]]:
        return [
            {
                "window": window,
                "conversation": self._library.conversation_names[window.conversation_id],
                "span": write_span(window.started_at, window.ended_at),
                "report": self._link_report(here, window.window_id),
            }
            for window in self._library.without_post
        ]

    def _link_report(self, here: str, window_id: str) -> str | None:
        page = address_window(window_id)
        return link_pages(here, page) if page in self._reports else None


class _Index:
    """The index of the search, made when its page is."""

    def __init__(self, posts: Sequence[SitePost]) -> None:
        self._posts = posts

    def __html__(self) -> str:
        return make_search_index(self._posts[::-1])

    def __repr__(self) -> str:
        """Return what decides the index."""
        shown = [
            [
                post.slug,
                post.title,
                post.tags,
                post.topics,
                post.text,
                str(post.window.started_at),
                post.window.conversation_id,
            ]
            for post in self._posts
        ]
        return digest([repr(shown)])


def _name_site(conversations: Sequence[str]) -> str:
    return f"Posts of {conversations[0]}" if len(conversations) == 1 else "Posts"


def _group_by_tag(posts: Sequence[SitePost]) -> dict[str, list[SitePost]]:
    tags: dict[str, list[SitePost]] = defaultdict(list)
    for post in posts:
        for tag in dict.fromkeys(post.tags):
            tags[tag].append(post)
    return dict(sorted(tags.items()))


def _group_by_month(posts: Sequence[SitePost]) -> dict[str, list[SitePost]]:
    months: dict[str, list[SitePost]] = defaultdict(list)
    for post in posts:
        months[f"{post.window.started_at:%Y-%m}"].append(post)
    return dict(sorted(months.items()))


def _split_months(entries: Iterator[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    months: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        months[entry["month"]].append(entry)
    return list(months.items())
