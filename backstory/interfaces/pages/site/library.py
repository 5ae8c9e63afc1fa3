"""The data of a site: posts, the documents that they used, and the windows without a post."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from backstory.writing.material import WindowMaterial


@dataclass(frozen=True)
class Quote:
    """A message that a document in the writer's prompt serves."""

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
    """

    number: int
    document_id: str
    title: str
    published_at: datetime | None
    path: str
    passage: str
    because: tuple[Quote, ...]
    cited: bool


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


@dataclass(frozen=True)
class SiteDocument:
    """A document in the prompt of at least one post, in its present revision."""

    document_id: str
    title: str
    path: str
    published_at: datetime | None
    tags: tuple[str, ...]
    text: str


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
        return tuple(post for post in self.posts if any(use.document_id == document_id for use in post.cited))

    def written_as(self, document_id: str) -> SitePost | None:
        """Return the post that is this document; None if the document is no post of a window."""
        return next((post for post in self.posts if post.document_id == document_id), None)

    def sharing(self, post: SitePost) -> tuple[tuple[SitePost, tuple[Use, ...]], ...]:
        """Return the other posts that cite documents of a post, with these; those with most of them first."""
        mine = {use.document_id for use in post.cited}
        shared = [
            (one, tuple(use for use in one.cited if use.document_id in mine))
            for one in self.posts
            if one.slug != post.slug
        ]
        return tuple(sorted(((one, uses) for one, uses in shared if uses), key=lambda pair: -len(pair[1])))

    @property
    def shared_documents(self) -> int:
        """Number of documents that more than one post cites."""
        cited = Counter(use.document_id for post in self.posts for use in post.cited)
        return sum(count > 1 for count in cited.values())

    @property
    def links_between_posts(self) -> int:
        """Number of pairs of a post and an earlier post that it cites."""
        written = {post.document_id for post in self.posts if post.document_id}
        return sum(use.document_id in written for post in self.posts for use in post.cited)
