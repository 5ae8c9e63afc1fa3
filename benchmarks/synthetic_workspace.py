"""A synthetic workspace of any size, the same on every machine: a year of chat on several topics, and posts on them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

DAYS = 365
TOPICS = 60
WORDS_PER_TOPIC = 300
COMMON_WORDS = 3_000
MEMBERS = 24
WORDS_AT_ONCE = 4_000_000

_FIRST_DAY = datetime(2025, 1, 1, tzinfo=UTC)
_SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in ("a", "e", "i", "o", "u", "ai", "or")]

ExportFormat = Literal["whatsapp", "parquet"]


@dataclass(frozen=True)
class Size:
    """The size of a workspace.

    Attributes:
        windows: Windows of a conversation in the year, spread evenly over its days.
        messages: Messages per window.
        documents: Number of posts.
        conversations: Number of conversations; one, if the export is text.
    """

    windows: int
    messages: int
    documents: int
    conversations: int = 1


def write_workspace(root: Path, size: Size, *, embedder: str, export: ExportFormat) -> None:
    """Write settings, one chat export per conversation, and the posts.

    Messages have 1 to 120 words, half of them at most 8, as in group chats. Runs of a few messages share a topic.
    Posts have 150 to 900 words about one or two topics; most are published before the year.

    Args:
        root: An empty or absent folder.
        size: Number of windows, messages and posts to write.
        embedder: Provider of the embeddings.
        export: Format of the chat export.
    """
    for folder in ("chats", "posts"):
        (root / folder).mkdir(parents=True)
    (root / "backstory.yaml").write_text(
        "conversations: {date_order: dmy}\n"  # too few days to infer it
        f"windows: {{unit: messages, size: {size.messages}}}\n"
        f"partitions: {{start: {_FIRST_DAY.date()}}}\nembedding: {{provider: {embedder}}}\n",
        encoding="utf-8",
    )
    words = _make_words()
    _write_posts(root / "posts", size.documents, words)
    chat = _make_chat(size, words)
    if export == "parquet":
        chat.write_parquet(root / "chats" / "group.parquet")
        for number in range(1, size.conversations):
            _make_chat(size, words, seed=2 + number).write_parquet(root / "chats" / f"group-{number}.parquet")
        return
    lines = chat.select(
        pl.format("{} - {}: {}", pl.col("timestamp").dt.strftime("%d/%m/%Y, %H:%M"), "author", "message")
    )
    lines.write_csv(root / "chats" / "group.txt", include_header=False, quote_style="never")


def _make_words() -> pl.Series:
    """Make the vocabulary: the common words, then the words of each topic."""
    random = np.random.default_rng(0)
    count = 2 * (COMMON_WORDS + TOPICS * WORDS_PER_TOPIC)
    parts = random.integers(0, len(_SYLLABLES), (count, 4))
    lengths = random.integers(2, 5, count)
    written = [
        "".join(_SYLLABLES[part] for part in row[:length]) for row, length in zip(parts, lengths, strict=True)
    ]
    return pl.Series(list(dict.fromkeys(written))[: count // 2])


def _write_posts(folder: Path, count: int, words: pl.Series) -> None:
    random = np.random.default_rng(1)
    topics = random.integers(0, TOPICS, (count, 2))
    lengths = random.integers(150, 900, count)
    published = random.integers(-700, 300, count)
    owners = np.repeat(np.arange(count), lengths)
    second = random.random(len(owners)) < 0.3
    texts = _write_texts(lengths, np.where(second, topics[owners, 1], topics[owners, 0]), words, random)
    for number, (text, (topic, _), days) in enumerate(
        zip(texts, topics.tolist(), published.tolist(), strict=True)
    ):
        day = (_FIRST_DAY + timedelta(days=days)).date()
        sentences = text.split(" ")
        paragraphs = [" ".join(sentences[at : at + 60]) + "." for at in range(0, len(sentences), 60)]
        body = "\n\n".join(paragraphs)
        front = f"---\ntitle: Post {number}\ndate: {day}\ntags: [topic{topic}]\n---\n\n"
        (folder / f"post-{number:06d}.md").write_text(front + body + "\n", encoding="utf-8")


def _make_chat(size: Size, words: pl.Series, seed: int = 2) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    day_of_window = np.arange(size.windows) * DAYS // size.windows
    day = np.repeat(day_of_window, size.messages)
    count = len(day)
    place = np.arange(count) - np.searchsorted(day, day)
    per_day = np.bincount(day, minlength=DAYS)[day]
    minute = 480 + place * 900 // per_day
    threads = np.cumsum(random.random(count) < 0.15)
    topic_of_thread = random.integers(0, TOPICS, int(threads[-1]) + 1)
    lengths = np.clip(random.lognormal(2.1, 0.8, count), 1, 120).astype(np.int64)
    owners = np.repeat(np.arange(count), lengths)
    texts = _write_texts(lengths, topic_of_thread[threads][owners], words, random)
    authors = pl.Series(
        [f"{words[number].title()} {words[-number - 1].title()}" for number in range(MEMBERS)]
    )
    moments = pl.Series(day * 1440 + minute) * 60_000_000 + int(_FIRST_DAY.timestamp()) * 1_000_000
    return pl.DataFrame(
        {
            "timestamp": moments.cast(pl.Datetime("us", "UTC")),
            "author": authors.gather(random.integers(0, MEMBERS, count)),
            "message": texts,
        }
    )


def _write_texts(
    lengths: NDArray[np.int64],
    topic_of_word: NDArray[np.int64],
    words: pl.Series,
    random: np.random.Generator,
) -> pl.Series:
    """Write one text per length, of half common words and half words of its topic, each with unequal frequencies."""
    ends = np.cumsum(lengths)
    bounds = np.searchsorted(ends, np.arange(0, int(ends[-1]) + WORDS_AT_ONCE, WORDS_AT_ONCE), side="left")
    parts = []
    for first, last in zip(bounds[:-1], [*bounds[1:-1], len(lengths)], strict=True):
        start, stop = int(ends[first] - lengths[first]), int(ends[last - 1])
        rank = random.random(stop - start) ** 2.5
        of_topic = random.random(stop - start) < 0.5
        own = (
            COMMON_WORDS
            + topic_of_word[start:stop] * WORDS_PER_TOPIC
            + (rank * WORDS_PER_TOPIC).astype(np.int64)
        )
        chosen = np.where(of_topic, own, (rank * COMMON_WORDS).astype(np.int64))
        text = pl.DataFrame(
            {
                "text": pl.Series(np.repeat(np.arange(last - first), lengths[first:last])),
                "word": words.gather(chosen),
            }
        )
        parts.append(
            text.set_sorted("text")
            .group_by("text", maintain_order=True)
            .agg(pl.col("word").str.join(" "))["word"]
        )
    return pl.concat(parts)
