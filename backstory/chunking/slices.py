"""Parts of texts by their offsets, each made only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TextSlices(Sequence[str]):
    """Slices of texts.

    Attributes:
        texts: The texts.
        owners: Number of the text of each slice.
        starts: Offset of each slice in its text.
        ends: Offset after each slice.
    """

    texts: Sequence[str]
    owners: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of characters of each slice."""
        return self.ends - self.starts

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> TextSlices: ...

    def __getitem__(self, place: int | slice) -> str | TextSlices:
        if isinstance(place, slice):
            return TextSlices(self.texts, self.owners[place], self.starts[place], self.ends[place])
        text: str = self.texts[self.owners[place]]
        return text[self.starts[place] : self.ends[place]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def to_list(self) -> list[str]:
        """Make all slices, run by run of those of one text, as that takes least."""
        made: list[str] = []
        if not len(self):
            return made
        starts, ends = self.starts.tolist(), self.ends.tolist()
        changes = (self.owners[1:] != self.owners[:-1]).nonzero()[0] + 1
        for first, stop in pairwise([0, *changes.tolist(), len(starts)]):
            text = self.texts[self.owners[first]]
            made += [text[start:end] for start, end in zip(starts[first:stop], ends[first:stop], strict=True)]
        return made
