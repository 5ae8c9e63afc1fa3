"""Material of a writer for one window: its messages, and the documents of its context with citation numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from backstory.base.ids import digest, is_written
from backstory.base.local_times import localize
from backstory.settings.writers import LetterGrain
from backstory.text.people import name_people


@dataclass(frozen=True)
class WindowMessage:
    """One message with a text.

    Attributes:
        message_id: Its id.
        sent_at: Time of sending, in the time zone of the conversation.
        author: Pseudonym of the author; None for a line of the app.
        text: Text, never blank.
    """

    message_id: str
    sent_at: datetime
    author: str | None
    text: str


@dataclass(frozen=True)
class EarlierTopic:
    """A topic of the letter before.

    Attributes:
        heading: What the digest of that letter calls it.
        documents: Ids of the documents that serve it, without posts.
        terms: Terms of its messages, sorted.
    """

    heading: str
    documents: tuple[str, ...]
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Period:
    """What a letter tells of.

    Attributes:
        grain: ``day``, ``week`` or ``month``.
        key: Its first day, such as ``2025-03-03``.
        windows: Ids of its windows, in order.
        last_started_at: Beginning of its last window, UTC.
        earlier: Topics of the period before, in their order; empty if nothing was said in it.
    """

    grain: LetterGrain
    key: str
    windows: tuple[str, ...] = ()
    last_started_at: datetime | None = None
    earlier: tuple[EarlierTopic, ...] = ()


@dataclass(frozen=True)
class WindowMaterial:
    """One window, or all windows of a period of which one letter tells.

    Attributes:
        window_id: Its id; of a letter that of the last window.
        conversation_id: Its conversation.
        partition: Its partition.
        started_at: Time of its first message, in the time zone of the conversation.
        ended_at: Time of its last message, likewise.
        language: Main language, ISO 639-1; None if it cannot be detected.
        messages: Its messages with a text, in order.
        period: What a letter tells of; None for the post of one window.
        people: Names for readers of the people of its conversation, by pseudonym.
    """

    window_id: str
    conversation_id: str
    partition: str
    started_at: datetime
    ended_at: datetime
    language: str | None
    messages: tuple[WindowMessage, ...]
    period: Period | None = None
    people: Mapping[str, str] = field(default_factory=dict)

    def name_people(self, text: str) -> str:
        """Write the people of a text, or one pseudonym, as readers see them."""
        return name_people(text, self.people)

    @property
    def window_ids(self) -> tuple[str, ...]:
        """Ids of the windows of which a post tells: the window's own, or those of a letter."""
        return self.period.windows if self.period is not None else (self.window_id,)

    @property
    def last_started_at(self) -> datetime:
        """Beginning of the window, or of the last window of a letter, UTC: what its context may hold is older."""
        last = self.period.last_started_at if self.period is not None else None
        return last or self.started_at

    @property
    def message_ids(self) -> tuple[str, ...]:
        """Ids of the messages, in order."""
        return tuple(message.message_id for message in self.messages)


@dataclass(frozen=True)
class Citation:
    """One document of a context.

    Attributes:
        number: Under which the post cites it, from 1, stable within the window.
        document_id: Its id.
        title: Its title.
        slug: Its slug; empty if no post may link to it, since its path names a person.
        path: Its file, relative to the workspace; empty if the document has none, or if no post may link to it.
        published_at: Date of publication, in the time zone of the workspace; None if it states none.
        tags: Its tags.
        passage: The part of it that serves this window.
        messages: Positions in :attr:`WindowMaterial.messages` of the messages that it serves.
        is_post: Whether it is a post that Backstory wrote for an earlier window.
        link: Where a link to it leads: the path of its file relative to the workspace, or a web address; empty for no
            link, None for :attr:`path`. The writer is not shown it.
    """

    number: int
    document_id: str
    title: str
    slug: str
    path: str
    published_at: datetime | None
    tags: tuple[str, ...]
    passage: str
    messages: tuple[int, ...]
    is_post: bool = False
    link: str | None = None

    @property
    def target(self) -> str:
        """Where a link to it leads; empty for no link."""
        return self.path or self.slug if self.link is None else self.link


