"""Which exports were merged into which, and the messages after that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl


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
