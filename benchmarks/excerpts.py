"""Measure how much of a window's topics the excerpts in its context show.

A relevant document shares words with the messages of its topic. The passage of the document and its beginning are
compared by the part of these words that they show, weighted by rarity in the corpus, and by the tokens that this takes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import polars as pl

from backstory.operations.evaluation import LabelledSet
from backstory.operations.scoring import compare_methods, name_group
from backstory.retrieval.assembly import Retrieval
from backstory.text.chunking.units import estimate_tokens
from backstory.text.prompts.entries import count_longest, cut_snippet

PASSAGE: Final = "passage"
LONG_BEGINNING: Final = "beginning, as long as the passage"
BEGINNING: Final = "beginning"
SHORT_PASSAGE: Final = "passage, as long as the beginning"
EXCERPTS: Final = (PASSAGE, LONG_BEGINNING, SHORT_PASSAGE, BEGINNING)

EXCERPT_METRICS: Final = ("words shown", "tokens", "words shown per 1,000 tokens")
ANSWER_METRIC: Final = "answer shown"


@dataclass(frozen=True)
class _Shown:
    """The text that one of :data:`EXCERPTS` shows of a relevant document, the messages that it serves, the answers."""

    window_id: str
    document_id: str
    method: str
    text: str
    query: str
    answers: Sequence[str]


def score_excerpts(
    labelled: LabelledSet,
    decisions: pl.DataFrame,
    contexts: pl.DataFrame,
    window_chunks: pl.DataFrame,
    retrieval: Retrieval,
) -> pl.DataFrame:
    """Score what contexts show of their relevant documents.

    The words are those that the messages of a document's topics share with its text; where no message is labelled with
    these topics, those of the query chunks that found it. The short passages of a window take as many tokens as its
    beginnings.

    Returns:
        ``method``, ``group``, ``window_id`` and the metrics, for windows whose context holds a relevant document. They
        are pooled over these documents: ``words shown``, the share of the words by rarity; ``tokens`` of the excerpts;
        the share ``per 1,000 tokens``; ``answer shown``, the share of the labelled answers, null where there are none.
    """
    shown = _list_shown(labelled, decisions, contexts, window_chunks, retrieval)
    texts = dict(labelled.documents.select("document_id", "text").iter_rows())
    words = _read_words([one.text for one in shown], retrieval)
    queries = _read_words([one.query for one in shown], retrieval)
    documents = _read_words([texts[one.document_id] for one in shown], retrieval)
    tokens = estimate_tokens([one.text for one in shown]).tolist() if shown else []
    rows = []
    for place, one in enumerate(shown):
        shared = queries[place].keys() & documents[place].keys()
        held = shared & words[place].keys()
        found = [_fold(answer) in _fold(one.text) for answer in one.answers]
        weights = queries[place]
        rows.append(
            (
                one.method,
                one.window_id,
                _add(held, weights),
                _add(shared, weights),
                tokens[place],
                *_tally(found),
            )
        )
    names = {key: name_group(key, labelled.name) for key in labelled.windows["window_id"]}
    columns = {
        "held": pl.Float64,
        "shared": pl.Float64,
        "tokens": pl.Float64,
        "answers_shown": pl.Int64,
        "answers": pl.Int64,
    }
    return (
        pl.DataFrame(rows, {"method": pl.String, "window_id": pl.String, **columns}, orient="row")
        .group_by("method", "window_id", maintain_order=True)
        .agg(pl.col(*columns).sum())
        .filter(pl.col("shared") > 0)
        .select(
            "method",
            pl.col("window_id").replace_strict(names, return_dtype=pl.String).alias("group"),
            "window_id",
            (pl.col("held") / pl.col("shared")).alias("words shown"),
            "tokens",
            (1000 * pl.col("held") / pl.col("shared") / pl.col("tokens")).alias(
                "words shown per 1,000 tokens"
            ),
            pl.when(pl.col("answers") > 0)
            .then(pl.col("answers_shown") / pl.col("answers"))
            .alias(ANSWER_METRIC),
        )
        .sort("group", "window_id", "method")
    )


def compare_excerpts(scores: pl.DataFrame) -> pl.DataFrame:
    """Compare the passage with the other excerpts, group by group; ``answer shown`` where answers are labelled."""
    answered = scores.drop_nulls(ANSWER_METRIC)
    return pl.concat(
        [
            compare_methods(scores, of=PASSAGE, metrics=EXCERPT_METRICS),
            compare_methods(answered, of=PASSAGE, metrics=(ANSWER_METRIC,)),
        ]
    )


def _list_shown(
    labelled: LabelledSet,
    decisions: pl.DataFrame,
    contexts: pl.DataFrame,
    window_chunks: pl.DataFrame,
    retrieval: Retrieval,
) -> list[_Shown]:
    keys = ["window_id", "rank"]
    short = _shorten(decisions, contexts, window_chunks, retrieval).select(*keys, short="passage")
    topics: dict[tuple[str, str], list[str]] = defaultdict(list)
    answers: dict[tuple[str, str], list[str]] = defaultdict(list)
    for window_id, document_id, topic, answer in labelled.qrels.select(
        "window_id", "doc_id", "topic", "answer"
    ).iter_rows():
        topics[window_id, document_id].append(topic)
        answers[window_id, document_id] += [answer] if answer else []
    messages = _Messages(labelled, window_chunks)
    shown = []
    for row in contexts.join(short, on=keys, maintain_order="left").iter_rows(named=True):
        key = (row["window_id"], row["document_id"])
        if key not in topics:
            continue
        question = messages.read(row, topics[key])
        excerpts = {
            PASSAGE: row["passage"],
            LONG_BEGINNING: cut_snippet(row["content"], len(row["passage"])),
            SHORT_PASSAGE: row["short"],
            BEGINNING: cut_snippet(row["content"], retrieval.context.snippet_characters),
        }
        shown += [_Shown(*key, method, text, question, answers[key]) for method, text in excerpts.items()]
    return shown


class _Messages:
    """The messages that documents serve."""

    def __init__(self, labelled: LabelledSet, window_chunks: pl.DataFrame) -> None:
        self._chunks = dict(window_chunks.select("chunk_id", "text").iter_rows())
        self._by_topic: dict[tuple[str, str], list[str]] = defaultdict(list)
        if labelled.message_topics is not None:
            texts = labelled.messages.join(labelled.message_topics, on="message_id", maintain_order="left")
            for window_id, topic, text in texts.select("conversation_id", "topic", "text").iter_rows():
                self._by_topic[window_id, topic].append(text)

    def read(self, row: Mapping[str, Any], topics: Sequence[str]) -> str:
        """Join the messages of the topics; where no message is labelled with them, those that found the document."""
        said = [text for topic in topics for text in self._by_topic.get((row["window_id"], topic), [])]
        return "\n".join(said or (self._chunks.get(query, "") for query in row["matched_query_chunks"]))


def _shorten(
    decisions: pl.DataFrame, contexts: pl.DataFrame, window_chunks: pl.DataFrame, retrieval: Retrieval
) -> pl.DataFrame:
    """Rebuild the contexts, each with as many tokens as the beginnings of its chunks take."""
    most = retrieval.context.snippet_characters
    by_window = decisions.partition_by("window_id", as_dict=True)
    made = [contexts.clear()]
    for (window_id,), rows in contexts.group_by("window_id", maintain_order=True):
        beginnings = [{**row, "passage": cut_snippet(row["content"], most)} for row in rows.to_dicts()]
        settings = retrieval.context.model_copy(update={"max_tokens": count_longest(beginnings)})
        shorter = replace(retrieval, context=settings)
        made.append(
            shorter.gather(by_window[window_id,], window_chunks.filter(pl.col("window_id") == window_id))
        )
    return pl.concat(made)


def _read_words(texts: Sequence[str], retrieval: Retrieval) -> list[dict[int, float]]:
    """Return the words of each text that the index knows, with their rarity."""
    distinct = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    words: list[dict[int, float]] = [{} for _ in distinct]
    for place, term, rarity in retrieval.index.terms_of(list(distinct)).iter_rows():
        words[place][term] = rarity
    return [words[distinct[text]] for text in texts]


def _add(words: Collection[int], weights: Mapping[int, float]) -> float:
    return sum(weights[word] for word in sorted(words))


def _tally(found: Sequence[bool]) -> tuple[int, int]:
    return sum(found), len(found)


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())
