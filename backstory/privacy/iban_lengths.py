"""The length of an IBAN in each country that issues them (ISO 13616, registry of SWIFT)."""

from __future__ import annotations

from typing import Final

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
