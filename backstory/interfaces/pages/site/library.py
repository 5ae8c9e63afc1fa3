"""The data of a site: posts, the documents that they used, and the windows without a post."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from heapq import nsmallest
from typing import Final

from backstory.text.people import name_conversations
from backstory.writing.material import WindowMaterial

_RECENT: Final = 12
"""Number of the latest posts among which the first page opens on the best one."""


@dataclass(frozen=True)
class Quote:
    """A message that a document in the writer's prompt serves, as readers see it.

    Attributes:
        place: Its position in the messages of the window.
        sent_at: Time of sending.
        author: Name of the author; None for a line of the app.
        text: Its text.
    """

    place: int
    sent_at: datetime
    author: str | None
    text: str


@dataclass(frozen=True)
class Use:
    """A document in the prompt of a writer.

    Attributes:
        number: Under which the post cites it.
        document_id: Its id.
        title: Its title.
        published_at: Date of publication, UTC; None if it states none.
        path: Its file, relative to the workspace.
        passage: The part of it in the prompt.
        because: The messages that it serves.
        cited: Whether the post cites it.
        link: Where links of the post to it lead: a path relative to the workspace, or a web address.
    """

    number: int
    document_id: str
    title: str
    published_at: datetime | None
    path: str
    passage: str
    because: tuple[Quote, ...]
    cited: bool
    link: str = ""


@dataclass(frozen=True)
class SitePost:
    """A post.

    Attributes:
        window: Its window, with the messages.
        slug: Its slug.
        path: Its file, relative to the workspace.
        document_id: Its id among the documents; None if it is not a document.
        title: Its title.
        tags: Its tags.
        text: Markdown without front matter.
        topics: Headings of the text.
        notice: A note for the reader, such as that a person has edited the file; empty for none.
        writer: Writer and its version, with the model if there is one.
        uses: Documents in the writer's prompt, by number.
    """

    window: WindowMaterial
    slug: str
    path: str
    document_id: str | None
    title: str
    tags: tuple[str, ...]
    text: str
    topics: tuple[str, ...]
    notice: str
    writer: str
    uses: tuple[Use, ...]

    @property
    def cited(self) -> tuple[Use, ...]:
        """The documents that the post cites."""
        return tuple(use for use in self.uses if use.cited)

    @property
    def served(self) -> int:
        """Number of its messages that the cited documents serve."""
        return len({quote.place for use in self.cited for quote in use.because})


@dataclass(frozen=True)
class SiteDocument:
    """A document in the prompt of at least one post, in its present revision.

    Attributes:
        document_id: Its id.
        title: Its title.
        path: Its file, relative to the workspace.
        published_at: Date of publication, UTC; None if it states none.
        tags: Its tags.
        text: Its text.
        home: Where it lives in the web; None if nothing tells.
    """

    document_id: str
    title: str
    path: str
    published_at: datetime | None
    tags: tuple[str, ...]
    text: str
    home: str | None = None


@dataclass(frozen=True)
class WithoutPost:
    """A window without a post."""

    window_id: str
    conversation_id: str
    started_at: datetime
    ended_at: datetime
    message_count: int
    reason: str


@dataclass(frozen=True)
class Library:
    """Everything that a site shows.

    Attributes:
        posts: In order of time.
        documents: By id, without written posts, which have pages as posts.
        without_post: Windows without a post, in order of time.
    """

    posts: tuple[SitePost, ...]
    documents: Mapping[str, SiteDocument]
    without_post: tuple[WithoutPost, ...]

    def citing(self, document_id: str | None) -> tuple[SitePost, ...]:
        """Return the posts that cite a document, in order of time."""
        return self._citing.get(document_id or "", ())

    def showing(self, document_id: str) -> tuple[SitePost, ...]:
        """Return the posts whose writer was shown a document without citing it, in order of time."""
        return self._showing.get(document_id, ())

    def written_as(self, document_id: str) -> SitePost | None:
        """Return the post that is this document; None if the document is no post of a window."""
        return self._written.get(document_id)

    def sharing(self, post: SitePost, most: int) -> tuple[tuple[SitePost, tuple[Use, ...]], ...]:
        """Return the other posts that cite documents of a post, with these; those with most of them, then earliest."""
        mine = {use.document_id for use in post.cited}
        shared = Counter(one.slug for key in mine for one in self.citing(key) if one.slug != post.slug)
        chosen = nsmallest(most, shared, key=lambda slug: (-shared[slug], self._places[slug]))
        return tuple(
            (one, tuple(use for use in one.cited if use.document_id in mine))
            for one in (self.posts[self._places[slug]] for slug in chosen)
        )

    @property
    def best(self) -> SitePost | None:
        """The newest of the twelve latest posts whose cited documents serve most messages; None without posts."""
        recent = self.posts[-_RECENT:]
        return max(reversed(recent), key=lambda post: post.served, default=None)

    @cached_property
    def conversation_names(self) -> Mapping[str, str]:
        """Names of the conversations for readers, by their ids."""
        windows = {post.window.conversation_id: post.window for post in self.posts}
        named = name_conversations([*windows, *(one.conversation_id for one in self.without_post)])
        return {
            key: windows[key].name_people(name) if key in windows else name for key, name in named.items()
        }

    @property
    def shared_documents(self) -> int:
        """Number of documents that more than one post cites."""
        return sum(len(posts) > 1 for posts in self._citing.values())

    @property
    def links_between_posts(self) -> int:
        """Number of pairs of a post and an earlier post that it cites."""
        return sum(use.document_id in self._written for post in self.posts for use in post.cited)

    @cached_property
    def _citing(self) -> dict[str, tuple[SitePost, ...]]:
        return self._collect(cited=True)

    @cached_property
    def _showing(self) -> dict[str, tuple[SitePost, ...]]:
        return self._collect(cited=False)

    @cached_property
    def _written(self) -> dict[str, SitePost]:
        return {post.document_id: post for post in self.posts if post.document_id}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {post.slug: place for place, post in enumerate(self.posts)}

    def _collect(self, *, cited: bool) -> dict[str, tuple[SitePost, ...]]:
        found: dict[str, list[SitePost]] = defaultdict(list)
        for post in self.posts:
            for key in dict.fromkeys(use.document_id for use in post.uses if use.cited == cited):
                found[key].append(post)
        return {key: tuple(posts) for key, posts in found.items()}
