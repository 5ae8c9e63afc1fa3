"""Finds known phone numbers in texts, in international and in national form.

The national form omits the country code, which has one to three digits, and usually begins with a zero. So two numbers
are equal if all other digits agree. Numbers that are known in full need no table of the world's dialling plans.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_GAP: Final = "[\\s().\\-\u2010-\u2015/\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_NUMBER: Final = re.compile(rf"\d(?:{_GAP}{{0,3}}\d){{6,}}")
_COUNTRY_CODE_DIGITS = 3
_LEAST_DIGITS = 7


class PhoneFinder:
    """Finds known numbers."""

    def __init__(self, numbers: Iterable[str]) -> None:
        self._numbers = sorted(numbers)
        self._by_core: dict[str, list[str]] = {}
        for number in self._numbers:
            self._by_core.setdefault(_core(number), []).append(number)
        self._lengths = sorted({len(core) for core in self._by_core}, reverse=True)

    def owner(self, digits: str) -> str | None:
        """Return the known number that equals the given digits except for its country code."""
        for length in self._lengths:
            if numbers := self._by_core.get(digits[-length:]):
                return max(numbers, key=lambda number: _shared_ending(number, digits))
        return None

    def find(self, text: str) -> list[tuple[int, int, str]]:
        """Find known numbers.

        It returns start, end and the known number, in the order of the text, without overlaps. Digits directly beside
        a number count as part of it.
        """
        if not self._by_core:
            return []
        found = []
        for run in _NUMBER.finditer(text):
            places = [place for place in range(run.start(), run.end()) if text[place].isdecimal()]
            digits = _decimal("".join(text[place] for place in places))
            next_free = 0
            for start, end, number in self._find_in_digits(digits):
                first, last = _widen(places, start, end, next_free)
                if first < last:
                    signed = places[first] - (text[places[first] - 1 : places[first]] == "+")
                    found.append((signed, places[last - 1] + 1, number))
                    next_free = last
        return found

    def may_hold(self, texts: Iterable[str | None]) -> set[int]:
        """Select quickly the texts in which :meth:`find` can find something, by their places."""
        if not self._by_core:
            return set()
        return {place for place, text in enumerate(texts) if text is not None and _NUMBER.search(text)}

    def _find_in_digits(self, digits: str) -> list[tuple[int, int, str]]:
        found = []
        for length in self._lengths:
            for start in range(len(digits) - length + 1):
                numbers = self._by_core.get(digits[start : start + length])
                if numbers:
                    end = start + length
                    number = max(numbers, key=lambda known: _shared_ending(known, digits[:end]))
                    begin = end - _shared_ending(number, digits[:end])
                    country = number[1 : 1 + len(number) - 1 - (end - begin)]
                    if country and digits[:begin].endswith(f"{country}0"):  # +44 (0) 7700 900123
                        begin -= len(country) + 1
                    found.append((begin, end, number))
        return sorted(found, key=lambda match: (match[0], -match[1]))


def _core(number: str) -> str:
    digits = number.removeprefix("+")
    return digits[-max(_LEAST_DIGITS, len(digits) - _COUNTRY_CODE_DIGITS) :]


def _shared_ending(number: str, digits: str) -> int:
    shared = 0
    for one, other in zip(reversed(number.removeprefix("+")), reversed(digits), strict=False):
        if one != other:
            break
        shared += 1
    return shared


def _widen(places: list[int], start: int, end: int, least: int) -> tuple[int, int]:
    """Extend a range by the digits that touch it."""
    first, last = max(start, least), max(end, least)
    while first > least and places[first - 1] == places[first] - 1:
        first -= 1
    while first < last < len(places) and places[last] == places[last - 1] + 1:
        last += 1
    return first, last


def _decimal(digits: str) -> str:
    if digits.isascii():
        return digits
    return "".join(str(unicodedata.decimal(character, character)) for character in digits)
