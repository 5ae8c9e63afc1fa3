"""Contact and bank data in texts -> markers: addresses, phone numbers, cards and IBANs, in digits of every script.

A phone number is found by its shape alone where hardly anything else is written so: with a leading zero and nine to
twelve digits, with an area code in parentheses, or in groups that neither prices nor dates have. Any other run of
digits is found only behind a word such as ``call``. Words such as ``order`` and units tell numbers that are none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import polars as pl
import regex

_IBANS: Final = {  # countries by length
    15: "NO", 16: "BE", 18: "DK FK FI FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV", 22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL", 29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip

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


def scrub(texts: pl.Series, kinds: Sequence[DataKind], region: str | None) -> pl.Series:
    """Replace contact and bank data in texts by markers such as ``[email]``.

    ``region``: region, such as ``DE``, whose valid phone numbers are found however they are written. Others need a plus
    sign, or the shape of a phone number. It returns the texts in their order. A text without such data is the same;
    scrubbing twice gives what scrubbing once gives.
    """
    if not kinds:
        return texts
    found = {place: text for place, text in enumerate(texts) if text is not None and _MAY_HOLD.search(text)}
    if not found:
        return texts
    return texts.scatter(list(found), [_scrub_text(text, kinds, region) for text in found.values()])


def _scrub_text(text: str, kinds: Sequence[DataKind], region: str | None) -> str:
    before = None
    while text != before:
        before = text
        for kind, find in _FINDERS.items():
            if kind in kinds:
                plain, origins = _fold_characters(text)
                for start, end in sorted(find(plain, region), reverse=True):
                    text = f"{text[: origins[start]]}[{kind}]{text[origins[end - 1] + 1 :]}"
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


def _find_ibans(text: str, _: str | None) -> Iterator[Span]:
    for match in _IBAN.finditer(text):
        length = next((length for length, held in _IBANS.items() if match.group()[:2].upper() in held), 0)
        places = [place for place in range(*match.span()) if text[place].isalnum()][:length]
        rotated = "".join(str(int(text[place], 36)) for place in [*places[4:], *places[:4]])
        if places and len(places) == length and int(rotated) % 97 == 1:  # ISO 7064
            yield places[0], places[-1] + 1


def _find_cards(text: str, _: str | None) -> Iterator[Span]:
    for match in _CARD.finditer(text):
        places = [place for place in range(*match.span()) if text[place].isdigit()]
        for count in range(min(len(places), _CARD_DIGITS[-1]), _CARD_DIGITS[0] - 1, -1):
            end, digits = places[count - 1] + 1, [int(text[place]) for place in reversed(places[:count])]
            total = sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])  # Luhn
            if total % 10 == 0 and not text[end : end + 1].isdigit():
                yield match.start(), end
                break


def _find_phones(text: str, region: str | None) -> Iterator[Span]:
    from phonenumbers import Leniency, PhoneNumberMatcher  # takes a tenth of a second, and is seldom needed

    valid = PhoneNumberMatcher(text, region, leniency=Leniency.VALID, max_tries=max(1 << 16, len(text)))
    found = [(match.start, match.end) for match in valid]
    yield from found
    for start, end in find_phone_shapes(text):
        if all(end <= other or start >= after for other, after in found):
            yield start, end


_GAP: Final = r"[ \u00a0\u2009\u202f./\u2010-\u2015-]"
_RUN: Final = regex.compile(
    rf"(?<![\p{{L}}\p{{M}}\p{{N}}_+#/.,:=$€£¥-])(?:\(\+?\d{{1,5}}\){_GAP}?|\+?\d)(?:{_GAP}{{0,3}}\d|{_GAP}?\(\d{{1,5}}\)){{5,13}}+"
    r"(?![\p{L}\p{N}_]|[.,:/-]\d|-\p{L}|\s?[%€$£¥°])"
)
"""Six to fifteen digits with single gaps, perhaps behind a plus sign, apart from words, decimals, sums of money,
addresses and versions."""
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


def find_phone_shapes(text: str) -> Iterator[tuple[int, int]]:
    """Find what looks like phone numbers in a text with ASCII digits: start and end of each."""
    last = None
    for match in _RUN.finditer(text):
        start, end = match.span()
        before = text[max(0, start - 64) : start]
        follows = last is not None and _SERIES.fullmatch(text[last:start]) is not None
        if not (_OTHER.search(before) or _UNIT.match(text, end) or _DATE.match(match.group())) and _is_phone(
            match.group(), is_called=follows or _CALL.search(before) is not None
        ):
            yield start, end
            last = end


def _is_phone(written: str, *, is_called: bool) -> bool:
    groups = _GROUP.findall(written)
    digits = "".join(groups)
    if is_called and len(digits) in range(6, 14):
        return True
    # With the code of a country, also of ranges that nobody has yet, or that are kept for films.
    if "+" in written:
        return len(digits) in range(8, 16) and digits[0] != "0"
    if groups[0].startswith("00") and len(groups[-1]) > 2:
        return len(digits) in range(12, 18) and digits[2] != "0"
    if digits.startswith("0") and digits[1] != "0":
        check = sum(weight * int(digit) for weight, digit in zip(range(10, 0, -1), digits, strict=False))
        is_book = len(digits) == 10 and len(groups) == 4 and len(groups[-1]) == 1 and check % 11 == 0
        return len(digits) in range(9, 13) and len(groups) <= 6 and groups[0] != "0" and not is_book
    return _SHAPES.fullmatch(_SPACE.sub(" ", _DASH.sub("-", written))) is not None


_FINDERS: Final[dict[DataKind, Callable[[str, str | None], Iterator[Span]]]] = {
    "email": lambda text, _: (match.span() for match in _EMAIL.finditer(text)),
    "iban": _find_ibans,
    "card": _find_cards,
    "phone": _find_phones,
}
"""The finders, in the order in which they are applied: a card number must not be taken for a phone number."""
