"""What phones of single languages and regions write into the header of a WhatsApp message, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

BIDI_MARKS: Final = "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
DIGITS: Final = "0-9٠-٩۰-۹०-९০-৯"
ASCII_DIGITS: Final = {chr(ord(zero) + value): str(value) for zero in "٠۰०০" for value in range(10)}
MARKS: Final = f"[{BIDI_MARKS}]*"
SPACE: Final = f"[ \t\u00a0\u2009\u202f{BIDI_MARKS}]"

BEFORE_CLOCK: Final = r"à|às|um|at|alle|a las|om|klo|kl\.?|u|o|в|о"
"""Words between date and clock time."""

CLOCK_WORDS: Final = "uhr|h|ч|น"
"""Words after a clock time that are no mark of a half day."""

_BEFORE_NOON: Final = "am a vorm vormittags πμ ص 上午 午前 오전 öö de fm sa قظ ptg ap проб পূর্বাহ্ণ পূর্বাহ্ন पूर्वाह्न"
_AFTER_NOON: Final = (
    "pm p nachm nachmittags μμ م 下午 午後 오후 ös du em ch بظ ptgh ip слоб অপরাহ্ণ অপরাহ্ন अपराह्न"
)

PERIODS: Final[Mapping[str, Literal["am", "pm"]]] = {
    **dict.fromkeys(_BEFORE_NOON.split(), "am"),
    **dict.fromkeys(_AFTER_NOON.split(), "pm"),
}
"""Spellings of AM and PM, in lower case without spaces and full stops."""

_START: Final = rf"^({MARKS}\[?{MARKS})"
_SHORT: Final = f"[{DIGITS}]{{1,2}}"
_TWO: Final = f"[{DIGITS}]{{2}}"
_YEAR: Final = f"[{DIGITS}]{{4}}"
_ISO_DATE: Final = f"{_YEAR}-{_SHORT}-{_SHORT},?{SPACE}+"


@dataclass(frozen=True, slots=True)
class HeaderForm:
    """A header whose parts stand in another order, or are named by words, and how most phones would write it.

    Attributes:
        locales: Languages and regions that write it, as in CLDR.
        pattern: Regular expression for the beginning of a line.
        usual: What to write in its place: the date, then the clock time, with marks between their numbers.
    """

    locales: str
    pattern: str
    usual: str


_FRENCH_CLOCK: Final = f"({_SHORT}){SPACE}h{SPACE}({_TWO})"
_WORDED_DATE: Final = f"({_YEAR})[년年]{SPACE}?({_SHORT})[월月]{SPACE}?({_SHORT})[일日]{SPACE}?"
_CLOCK: Final = f"({_SHORT}:{_TWO}(?::{_TWO})?(?:{SPACE}(?:SA|CH))?)"
_DATE: Final = f"({_SHORT}[/-]{_SHORT}[/-](?:{_YEAR}|{_TWO}))"

HEADER_FORMS: Final = (
    HeaderForm(
        "fr-CA: 2024-01-15 21 h 05 min 09 s",
        f"{_START}({_ISO_DATE}){_FRENCH_CLOCK}{SPACE}min{SPACE}({_TWO}){SPACE}s",
        "${1}${2}${3}:${4}:${5}",
    ),
    HeaderForm("fr-CA: 2024-01-15 21 h 05", f"{_START}({_ISO_DATE}){_FRENCH_CLOCK}", "${1}${2}${3}:${4}"),
    HeaderForm("ko, ja, zh: 2024년 1월 15일 오후 9:05", f"{_START}{_WORDED_DATE}", "${1}${2}. ${3}. ${4}. "),
    HeaderForm("vi: 21:05, 15/01/2024", f"{_START}{_CLOCK}(,?){SPACE}{_DATE}", "${1}${4}${3} ${2}"),
)
"""The forms that differ from date, then clock time, with marks between their numbers."""
