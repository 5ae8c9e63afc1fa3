"""Finds known phone numbers in texts, in international and in national form.

The national form omits the country code, which has one to three digits, and usually begins with a zero. So two numbers
are equal if all other digits agree. Numbers that are known in full need no table of the world's dialling plans.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

_GAP: Final = "[\\s().\\-\u2010-\u2015/\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
NUMBER: Final = rf"\d(?:{_GAP}{{0,3}}\d){{6,}}"
"""Pattern of what may hold a number."""
_NUMBER: Final = re.compile(NUMBER)
_COUNTRY_CODE_DIGITS: Final = 3
_LEAST_DIGITS: Final = 7


class PhoneFinder:
    """Finds known numbers."""

    def __init__(self, numbers: Iterable[str]) -> None:
        self._by_core: dict[str, list[str]] = {}
        for number in sorted(numbers):
            core = max(_LEAST_DIGITS, len(number) - 1 - _COUNTRY_CODE_DIGITS)
            self._by_core.setdefault(number[1:][-core:], []).append(number)
        self.is_any = bool(self._by_core)
        self._lengths = sorted({len(core) for core in self._by_core}, reverse=True)

    def owner(self, digits: str) -> str | None:
        """Return the known number that equals the last of some digits except for its country code."""
        for length in self._lengths:
            if numbers := self._by_core.get(digits[-length:]):
                return max(numbers, key=lambda number: _shared_ending(number, digits))
        return None

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Find known numbers: start, end and the known number. Digits directly beside a number count as part of it."""
        for run in _NUMBER.finditer(text) if self.is_any else ():
            places = [place for place in range(*run.span()) if text[place].isdecimal()]
            digits = "".join(str(unicodedata.decimal(text[place])) for place in places)
            last = len(digits)
            while last >= self._lengths[-1]:
                number = self.owner(digits[:last])
                if number is None:
                    last -= 1
                    continue
                first = last - _shared_ending(number, digits[:last])
                country = number[1 : len(number) - (last - first)]
                if country and digits[:first].endswith(f"{country}0"):  # +44 (0) 7700 900123
                    first -= len(country) + 1
                end = last
                while first and places[first - 1] == places[first] - 1:
                    first -= 1
                while end < len(digits) and places[end] == places[end - 1] + 1:
                    end += 1
                start = places[first]
                yield start - (text[start - 1 : start] == "+"), places[end - 1] + 1, number
                last = first


def _shared_ending(number: str, digits: str) -> int:
    shared = 0
    for one, other in zip(reversed(number.removeprefix("+")), reversed(digits), strict=False):
        if one != other:
            break
        shared += 1
    return shared
