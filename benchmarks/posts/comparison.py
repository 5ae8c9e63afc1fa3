"""Scores of the posts that a writer makes of a labelled set with different contexts."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from backstory.base.environment import cache_folder
from backstory.base.errors import InputError
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache, embed_texts
from backstory.operations.evaluation import LabelledSet, embed_windows, index_documents, read_labelled_set
from backstory.operations.scoring import compare_methods, name_group
from backstory.retrieval.assembly import Retrieval
from backstory.settings.models import Settings
from backstory.storage.schema import CACHE
from backstory.storage.state_places import open_state
from backstory.writing.citations import LinkedText, link_citations
from backstory.writing.digest_writer import DigestWriter, Outlined, outline
from backstory.writing.draft import Writer
from backstory.writing.material import ContextMaterial, WindowMaterial
from backstory.writing.sentences import choose_words
from benchmarks.posts.claims import Embed, Source, find_claims, list_sources, support_claims
from benchmarks.posts.contexts import CONTEXTS, WITH_CONTEXT, find_contexts, show_windows
from benchmarks.posts.scoring import (
    POST_METRICS,
    Repetition,
    TopicLabels,
    score_citations,
    score_claims,
    score_names,
    score_sections,
    score_topics,
)

_NAME_PREFIX: Final = re.compile(r".*#|\w+:t\d+:")
"""What stands before the name of a topic: its date or meeting, and its number."""


@dataclass(frozen=True)
class PostComparison:
    """Scores of posts with different contexts.

    Attributes:
        name: Name of the set.
        writer: Writer and its version.
        scores: One row per context and window.
        table: From :func:`backstory.operations.scoring.compare_methods`.
    """

    name: str
    writer: str
    scores: pl.DataFrame
    table: pl.DataFrame

    def as_record(self) -> dict[str, Any]:
        """Give the comparison as JSON-serializable data."""
        return {"set": self.name, "writer": self.writer, "scores": self.table.to_dicts()}


@dataclass(frozen=True)
class _JudgedPost:
    method: str
    window: WindowMaterial
    linked: LinkedText
    claims: list[str]
    supports: list[Source | None]
    sections: list[Outlined]


def evaluate_posts(
    folder: Path, settings: Settings, *, windows: int | None = None, groups: tuple[str, ...] = ()
) -> PostComparison:
    """Score the posts of the digest writer with Backstory's context, a whole-window context, and none.

    Args:
        folder: A labelled set with ``msg_topics.parquet`` (``window_id``, ``msg_no``, ``topic``).
        settings: The settings to evaluate.
        windows: Take the first windows of each group; None for all.
        groups: Take these groups; empty for all.

    Raises:
        InputError: The folder is not a labelled set, has no topics of messages, or has no window in the groups.
        ModelError: The embedder failed.
    """
    labelled = _take_windows(read_labelled_set(folder), windows, groups)
    labels = _read_labels(folder, labelled)
    embedder = make_embedder(settings.embedding)
    cache = EmbeddingCache(open_state(cache_folder(), None, CACHE))
    with tempfile.TemporaryDirectory(prefix="backstory-eval-") as scratch:
        index, _ = index_documents(Path(scratch), labelled, settings, embedder, cache)
        with index:
            chunks, vectors = embed_windows(labelled, settings, embedder, cache)
            materials = show_windows(labelled)
            retrieval = Retrieval.from_settings(settings, index)
            contexts = find_contexts(labelled, materials, chunks, vectors, retrieval)

    def embed(texts: list[str]) -> Any:
        return embed_texts(embedder, texts, task="document", cache=cache).vectors

    writer = DigestWriter()
    posts = [
        _judge(writer, method, window, contexts[method][window.window_id], embed)
        for method in CONTEXTS
        for window in materials
    ]
    scores = _score(posts, labels, labelled)
    table = compare_methods(scores, of=WITH_CONTEXT, metrics=POST_METRICS)
    return PostComparison(labelled.name, writer.id, scores, table)


def _judge(
    writer: Writer, method: str, window: WindowMaterial, context: ContextMaterial, embed: Embed
) -> _JudgedPost:
    draft = writer.write(window, context)
    words = choose_words(window.language)
    claims = find_claims(draft.text)
    return _JudgedPost(
        method,
        window,
        link_citations(draft.text, window, context, folder="written"),
        claims,
        support_claims(claims, list_sources(window, context, words), words, embed),
        outline(window, context),
    )


def _score(posts: list[_JudgedPost], labels: dict[str, TopicLabels], labelled: LabelledSet) -> pl.DataFrame:
    repetition = Repetition((post.claims for post in posts), labelled.documents)
    rows = [
        (
            post.method,
            name_group(post.window.window_id, labelled.name),
            post.window.window_id,
            *score_topics(post.supports, post.linked, labels[post.window.window_id]),
            score_sections([one.places for one in post.sections], labels[post.window.window_id].said),
            *score_names(
                [(one.heading, one.places) for one in post.sections],
                labels[post.window.window_id],
                choose_words(post.window.language),
            ),
            score_claims(post.supports),
            score_citations(post.linked),
            repetition.score(post.claims, post.window.started_at),
        )
        for post in posts
    ]
    columns = {"method": pl.String, "group": pl.String, "window_id": pl.String}
    schema = {**columns, **dict.fromkeys(POST_METRICS, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("group", "window_id", "method")


def _take_windows(labelled: LabelledSet, most: int | None, groups: tuple[str, ...]) -> LabelledSet:
    names = [name_group(key, labelled.name) for key in labelled.windows["window_id"]]
    taken = labelled.windows.with_columns(pl.Series("group", names, dtype=pl.String))
    absent = sorted(set(groups) - set(names))
    if absent:
        raise InputError(
            f"no window is in the group {', '.join(absent)}; {labelled.name} has {', '.join(sorted(set(names)))}",
            code="unknown_group",
        )
    if groups:
        taken = taken.filter(pl.col("group").is_in(groups))
    if most is not None:
        taken = taken.filter(pl.int_range(pl.len()).over("group") < most)
    keys = taken["window_id"].implode()
    return replace(
        labelled,
        windows=taken.drop("group"),
        messages=labelled.messages.filter(pl.col("conversation_id").is_in(keys)),
        qrels=labelled.qrels.filter(pl.col("window_id").is_in(keys)),
    )


def _read_labels(folder: Path, labelled: LabelledSet) -> dict[str, TopicLabels]:
    if labelled.message_topics is None:
        raise InputError(
            f"{folder / 'msg_topics.parquet'} is absent; it gives the topic of each message (window_id, msg_no, topic)",
            code="absent_file",
        )
    topics: dict[str, str] = dict(labelled.message_topics.iter_rows())
    documents: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    named: dict[str, dict[str, None]] = defaultdict(dict)
    for window, document, topic in labelled.qrels.select("window_id", "doc_id", "topic").iter_rows():
        documents[window][document].add(topic)
        named[window][topic] = None
    return {
        window.window_id: TopicLabels(
            [topics.get(message, "") for message in window.message_ids],
            {key: frozenset(held) for key, held in documents[window.window_id].items()},
            _name_topics(window, topics, named[window.window_id]),
        )
        for window in show_windows(labelled)
    }


def _name_topics(
    window: WindowMaterial, topics: Mapping[str, str], judged: Collection[str]
) -> dict[str, list[str]]:
    """Name the topics of messages as their judgements do.

    A topic without judgements of its own may have the name of any in the window of which its messages say a word.
    """
    names = {topic: _NAME_PREFIX.sub("", topic).replace("-", " ") for topic in judged}
    words = choose_words(window.language)
    said: dict[str, set[str]] = defaultdict(set)
    for message in window.messages:
        said[topics.get(message.message_id, "")].update(words.split(message.text))
    return {
        topic: [names[topic]]
        if topic in names
        else [name for name in names.values() if not said[topic].isdisjoint(words.split(name))]
        for topic in said
        if topic
    }
