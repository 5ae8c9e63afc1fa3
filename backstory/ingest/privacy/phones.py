"""Finds phone numbers in texts: those that are known, and what looks like a number of an unknown region.

The national form of a known number omits the country code, which has one to three digits, and usually begins with a
zero. So two numbers are equal if all other digits agree, and no table of the world's dialling plans is needed.

A number that nobody knows is found by its shape alone where hardly anything else is written so: with a leading zero and
nine to twelve digits, with an area code in parentheses, or in groups that neither prices nor dates have. Any other run
of digits is found only behind a word such as ``call``. Words such as ``order`` and units tell numbers that are none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import regex

_KNOWN_GAP: Final = "[\\s().\\-\u2010-\u2015/\u200b\u200e\u200f\u061c\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
NUMBER: Final = rf"\d(?:{_KNOWN_GAP}{{0,3}}\d){{6,}}"
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


_GAP: Final = r"[ \u00a0\u2009\u202f./\u2010-\u2015-]"
_RUN: Final = regex.compile(
    rf"(?<![\p{{L}}\p{{M}}\p{{N}}_+#/.,:=$€£¥-])(?:\(\d{{1,5}}\){_GAP}?|\d)(?:{_GAP}{{0,3}}\d|{_GAP}?\(\d{{1,5}}\)){{5,13}}+"
    r"(?![\p{L}\p{N}_]|[.,:/-]\d|-\p{L}|\s?[%€$£¥°])"
)
"""Six to fifteen digits with single gaps, apart from words, decimals, sums of money, addresses and versions."""
_GROUP: Final = regex.compile(r"\d+")
_DASH: Final = regex.compile(rf"{_GAP}*[\u2010-\u2015-]{_GAP}*")
_SPACE: Final = regex.compile(r"[ \u00a0\u2009\u202f]+")

_SHAPES: Final = regex.compile(
    r"""
    \(\d{2,5}\)[ ]\d{3,9} | \(\d{2,5}\)[ ]\d{2,5}(?:[ -]\d{2,4}){1,2}   # (212) 555-0187, (089) 1234567
    | \d[ -]\(\d{3}\)[ ]\d{3}(?:-\d\d-\d\d|-\d{4})                      # 8 (912) 345-67-89
    | (?:1[-. ])?[2-9]\d\d-[2-9]\d\d-\d{4} | [2-9]\d\d\.[2-9]\d\d\.\d{4}  # 212-555-0187
    | [2-9]\d\d[ ]\d\d[ ]\d{3} | [5-9]\d\d[ ]\d\d[ ]\d\d[ ]\d\d          # 406 12 345, 612 34 56 78
    | 1[3-9]\d[ ]\d{4}[ ]\d{4} | [3-9]\d\d[ ]\d{3}[ ]\d{4}               # 131 2345 6789, 312 345 6789
    """,
    regex.VERBOSE,
)
_TRUNK_DIGITS: Final = range(9, 13)
"""Digits of a number with its leading zero."""
_TRUNK_GROUPS: Final = 6
_SPOKEN_DIGITS: Final = range(6, 14)
"""Digits of a number behind a word such as ``call``."""

_CALL: Final = regex.compile(
    r"(?:\b(?:tel|phone|telephone|mobile|mob|cell|cellphone|call|ring|text|sms|fax|hotline|whatsapp|signal|reach"
    r"|telefon|telefonnummer|handy|handynummer|mobil|mobilnummer|festnetz|ruf|anruf|anrufen|rufnummer|durchwahl"
    r"|téléphone|portable|mobile|appelle|appelez|appeler|joindre|teléfono|móvil|celular|llama|llame|llámame|llamar"
    r"|telefone|telemóvel|ligue|liga|ligar|telefono|cellulare|chiama|chiamare|telefoon|mobiel|bel|bellen|telefoonnummer"
    r"|ringa|telefonen|puhelin|puhelinnumero|soita|komórka|zadzwoń|dzwoń|volejte|zavolej|тел|телефон|звони|звоните)\b"
    r"|电话|電話|手机|手機|携帯|전화|☎|📞|📱)(?:\D|\d(?=\d{0,3}\b)){0,24}\Z|\b(?:call|ring|text|reach)\b[^\d.;!?]{0,40}\Z",
    regex.IGNORECASE,
)
_OTHER: Final = regex.compile(
    r"\b(?:isbn|issn|ean|gtin|iban|order|invoice|ref|reference|no|nr|num|serial|part|account|acct|konto|kontonummer|art"
    r"|artikel|artikelnummer|bestellnummer|bestellung|rechnung|rechnungsnummer|kundennummer|vorgang|commande|facture|pedido"
    r"|factura|ordine|fattura|ticket|tracking|case|id|version|build|room|page|pages|price|total|sum|year|years|since|from"
    r"|zip|plz|postcode|barcode|passport|vat|ustid|doi|arxiv|rfc|issue|pr|commit)\b[\p{P}\p{S}\s]{0,4}\Z|[#№]\s?\Z",
    regex.IGNORECASE,
)
_UNIT: Final = regex.compile(
    r"\s?(?:kr|sek|nok|dkk|eur|euro|euros|usd|dollars?|gbp|pounds?|chf|pln|zł|jpy|yen|rub|inr|kg|g|km|m|cm|mm|mb|gb|ms|s"
    r"|people|users|rows|lines|bytes|words|tokens|messages|times|years|copies)\b",
    regex.IGNORECASE,
)
_DATE: Final = regex.compile(
    r"(?:\d{1,2}([-./ ])\d{1,2}\1(?:19|20)\d\d|(?:19|20)\d\d([-./ ])\d{1,2}\2\d{1,2}"
    r"|(?:19|20)\d\d(?:0\d|1[0-2])[0-3]\d)(?:\D|\Z)|(?:19|20)\d\d ?[-\u2010-\u2015/] ?(?:19|20)\d\d\Z"
)
_SERIES: Final = regex.compile(
    r"\A[\s,;/&]{1,3}(?:or|and|oder|und|ou|et|o|y|e|och|eller|og)?\s?\Z", regex.IGNORECASE
)
"""What stands between two numbers of one list."""
_BEFORE: Final = 64


def find_phone_shapes(text: str) -> Iterator[tuple[int, int]]:
    """Find what looks like phone numbers in a text with ASCII digits: start and end of each."""
    last = None
    for match in _RUN.finditer(text):
        start, end = match.span()
        before = text[max(0, start - _BEFORE) : start]
        follows = last is not None and _SERIES.fullmatch(text[last:start]) is not None
        if not (_OTHER.search(before) or _UNIT.match(text, end) or _DATE.match(match.group())) and _is_phone(
            match.group(), is_called=follows or _CALL.search(before) is not None
        ):
            yield start, end
            last = end


def _is_phone(written: str, *, is_called: bool) -> bool:
    groups = _GROUP.findall(written)
    digits = "".join(groups)
    if is_called:
        return len(digits) in _SPOKEN_DIGITS
    if digits.startswith("0") and not digits.startswith("00"):
        is_grouped = len(groups) <= _TRUNK_GROUPS and groups[0] != "0"
        return len(digits) in _TRUNK_DIGITS and is_grouped and not _is_book_number(digits, groups)
    plain = _SPACE.sub(" ", _DASH.sub("-", written))
    return _SHAPES.fullmatch(plain) is not None


def _is_book_number(digits: str, groups: list[str]) -> bool:
    """Return whether a number in four parts is an ISBN of ten digits, by its check digit."""
    total = sum(weight * int(digit) for weight, digit in zip(range(10, 0, -1), digits, strict=False))
    return len(digits) == 10 and len(groups) == 4 and len(groups[-1]) == 1 and total % 11 == 0
