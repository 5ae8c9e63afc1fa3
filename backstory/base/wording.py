"""Wording that messages share: lists of names, numbers with nouns, names of languages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final

_THOUSAND: Final = 1000
_UNITS: Final = ("kB", "MB", "GB")
_MINUTE: Final = 60
_HOUR: Final = 3600


def name_some(names: Sequence[str], most: int, *, separator: str = ", ") -> str:
    """Name the first of several things, and count the others: ``a, b and 3 more``.

    A separator with a semicolon is written before the number of the others, too.
    """
    named = separator.join(names[:most])
    if len(names) <= most:
        return named
    return f"{named}{separator if ';' in separator else ' '}{count_rest(len(names), most)}"


def name_all(names: Sequence[str]) -> str:
    """Name all of several things: ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def name_runs(numbers: Iterable[int], to: str) -> list[str]:
    """Name the runs of numbers, in order: ``3``, ``5-7``."""
    grouped = groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    runs = [[str(number) for _, number in run] for _, run in grouped]
    return [to.join(dict.fromkeys([run[0], run[-1]])) for run in runs]


def count_rest(total: int, shown: int, listed_by: str = "") -> str:
    """Count the things that a list leaves out: ``and 3 more``, or ``and 3 more, which --json lists``; else nothing."""
    if total <= shown:
        return ""
    return f"and {total - shown:,} more{f', which {listed_by} lists' if listed_by else ''}"


def inflect(number: int, noun: str, plural: str = "") -> str:
    """Return a noun in the form that goes with a number; the plural is that with an s unless it is given."""
    return noun if number == 1 else plural or f"{noun}s"


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number with its noun: ``1 file``, ``2,000 files``."""
    return f"{number:,} {inflect(number, noun, plural)}"


def write_size(size: int) -> str:
    """Write a number of bytes with its unit, such as ``512 B`` or ``1.2 MB``."""
    if size < _THOUSAND:
        return f"{size} B"
    power = min((len(str(size)) - 1) // 3, len(_UNITS))
    return f"{size / _THOUSAND**power:,.1f} {_UNITS[power - 1]}"


def write_duration(seconds: float) -> str:
    """Write a duration in its largest fitting unit, such as ``40 s``, ``12 min`` or ``3.5 h``."""
    if seconds < _MINUTE:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"


def write_cost(cost: float, currency: str) -> str:
    """Write a cost with its currency, such as ``12.50 EUR``; of less than one, ``0.0042 EUR``."""
    return f"{cost:,.{2 if cost >= 1 else 4}f} {currency}"


def shorten(text: str, most: int) -> str:
    """Return a text, or its first characters and an ellipsis if it has more than ``most``."""
    return text if len(text) <= most else f"{text[:most]}…"


LANGUAGE_NAMES: Final = MappingProxyType({
    "af": "Afrikaans", "am": "Amharic", "an": "Aragonese", "ar": "Arabic", "as": "Assamese", "az": "Azerbaijani",
    "ba": "Bashkir", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "br": "Breton", "bs": "Bosnian",
    "ca": "Catalan", "cs": "Czech", "cy": "Welsh", "da": "Danish", "de": "German", "dz": "Dzongkha", "el": "Greek",
    "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian", "eu": "Basque", "fa": "Persian",
    "fi": "Finnish", "fo": "Faroese", "fr": "French", "fy": "Western Frisian", "ga": "Irish",
    "gd": "Scottish Gaelic", "gl": "Galician", "gu": "Gujarati", "ha": "Hausa", "he": "Hebrew", "hi": "Hindi",
    "hr": "Croatian", "ht": "Haitian Creole", "hu": "Hungarian", "hy": "Armenian", "id": "Indonesian", "ig": "Igbo",
    "is": "Icelandic", "it": "Italian", "ja": "Japanese", "jv": "Javanese", "ka": "Georgian", "kk": "Kazakh",
    "km": "Khmer", "kn": "Kannada", "ko": "Korean", "ku": "Kurdish", "ky": "Kyrgyz", "la": "Latin",
    "lb": "Luxembourgish", "lg": "Ganda", "ln": "Lingala", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian",
    "mg": "Malagasy", "mk": "Macedonian", "ml": "Malayalam", "mn": "Mongolian", "mr": "Marathi", "ms": "Malay",
    "mt": "Maltese", "my": "Burmese", "ne": "Nepali", "nl": "Dutch", "nn": "Norwegian Nynorsk", "no": "Norwegian",
    "oc": "Occitan", "om": "Oromo", "or": "Odia", "pa": "Punjabi", "pl": "Polish", "ps": "Pashto",
    "pt": "Portuguese", "qu": "Quechua", "ro": "Romanian", "ru": "Russian", "rw": "Kinyarwanda", "sa": "Sanskrit",
    "se": "Northern Sami", "si": "Sinhala", "sk": "Slovak", "sl": "Slovenian", "sn": "Shona", "so": "Somali",
    "sq": "Albanian", "sr": "Serbian", "st": "Sotho", "sv": "Swedish", "sw": "Swahili", "ta": "Tamil",
    "te": "Telugu", "tg": "Tajik", "th": "Thai", "tk": "Turkmen", "tl": "Tagalog", "tr": "Turkish", "tt": "Tatar",
    "ug": "Uyghur", "uk": "Ukrainian", "ur": "Urdu", "uz": "Uzbek", "vi": "Vietnamese", "vo": "Volapük",
    "wa": "Walloon", "xh": "Xhosa", "yo": "Yoruba", "zh": "Chinese", "zu": "Zulu",
})  # fmt: skip
"""English names of the detectable languages, by ISO 639-1 code."""
