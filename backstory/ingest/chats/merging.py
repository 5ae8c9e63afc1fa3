"""Exports of one conversation that overlap, from several phones or from one phone at several times."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from backstory.ingest.chats.formats.whatsapp_locales import BIDI_MARKS

_MENTION: Final = "@\u2068[^\u2069\n]{1,100}\u2069|@\\+?[0-9]{7,15}"
_COPY: Final = re.compile(r"(?P<name>.+?) ?\((?P<number>\d{1,3})\)")
_LEAST_CHARACTERS: Final = 8
"""Shorter texts are no evidence that two exports belong together."""
_LEAST_SHARED: Final = {False: 10, True: 3}
"""Minimum number of shared texts of two exports; also of a copy by its name, and of files of one subfolder."""
_LEAST_COPIED: Final = {False: 3, True: 1}
"""Minimum number of messages of an export that is an exact copy of a part of another."""
_LEAST_SHARES: Final = {False: (0.8, 0.5), True: (0.5, 0.2)}
"""Minimum shares of messages in both exports, within the period that both cover: of one export, and of the other."""
_LEAST_SHARE_AT_OFFSET: Final = 0.6
_LEAST_SHARE_OF_OFFSET: Final = 0.1
_LEAST_SHARE_IN_ORDER: Final = 0.95
_SAME_PERSON: Final = 0.8
_MINUTE: Final = 60_000_000
_QUARTER_HOUR: Final = 15 * _MINUTE
_MOST_APART: Final = 3 * _MINUTE
"""Tolerance: exports of one message may differ in time by this much."""
_MOST_OFFSET: Final = 26 * 4 * _QUARTER_HOUR
"""Largest difference between two time zones."""
_Times: TypeAlias = NDArray[np.int64]
"""Microseconds since 1970."""
_MESSAGE: Final = ("timestamp", "author", "kind", "norm")


@dataclass(frozen=True)
class Merge:
    """An export that was merged into the conversation of another export.

    Attributes:
        source: Path of the merged export, relative to the folder of exports.
        into: Path of the leading export, whose conversation name, clock and names of people are used.
        shared: Number of messages in both exports.
        messages: Number of messages in the merged export.
        offset: Minutes by which its clock is ahead of the leading export's.
        renamed: Number of people with a different name in the merged export.
    """

    source: str
    into: str
    shared: int
    messages: int
    offset: int
    renamed: int

    def describe(self, into: str) -> str:
        """Describe the merge in a sentence; ``into`` is the name of the leading export in it."""
        facts = [f"{self.shared:,} of its {self.messages:,} messages are there, too, and are kept once"]
        if self.offset:
            hours, minutes = divmod(abs(self.offset), 60)
            direction = "ahead of" if self.offset > 0 else "behind"
            facts.append(f"its clock is {hours}:{minutes:02} h {direction} that one")
        if self.renamed:
            facts.append(f"people with another name here: {self.renamed}")
        return f"another export of the conversation in {into}: {'; '.join(facts)}"


@dataclass(frozen=True)
class MergedExports:
    """Messages of all exports, with the names and clock of one leading export per conversation.

    Attributes:
        messages: The input rows in their order. A message in several exports has equal values in all of them.
        merges: One entry per export that was merged into another.
        aliases: Names that were replaced, each mapped to its replacement.
    """

    messages: pl.DataFrame
    merges: tuple[Merge, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)


def merge_exports(messages: pl.DataFrame) -> MergedExports:
    """Find exports of the same conversation by shared texts, and unify their names and clocks.

    Two exports belong to one conversation under two conditions. First, they share enough texts that occur once in
    each, in the same order, with a constant time difference: a multiple of a quarter hour (another time zone), with
    a tolerance of three minutes. Second, most messages in the period that both cover are in both. Fewer shared texts
    are enough for a copy (``name (1).txt``) and for files of one subfolder.

    One export leads: an export in a subfolder, else the first by name, with copies after their original. Its names
    of people and its clock are used for all. A message that is also in another export gets the leading export's
    time, author and text there, so that both get the same id. A message that is only in the other export keeps its
    text; its time and author are converted. Lines of the app and media have different texts in each language, so they
    are matched by author, kind and time.

    Exports that identify their messages are left as they are: the ids say which of them are the same.

    ``messages``: messages of any number of exports, each in the order of its file: ``conversation_id``, ``timestamp``,
    ``author``, ``text``, ``kind``, ``key`` (null if the export identifies none) and ``source``.
    """
    is_identified = messages.select(pl.col("key").is_not_null().any().over("source")).to_series()
    compared = messages.with_row_index("place").filter(~is_identified)
    if compared["source"].n_unique() < 2:
        return MergedExports(messages)
    merged = _Groups(compared).merge()
    if not merged.merges:
        return MergedExports(messages)
    others = messages.with_row_index("place").filter(is_identified)
    return replace(merged, messages=pl.concat([merged.messages, others]).sort("place").drop("place"))


@dataclass
class _Group:
    """Exports of one conversation with unified names and clock: the leading one first, and the rows of all, once."""

    sources: list[str]
    rows: list[int]


class _Groups:
    """Joins exports to groups, and holds their messages by row meanwhile."""

    def __init__(self, messages: pl.DataFrame) -> None:
        self._messages = messages
        normalized = _normalize(messages)
        self._times: list[int] = messages["timestamp"].dt.timestamp("us").to_list()
        self._authors: list[str | None] = messages["author"].to_list()
        self._texts: list[str | None] = messages["text"].to_list()
        self._kinds: list[str] = messages["kind"].to_list()
        self._norms: list[str] = normalized["norm"].to_list()
        self._conversations = dict(messages.select("source", "conversation_id").unique().iter_rows())
        self._ranks = {source: _rank(source, name) for source, name in self._conversations.items()}
        self._names: dict[str, str] = {}
        self._merges: dict[str, Merge] = {}
        self._evidence = self._find_evidence(normalized)

    def _find_evidence(self, texts: pl.DataFrame) -> Counter[tuple[str, str]]:
        """Count what pairs of exports share: texts that occur once in each, and whole messages.

        What many exports hold counts for each of them with the first and with the one before it, so that time and
        memory grow with the number of messages, and not with the square of the number of exports. Exports that are
        named alike need fewer messages, and also count among themselves.
        """
        ranked = {
            source: place for place, source in enumerate(sorted(self._ranks, key=self._ranks.__getitem__))
        }
        names = {source: " ".join(map(str, rank[:2])) for source, rank in self._ranks.items()}
        texts = texts.with_columns(
            pl.col("source").replace_strict(ranked, return_dtype=pl.Int64).alias("rank"),
            pl.col("source").replace_strict(names, return_dtype=pl.String).alias("name"),
        )
        long = texts.filter(pl.col("kind") == "message", pl.col("norm").str.len_chars() >= _LEAST_CHARACTERS)
        once = long.filter(pl.len().over("source", "norm") == 1)
        evidence: Counter[tuple[str, str]] = Counter()
        for rows, keys in ((once, ["norm"]), (texts, [*_MESSAGE]), (texts, ["name", *_MESSAGE])):
            distinct = rows.select("source", "rank", *keys).unique().sort("rank")
            others = (pl.col("source").first().over(keys), pl.col("source").shift().over(keys))
            pairs = distinct.with_columns(other=pl.concat_list(others).list.unique()).explode("other")
            different = pairs.filter(pl.col("other") != pl.col("source"))
            for other, source, count in different.group_by("other", "source").len().iter_rows():
                evidence[other, source] += count
        return evidence

    def merge(self) -> MergedExports:
        """Merge groups until no two groups match."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, source in enumerate(self._messages["source"]):
            rows[source].append(row)
        groups = {
            source: _Group([source], rows[source]) for source in sorted(rows, key=self._ranks.__getitem__)
        }
        refused: set[tuple[str, int, str, int]] = set()
        while self._join_next(groups, refused):
            pass
        changed = self._messages.with_columns(
            pl.Series("timestamp", self._times).cast(pl.Datetime("us", "UTC")),
            pl.Series("author", self._authors, dtype=pl.String),
            pl.Series("text", self._texts, dtype=pl.String),
            pl.col("source")
            .replace_strict(self._conversations, return_dtype=pl.String)
            .alias("conversation_id"),
        )
        written = set(changed["author"].drop_nulls().unique())
        aliases = {name: self._final_name(name) for name in self._names if name not in written}
        return MergedExports(changed, tuple(self._merges[source] for source in sorted(self._merges)), aliases)

    def _join_next(self, groups: dict[str, _Group], refused: set[tuple[str, int, str, int]]) -> bool:
        """Join the first two groups that match, in the order of their leading exports; return whether any did."""
        shared: Counter[tuple[str, str]] = Counter()
        for pair, count in self._evidence.items():
            leaders = sorted((groups[source].sources[0] for source in pair), key=self._ranks.__getitem__)
            shared[leaders[0], leaders[1]] += count
        order = sorted(shared, key=lambda pair: (self._ranks[pair[0]], self._ranks[pair[1]]))
        for leading, other in ((groups[first], groups[second]) for first, second in order if first != second):
            tried = (leading.sources[0], len(leading.sources), other.sources[0], len(other.sources))
            least = _LEAST_COPIED[self._are_named_alike(leading, other)]
            if tried in refused or shared[leading.sources[0], other.sources[0]] < least:
                continue
            if self._join(leading, other):
                groups.update(dict.fromkeys(leading.sources, leading))
                return True
            refused.add(tried)
        return False

    def _join(self, leading: _Group, other: _Group) -> bool:
        """Bring the other group's messages into the leading group's terms, unless the evidence is too weak."""
        alike = self._are_named_alike(leading, other)
        anchors = self._find_anchors(leading, other)
        if len(anchors) < _LEAST_SHARED[alike]:
            if not self._is_exact_copy(leading, other, _LEAST_COPIED[alike]):
                return False
            anchors = np.zeros((1, 2), np.int64)
        offsets = _round(anchors[:, 1] - anchors[:, 0])
        there = np.array([self._times[row] for row in other.rows], np.int64)
        middles = (anchors[1:, 1] + anchors[:-1, 1]) // 2
        shifted = there - offsets[np.searchsorted(middles, there)]
        times = dict(zip(other.rows, shifted.tolist(), strict=True))
        names = self._find_names(leading, other, times)
        authors = {row: names.get(self._authors[row] or "", self._authors[row]) for row in other.rows}
        matches = self._match(leading.rows, authors, times)
        if not self._is_shared_enough(leading, times, matches, _LEAST_SHARES[alike]):
            return False
        into, first = leading.sources[0], other.sources[0]
        written = {self._authors[row] for row in other.rows}
        renamed = {name: now for name, now in names.items() if name in written and name != now}
        shared, messages = (
            sum(self._kinds[row] != "system" for row in rows) for rows in (matches, other.rows)
        )
        offset = int(np.median(offsets)) // _MINUTE
        self._merges[first] = Merge(first, into, shared, messages, offset, len(renamed))
        for source in other.sources[1:]:
            self._merges[source] = replace(self._merges[source], into=into)
        for name, now in renamed.items():
            self._names[name] = now if self._names.get(name, now) == now else name
        same = {self._conversations[source] for source in other.sources}
        for source, conversation in self._conversations.items():
            if conversation in same:
                self._conversations[source] = self._conversations[into]
        for row in other.rows:
            model = matches.get(row)
            self._times[row] = times[row] if model is None else self._times[model]
            self._authors[row] = authors[row] if model is None else self._authors[model]
            if model is not None:
                self._texts[row], self._kinds[row] = self._texts[model], self._kinds[model]
        leading.sources += other.sources
        leading.rows += [row for row in other.rows if row not in matches]
        return True

    def _are_named_alike(self, leading: _Group, other: _Group) -> bool:
        """Return whether files are in one subfolder, or one is a copy of the other by its name."""
        first = {self._ranks[source][:2] for source in leading.sources}
        return any(self._ranks[source][:2] in first for source in other.sources)

    def _find_anchors(self, leading: _Group, other: _Group) -> _Times:
        """Return the times of texts that occur once in both, in the same order and at a constant difference.

        It returns two columns, the leading group's time and the other's, sorted by the other's; no rows if too few of
        the shared texts agree on a difference.
        """
        here, there = self._find_unique_texts(leading), self._find_unique_texts(other)
        pairs = np.array([(here[norm], there[norm]) for norm in there if norm in here], np.int64).reshape(
            -1, 2
        )
        if not len(pairs):
            return pairs
        difference = pairs[:, 1] - pairs[:, 0]
        offset = _round(difference)
        near = (np.abs(difference - offset) <= _MOST_APART) & (np.abs(offset) <= _MOST_OFFSET)
        offsets, counts = np.unique(offset[near], return_counts=True)
        near &= np.isin(
            offset, offsets[counts >= max(_LEAST_SHARED[True], _LEAST_SHARE_OF_OFFSET * near.sum())]
        )
        if near.sum() < max(_LEAST_SHARED[True], _LEAST_SHARE_AT_OFFSET * len(pairs)):
            return pairs[:0]
        found = pairs[near][np.argsort(pairs[near, 1], kind="stable")]
        in_order = np.diff(found[:, 0]) >= -_MOST_APART
        return found if in_order.mean() >= _LEAST_SHARE_IN_ORDER else pairs[:0]

    def _find_unique_texts(self, group: _Group) -> dict[str, int]:
        """Return the times of the texts that occur once in a group."""
        written = [row for row in group.rows if len(self._spoken(row) or "") >= _LEAST_CHARACTERS]
        counts = Counter(self._norms[row] for row in written)
        return {self._norms[row]: self._times[row] for row in written if counts[self._norms[row]] == 1}

    def _is_exact_copy(self, leading: _Group, other: _Group, least: int) -> bool:
        """Return whether one group contains all messages of the other, with equal times and names.

        They must share a text that a person wrote once in each: what is said again and again tells no chats apart.
        """
        counted = (Counter(self._spoken(row) for row in group.rows) for group in (leading, other))
        once, there = ({text for text, count in texts.items() if text and count == 1} for texts in counted)
        if once.isdisjoint(there):
            return False
        first, second = (
            {(self._times[row], self._authors[row], self._kinds[row], self._norms[row]) for row in group.rows}
            for group in (leading, other)
        )
        return min(len(first), len(second)) >= least and (first <= second or second <= first)

    def _find_names(self, leading: _Group, other: _Group, times: Mapping[int, int]) -> dict[str, str]:
        """Match people across groups by the authors of shared texts."""
        here = [(self._spoken(row), self._times[row], row) for row in leading.rows]
        there = [(self._spoken(row), times[row], row) for row in other.rows]
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for row, model in _pair_nearest(here, there).items():
            name, now = self._authors[row], self._authors[model]
            if name is not None and now is not None:
                seen[name][now] += 1
        most = {name: counter.most_common(1)[0] for name, counter in seen.items()}
        return {
            name: now for name, (now, count) in most.items() if count >= _SAME_PERSON * seen[name].total()
        }

    def _spoken(self, row: int) -> str | None:
        return self._norms[row] if self._kinds[row] == "message" else None

    def _match(
        self, rows: Sequence[int], authors: Mapping[int, str | None], times: Mapping[int, int]
    ) -> dict[int, int]:
        """Pair the messages in both groups: first by text, then media and lines of the app without text."""

        def text_key(row: int, author: str | None) -> Hashable:
            return self._kinds[row], author, self._norms[row]

        def place_key(row: int, author: str | None) -> Hashable:
            return None if self._kinds[row] == "message" else (self._kinds[row], author)

        matches: dict[int, int] = {}
        keys: tuple[Callable[[int, str | None], Hashable], ...] = (text_key, place_key)
        for key in keys:
            taken = set(matches.values())
            here = [(key(row, self._authors[row]), self._times[row], row) for row in rows if row not in taken]
            there = [(key(row, authors[row]), times[row], row) for row in authors if row not in matches]
            matches.update(_pair_nearest(here, there))
        return matches

    def _is_shared_enough(
        self,
        leading: _Group,
        shifted: Mapping[int, int],
        matches: Mapping[int, int],
        least: tuple[float, float],
    ) -> bool:
        """Return whether most messages in the period that both groups cover are in both."""
        here = [self._times[row] for row in leading.rows if self._kinds[row] == "message"]
        there = [time for row, time in shifted.items() if self._kinds[row] == "message"]
        if not here or not there:
            return False
        first, last = max(min(here), min(there)) - _MOST_APART, min(max(here), max(there)) + _MOST_APART
        shared = sum(self._kinds[row] == "message" for row in matches)
        covered = sorted(sum(first <= time <= last for time in times) for times in (here, there))
        return all(shared >= share * count for share, count in zip(least, covered, strict=True))

    def _final_name(self, name: str) -> str:
        """Follow replaced names to the final one; a name shared by several people is kept."""
        seen = {name}
        while (name := self._names.get(name, name)) not in seen:
            seen.add(name)
        return name


