"""Short forms of the pseudonyms of a window's authors."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from backstory.privacy.pseudonyms import PSEUDONYM_PREFIX

_PSEUDONYM: Final = re.compile(rf"{re.escape(PSEUDONYM_PREFIX)}([0-9a-f]{{10}})(?![0-9a-f])")
_CHARACTERS: Final = 4


class ShortNames:
    """Shortens pseudonyms to their first characters, as many as tell the authors of a window apart.

    Args:
        texts: Everything in which a pseudonym may be: names of authors and texts of messages.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._codes = {code for text in texts for code in _PSEUDONYM.findall(text)}
        self._length = next(
            length
            for length in range(_CHARACTERS, 11)
            if len({code[:length] for code in self._codes}) == len(self._codes)
        )

    def shorten(self, text: str) -> str:
        """Shorten the pseudonyms in a text. Other names are unchanged."""
        return _PSEUDONYM.sub(lambda found: found[1][: self._length], text)


def is_pseudonym(text: str) -> bool:
    """Return whether a text is the pseudonym of a person."""
    return _PSEUDONYM.fullmatch(text) is not None