@dataclass(frozen=True)
class ContextMaterial:
    """The context of one window.

    Attributes:
        status: One of :data:`backstory.storage.tables.schemas.CONTEXT_STATUSES`.
        citations: Its documents, best first.
    """

    status: str
    citations: tuple[Citation, ...] = ()


def hash_material(window: WindowMaterial, context: ContextMaterial) -> str:
    """Hash everything that a writer is shown. Scores and versions of the index do not count."""
    messages = [
        window.name_people(f"{message.sent_at.isoformat()} {message.author}: {message.text}")
        for message in window.messages
    ]
    cited = [
        [
            str(citation.number), citation.document_id, citation.title, citation.path, str(citation.published_at),
            " ".join(citation.tags), citation.passage, str(citation.messages),
        ]
        for citation in context.citations
    ]  # fmt: skip
    parts = [window.window_id, window.language or "", context.status, digest(messages), *map(digest, cited)]
    if window.period is not None:
        parts += [window.period.grain, window.period.key]
        parts += [digest([one.heading, *one.documents, "", *one.terms]) for one in window.period.earlier]
    return digest(parts, length=16)


def gather_windows(
    windows: pl.DataFrame,
    messages: pl.DataFrame,
    languages: pl.DataFrame,
    people: Mapping[str, Mapping[str, str]] | None = None,
) -> list[WindowMaterial]:
    """Collect the messages of windows.

    Args:
        windows: Table ``windows``.
        messages: Table ``messages`` with all messages that the windows name.
        languages: ``window_id`` and ``language``, such as table ``window_contexts``.
        people: Names for readers by pseudonym, by conversation; None where the authors are not hidden.

    Returns:
        One per window, in the order of ``windows``. Media without a caption and lines of the app are left out.
    """
    texts = {
        row["message_id"]: WindowMessage(
            row["message_id"], localize(row["timestamp"], row["timezone"]), row["author"], row["text"].strip()
        )
        for row in messages.filter(pl.col("kind") != "system").iter_rows(named=True)
        if row["text"] and row["text"].strip()
    }
    known = dict(languages.select("window_id", "language").iter_rows())
    return [
        WindowMaterial(
            window_id=row["window_id"],
            conversation_id=row["conversation_id"],
            partition=row["partition"],
            started_at=localize(row["started_at"], row["timezone"]),
            ended_at=localize(row["ended_at"], row["timezone"]),
            language=known.get(row["window_id"]),
            messages=tuple(texts[key] for key in row["message_ids"] if key in texts),
            people=(people or {}).get(row["conversation_id"], {}),
        )
        for row in windows.iter_rows(named=True)
    ]


def gather_context(
    status: str, rows: Sequence[dict[str, Any]], served: dict[str, tuple[int, ...]]
) -> ContextMaterial:
    """Collect the documents of a context under their citation numbers.

    Args:
        status: Status of the window's context.
        rows: Rows of table ``contexts`` of the window by rank, each with the ``path`` and ``link`` of its
            document.
        served: Positions of the messages that each stored chunk serves, by its id.

    Returns:
        One citation per document; its passage joins those of its chunks.
    """
    chunks: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        chunks.setdefault(row["document_id"], []).append(row)
    return ContextMaterial(
        status,
        tuple(
            Citation(
                number=rows[0]["citation"],
                document_id=document_id,
                title=rows[0]["title"],
                slug=rows[0]["slug"],
                path=rows[0]["path"],
                published_at=rows[0]["published_at"],
                tags=tuple(rows[0]["tags"]),
                passage="\n…\n".join(row["passage"] for row in rows),
                messages=tuple(sorted({place for row in rows for place in served.get(row["chunk_id"], ())})),
                is_post=is_written(rows[0]["uri"]),
                link=rows[0]["link"],
            )
            for document_id, rows in chunks.items()
        ),
    )
