"""Exports of one conversation, joined to groups by the texts that they share."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from backstory.ingest.chats.merging.merge_candidates import (
    LEAST_CHARACTERS,
    LEAST_SHARED,
    LEAST_SHARED_BY_NAME,
    MOST_APART,
    QUARTER_HOUR,
    SECOND,
    Pair,
    Times,
    find_candidates,
    find_unique_texts,
    pair_nearest,
    round_to_quarter_hours,
    shift,
)


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


_MOST_OFFSET: Final = 26 * 4 * QUARTER_HOUR
"""Largest difference between two time zones."""

_LEAST_SHARE_AT_OFFSET: Final = 0.6
_LEAST_SHARE_OF_OFFSET: Final = 0.1
_LEAST_SHARE_IN_ORDER: Final = 0.95
_LEAST_SHARES: Final = (0.8, 0.5)
"""Minimum shares of messages in both exports, within the period that both cover: of one export, and of the other."""

_LEAST_SHARES_IN_FOLDER: Final = (0.5, 0.2)
_SAME_PERSON: Final = 0.8

_COPY: Final = re.compile(r"(?P<name>.+?) ?\((?P<number>\d{1,3})\)")


@dataclass
class _Group:
    """Exports of one conversation with unified names and clock.

    Attributes:
        sources: The exports, the leading one first.
        rows: Rows of their messages; a message in several exports is listed once.
        unique_texts: Times of the texts that occur once in the rows; None until they are needed.
        messages: Time, author, kind and text of the rows; None until they are needed.
    """

    sources: list[str]
    rows: list[int]
    unique_texts: dict[str, int] | None = None
    messages: set[tuple[int, str | None, str, str]] | None = None

    def add(self, other: _Group, rows: Sequence[int]) -> None:
        """Add another group, with those of its rows that are not here."""
        self.sources += other.sources
        self.rows += rows
        self.unique_texts = self.messages = None


@dataclass(frozen=True)
class _Alignment:
    """How the messages of a group map to those of the leading group.

    Attributes:
        times: Times of the group's messages on the leading clock.
        authors: Their authors under the leading group's names.
        matches: Rows of messages in both groups: row in this group to row in the leading group.
        shared: Number of messages in both, without lines of the app.
        offset: Minutes by which this group's clock is ahead.
        names: Names that differ between the groups.
    """

    times: dict[int, int]
    authors: dict[int, str | None]
    matches: dict[int, int]
    shared: int
    offset: int
    names: dict[str, str]


class ExportGroups:
    """Joins exports to groups, and holds their messages by row meanwhile.

    ``texts``: the same rows with normalized texts ``norm``.
    """

    def __init__(self, messages: pl.DataFrame, texts: pl.DataFrame) -> None:
        self._messages = messages
        self._normalized = texts
        self._times: list[int] = messages["timestamp"].dt.timestamp("us").to_list()
        self._authors: list[str | None] = messages["author"].to_list()
        self._texts: list[str | None] = messages["text"].to_list()
        self._kinds: list[str] = messages["kind"].to_list()
        self._norms: list[str] = texts["norm"].to_list()
        self._conversations = dict(messages.select("source", "conversation_id").unique().iter_rows())
        self._named = dict(self._conversations)
        self._names: dict[str, str] = {}
        self._merges: dict[str, Merge] = {}

    def find_candidates(self) -> set[Pair]:
        """Return the pairs of exports that may belong to one conversation."""
        names = {source: self._rank(source)[:2] for source in self._conversations}
        return find_candidates(self._normalized, names)

    def merge(self, pairs: set[Pair]) -> MergedExports:
        """Merge groups until no two groups match."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, source in enumerate(self._messages["source"]):
            rows[source].append(row)
        groups = {source: _Group([source], rows[source]) for source in sorted(rows, key=self._rank)}
        places = {source: place for place, source in enumerate(groups)}
        while (found := self._find_fitting(groups, places, pairs)) is not None:
            leading, other, alignment = found
            self._join(leading, other, alignment)
            groups.update(dict.fromkeys(leading.sources, leading))
            pairs |= self._find_joint_candidates(leading, groups)
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
        merges = tuple(self._merges[source] for source in sorted(self._merges))
        return MergedExports(changed, merges, aliases)

    def _rank(self, source: str) -> tuple[bool, str, int, str]:
        """Return the sort key of leading exports: those in subfolders first, then by name, copies last."""
        conversation = self._named[source]
        copy = _COPY.fullmatch(conversation)
        name, number = (copy["name"], int(copy["number"])) if copy else (conversation, 0)
        return "/" not in source, name, number, source

    def _find_fitting(
        self, groups: Mapping[str, _Group], places: Mapping[str, int], pairs: set[Pair]
    ) -> tuple[_Group, _Group, _Alignment] | None:
        """Find the first two groups that match, in the order of their leading exports; drop pairs that do not."""
        tried: dict[tuple[int, int], set[Pair]] = defaultdict(set)
        for pair in pairs:
            first, second = sorted(places[groups[source].sources[0]] for source in pair)
            if first != second:
                tried[first, second].add(pair)
        by_place = {places[group.sources[0]]: group for group in groups.values()}
        for first, second in sorted(tried):
            leading, other = by_place[first], by_place[second]
            alignment = self._align(leading, other)
            if alignment is not None:
                return leading, other, alignment
            pairs -= tried[first, second]
        return None

    def _find_joint_candidates(self, joined: _Group, groups: Mapping[str, _Group]) -> set[Pair]:
        """Return the groups that share enough with several joined exports, though perhaps not with any one of them."""
        shared: dict[int, int] = defaultdict(int)
        others = {id(group): group for group in groups.values() if group is not joined}
        for norm in {norm for source in joined.sources for norm in self._texts_of[source]}:
            for key in {id(groups[source]) for source in self._holders[norm]} & others.keys():
                shared[key] += len(norm) >= LEAST_CHARACTERS
        return {
            (min(joined.sources[0], other.sources[0]), max(joined.sources[0], other.sources[0]))
            for key, count in shared.items()
            if count >= self._least_shared(joined, other := others[key])
            or self._is_exact_copy(joined, other, self._least_copied(joined, other))
        }

    @cached_property
    def _texts_of(self) -> dict[str, list[str]]:
        """The texts that occur once in each export."""
        once = find_unique_texts(self._normalized)
        return defaultdict(list, once.group_by("source").agg("norm").iter_rows())

    @cached_property
    def _holders(self) -> dict[str, list[str]]:
        """The exports in which each text occurs once."""
        once = find_unique_texts(self._normalized)
        return dict(once.group_by("norm").agg("source").iter_rows())

    def _least_shared(self, leading: _Group, other: _Group) -> int:
        return LEAST_SHARED_BY_NAME if self._is_named_alike(leading, other) else LEAST_SHARED

    def _least_copied(self, leading: _Group, other: _Group) -> int:
        return 1 if self._is_named_alike(leading, other) else LEAST_SHARED_BY_NAME

    def _join(self, leading: _Group, other: _Group, alignment: _Alignment) -> None:
        messages = sum(self._kinds[row] != "system" for row in other.rows)
        merge = Merge(
            other.sources[0],
            leading.sources[0],
            alignment.shared,
            messages,
            alignment.offset,
            len(alignment.names),
        )
        self._merges[merge.source] = merge
        for source in other.sources[1:]:
            self._merges[source] = replace(self._merges[source], into=merge.into)
        for name, now in alignment.names.items():
            self._names[name] = now if self._names.get(name, now) == now else name
        same = {self._conversations[source] for source in other.sources}
        for source, conversation in self._conversations.items():
            if conversation in same:
                self._conversations[source] = self._conversations[leading.sources[0]]
        for row in other.rows:
            self._times[row] = alignment.times[row]
            self._authors[row] = alignment.authors[row]
            if row in alignment.matches:
                model = alignment.matches[row]
                self._times[row], self._authors[row] = self._times[model], self._authors[model]
                self._texts[row], self._kinds[row] = self._texts[model], self._kinds[model]
        leading.add(other, [row for row in other.rows if row not in alignment.matches])

    def _align(self, leading: _Group, other: _Group) -> _Alignment | None:
        """Map the other group's messages to the leading group's; None if the evidence is too weak."""
        is_named_alike = self._is_named_alike(leading, other)
        anchors = self._find_anchors(leading, other)
        if len(anchors) < self._least_shared(leading, other):
            if not self._is_exact_copy(leading, other, self._least_copied(leading, other)):
                return None
            anchors = np.zeros((1, 2), np.int64)
        times = shift(np.array([self._times[row] for row in other.rows], np.int64), anchors)
        shifted = dict(zip(other.rows, times.tolist(), strict=True))
        names = self._find_names(leading, other, shifted)
        authors = {row: names.get(self._authors[row] or "", self._authors[row]) for row in other.rows}
        matches = self._match(leading.rows, other.rows, shifted, authors)
        if not self._is_shared_enough(leading, shifted, matches, in_folder=is_named_alike):
            return None
        used = {self._authors[row] for row in other.rows}
        return _Alignment(
            shifted,
            authors,
            matches,
            sum(self._kinds[row] != "system" for row in matches),
            int(np.median(round_to_quarter_hours(anchors[:, 1] - anchors[:, 0]))) // (60 * SECOND),
            {name: now for name, now in names.items() if name in used and name != now},
        )

    def _is_named_alike(self, leading: _Group, other: _Group) -> bool:
        """Return whether files are in one subfolder, or one is a copy of the other by its name."""
        first = {self._rank(source)[:2] for source in leading.sources}
        return any(self._rank(source)[:2] in first for source in other.sources)

    def _find_anchors(self, leading: _Group, other: _Group) -> Times:
        """Return the times of texts that occur once in both, in the same order and at a constant difference.

        It returns two columns, the leading group's time and the other's, sorted by the other's; no rows if too few of
        the shared texts agree on a difference.
        """
        here, there = self._times_of_unique_texts(leading), self._times_of_unique_texts(other)
        shared = [norm for norm in there if norm in here]
        pairs = np.array([(here[norm], there[norm]) for norm in shared], np.int64).reshape(-1, 2)
        if not len(pairs):
            return pairs
        difference = pairs[:, 1] - pairs[:, 0]
        offset = round_to_quarter_hours(difference)
        near = (np.abs(difference - offset) <= MOST_APART) & (np.abs(offset) <= _MOST_OFFSET)
        offsets, counts = np.unique(offset[near], return_counts=True)
        frequent = offsets[counts >= max(LEAST_SHARED_BY_NAME, _LEAST_SHARE_OF_OFFSET * near.sum())]
        near &= np.isin(offset, frequent)
        if near.sum() < max(LEAST_SHARED_BY_NAME, _LEAST_SHARE_AT_OFFSET * len(pairs)):
            return pairs[:0]
        found = pairs[near][np.argsort(pairs[near, 1], kind="stable")]
        in_order = np.diff(found[:, 0]) >= -MOST_APART
        return found if in_order.mean() >= _LEAST_SHARE_IN_ORDER else pairs[:0]

    def _is_exact_copy(self, leading: _Group, other: _Group, least: int) -> bool:
        """Return whether one group contains all messages of the other, with equal times and names."""
        first, second = self._messages_of(leading), self._messages_of(other)
        smaller = min(first, second, key=len)
        return len(smaller) >= least and (first <= second or second <= first)

    def _messages_of(self, group: _Group) -> set[tuple[int, str | None, str, str]]:
        if group.messages is None:
            group.messages = {
                (self._times[row], self._authors[row], self._kinds[row], self._norms[row])
                for row in group.rows
            }
        return group.messages

    def _times_of_unique_texts(self, group: _Group) -> dict[str, int]:
        if group.unique_texts is None:
            group.unique_texts = self._find_unique_texts(group)
        return group.unique_texts

    def _find_unique_texts(self, group: _Group) -> dict[str, int]:
        written = [
            row
            for row in group.rows
            if self._kinds[row] == "message" and len(self._norms[row]) >= LEAST_CHARACTERS
        ]
        counts = Counter(self._norms[row] for row in written)
        return {self._norms[row]: self._times[row] for row in written if counts[self._norms[row]] == 1}

    def _find_names(self, leading: _Group, other: _Group, shifted: Mapping[int, int]) -> dict[str, str]:
        """Match people across groups by the authors of shared texts."""
        matched = pair_nearest(
            [(self._spoken(row), self._times[row], row) for row in leading.rows],
            [(self._spoken(row), shifted[row], row) for row in other.rows],
        )
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for row, model in matched.items():
            here, there = self._authors[model], self._authors[row]
            if here is not None and there is not None:
                seen[there][here] += 1
        most = {there: counter.most_common(1)[0] for there, counter in seen.items()}
        return {
            there: here
            for there, (here, count) in most.items()
            if count >= _SAME_PERSON * seen[there].total()
        }

    def _spoken(self, row: int) -> str | None:
        return self._norms[row] if self._kinds[row] == "message" else None

    def _match(
        self,
        rows: Sequence[int],
        others: Sequence[int],
        shifted: Mapping[int, int],
        authors: Mapping[int, str | None],
    ) -> dict[int, int]:
        """Pair the messages in both groups: first by text, then media and lines of the app without text."""

        def text_key(row: int, author: str | None) -> Hashable:
            return self._kinds[row], author, self._norms[row]

        def place_key(row: int, author: str | None) -> Hashable:
            return None if self._kinds[row] == "message" else (self._kinds[row], author)

        matches: dict[int, int] = {}
        for key in (text_key, place_key):
            taken = set(matches.values())
            here = [(key(row, self._authors[row]), self._times[row], row) for row in rows if row not in taken]
            there = [(key(row, authors[row]), shifted[row], row) for row in others if row not in matches]
            matches.update(pair_nearest(here, there))
        return matches

    def _is_shared_enough(
        self,
        leading: _Group,
        shifted: Mapping[int, int],
        matches: Mapping[int, int],
        *,
        in_folder: bool,
    ) -> bool:
        """Return whether most messages in the period that both groups cover are in both."""
        here = [self._times[row] for row in leading.rows if self._kinds[row] == "message"]
        there = [time for row, time in shifted.items() if self._kinds[row] == "message"]
        if not here or not there:
            return False
        first, last = max(min(here), min(there)) - MOST_APART, min(max(here), max(there)) + MOST_APART
        shared = sum(self._kinds[row] == "message" for row in matches)
        shares = sorted(
            (shared / max(1, sum(first <= time <= last for time in times)) for times in (here, there)),
            reverse=True,
        )
        least = _LEAST_SHARES_IN_FOLDER if in_folder else _LEAST_SHARES
        return all(share >= wanted for share, wanted in zip(shares, least, strict=True))

    def _final_name(self, name: str) -> str:
        """Follow replaced names to the final one; a name shared by several people is kept."""
        seen = {name}
        while (name := self._names.get(name, name)) not in seen:
            seen.add(name)
        return name
