"""Contact and bank data in texts -> markers: addresses, phone numbers, cards and IBANs, in digits of every script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import polars as pl
import regex

from backstory.ingest.privacy.phones import find_phone_shapes

_BY_LENGTH: Final = {
    15: "NO", 16: "BE", 18: "DK FK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip


IBAN_LENGTHS: Final = {
    country: length for length, countries in _BY_LENGTH.items() for country in countries.split()
}
"""Number of characters by country code."""


DataKind: TypeAlias = Literal["email", "iban", "card", "phone"]
Span: TypeAlias = tuple[int, int]

# Polars would compile it again for most calls, which takes longer than to search some hundred messages.
_MAY_HOLD: Final = re.compile(r"[@＠﹫]|\d(?:[^\d]{0,4}\d){5}")
_EMAIL: Final = regex.compile(
    r"(?<![\w\p{M}.+%'-])[\w\p{M}.+%'-]{1,64}+@(?:[\w\p{M}-]{1,63}+\.){1,8}[\p{L}\p{M}]{2,63}+"
)
_IBAN: Final = regex.compile(r"(?<![^\W_])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]){11,30}+")
_CARD: Final = regex.compile(r"(?<!\d)(?<!\d[ -])[2-6]\d{3}(?:[ -]?\d){9,15}+")
_CARD_DIGITS: Final = range(13, 20)
_FEWEST_TRIES: Final = 1 << 16


def scrub(texts: pl.Series, kinds: Sequence[DataKind], region: str | None) -> pl.Series:
    """Replace contact and bank data in texts by markers such as ``[email]``.

    ``region``: region, such as ``DE``, whose valid phone numbers are found however they are written. Others need a plus
    sign, or the shape of a phone number (:mod:`backstory.ingest.privacy.phones`). It returns the texts in their
    order. A text without such data is the same; scrubbing twice gives what scrubbing once gives.
    """
    if not kinds:
        return texts
    found = {place: text for place, text in enumerate(texts) if text is not None and _MAY_HOLD.search(text)}
    if not found:
        return texts
    return texts.scatter(list(found), [_scrub_text(text, kinds, region) for text in found.values()])


def _scrub_text(text: str, kinds: Sequence[DataKind], region: str | None) -> str:
    while True:
        before = text
        for kind, find in _FINDERS.items():
            if kind in kinds:
                plain, origins = _fold_characters(text)
                for start, end in sorted(find(plain, region), reverse=True):
                    text = f"{text[: origins[start]]}[{kind}]{text[origins[end - 1] + 1 :]}"
        if text == before:
            return text


def _fold_characters(text: str) -> tuple[str, Sequence[int]]:
    """Return a text with ASCII digits and letters of usual width, and the place of each of its characters in the text.

    Invisible characters are left out.
    """
    if text.isascii():
        return text, range(len(text))
    folded, origins = [], []
    for place, character in enumerate(text):
        if unicodedata.category(character) == "Cf":
            continue
        plain = str(unicodedata.decimal(character, "")) or unicodedata.normalize("NFKC", character)
        folded.append(plain if len(plain) == 1 else character)
        origins.append(place)
    return "".join(folded), origins


def _find_emails(text: str, _: str | None) -> Iterator[Span]:
    return (match.span() for match in _EMAIL.finditer(text))


def _find_ibans(text: str, _: str | None) -> Iterator[Span]:
    for match in _IBAN.finditer(text):
        places = [place for place in range(*match.span()) if text[place].isalnum()]
        country = match.group()[:2].upper()
        places = places[: IBAN_LENGTHS.get(country, 0)]
        written = "".join(text[place] for place in places)
        if len(places) == IBAN_LENGTHS.get(country) and _is_iban(written):
            yield places[0], places[-1] + 1


def _is_iban(written: str) -> bool:
    """Return whether check digits are right (ISO 7064, modulo 97)."""
    rotated = written[4:] + written[:4]
    return int("".join(str(int(character, 36)) for character in rotated)) % 97 == 1


def _find_cards(text: str, _: str | None) -> Iterator[Span]:
    for match in _CARD.finditer(text):
        places = [place for place in range(*match.span()) if text[place].isdigit()]
        for count in range(min(len(places), _CARD_DIGITS[-1]), _CARD_DIGITS[0] - 1, -1):
            end = places[count - 1] + 1
            if text[end : end + 1].isdigit():
                continue
            if _has_right_check_digit([int(text[place]) for place in places[:count]]):
                yield match.start(), end
                break


def _has_right_check_digit(digits: Sequence[int]) -> bool:
    """Return whether the last digit is the check digit of the others (Luhn)."""
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _find_phones(text: str, region: str | None) -> Iterator[Span]:
    from phonenumbers import Leniency, PhoneNumberMatcher  # takes a tenth of a second, and is seldom needed

    tries = max(_FEWEST_TRIES, len(text))
    valid = PhoneNumberMatcher(text, region, leniency=Leniency.VALID, max_tries=tries)
    found = [(match.start, match.end) for match in valid]
    yield from found
    for start, end in find_phone_shapes(text):
        if all(end <= other or start >= after for other, after in found):
            yield start, end


_FINDERS: Final[dict[DataKind, Callable[[str, str | None], Iterator[Span]]]] = {
    "email": _find_emails,
    "iban": _find_ibans,
    "card": _find_cards,
    "phone": _find_phones,
}
"""The finders, in the order in which they are applied: a card number must not be taken for a phone number."""