def _rank(source: str, conversation: str) -> tuple[bool, str, int, str]:
    """Return the sort key of leading exports: those in subfolders first, then by name, copies last."""
    copy = _COPY.fullmatch(conversation)
    name, number = (copy["name"], int(copy["number"])) if copy else (conversation, 0)
    return "/" not in source, name, number, source


def _round(difference: _Times) -> _Times:
    """Round differences of clocks to those of time zones."""
    return (difference + _QUARTER_HOUR // 2) // _QUARTER_HOUR * _QUARTER_HOUR


def _pair_nearest(
    here: Iterable[tuple[Hashable, int, int]], there: Iterable[tuple[Hashable, int, int]]
) -> dict[int, int]:
    """Pair rows with equal keys, but for None, in time order, each once, if they are at most three minutes apart."""
    by_key: dict[Hashable, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = defaultdict(
        lambda: ([], [])
    )
    for side, rows in enumerate((here, there)):
        for key, time, row in rows:
            if key is not None:
                by_key[key][side].append((time, row))
    pairs: dict[int, int] = {}
    for first, second in by_key.values():
        first.sort()
        place = 0
        for time, row in sorted(second):
            while place < len(first) and first[place][0] < time - _MOST_APART:
                place += 1
            if place < len(first) and first[place][0] <= time + _MOST_APART:
                pairs[row] = first[place][1]
                place += 1
    return pairs


def _normalize(messages: pl.DataFrame) -> pl.DataFrame:
    """Return the messages with a text ``norm`` without the parts that differ by phone: mentioned names and marks."""
    mentions = sorted(
        (f"@{name}" for name in messages["author"].drop_nulls().unique()), key=len, reverse=True
    )
    text = (
        pl.col("text")
        .str.replace_all(_MENTION, "@")
        .str.replace_many(mentions, ["@"] * len(mentions), leftmost=True)
        .str.replace_all(f"[{BIDI_MARKS}]", "")
        .str.replace_all(r"\s+", " ")
        .str.strip_chars()
        .fill_null("")
    )
    return messages.select("source", "timestamp", "author", "kind", text.alias("norm"))
