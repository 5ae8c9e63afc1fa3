"""In which language a text, a window, a conversation or a document is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import polars as pl

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

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
"""English names of the languages that can be told apart, by ISO 639-1 code."""

# Written so alike that a chat is often split between them: taken together, they are one.
_ALIKE: Final = (frozenset({"bs", "hr", "sr"}), frozenset({"id", "ms"}), frozenset({"nn", "no"}))

# The detector's label for numbers, markup and other text that is in no language.
_NO_LANGUAGE: Final = "zxx"

# What people write in every language alike, or do not write at all.
_FOREIGN_MATTER: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]+`"  # code
    r"|<[^<>\n]{1,200}>"  # tags, and placeholders of media
    r"|(?:https?://|www\.)\S+|\S+@\S+\.\w+|@\S+"  # addresses and mentions
    r"|\bmember-[0-9a-f]{10}\b",  # pseudonyms
    re.DOTALL,
)

# A single short message is often read wrongly; a run of this many bytes hardly ever is. Bytes of UTF-8, since a
# Japanese character says about as much as three Latin letters.
_RUN_BYTES: Final = 80
# Judging more of a long text changes nothing but the time that it takes.
_MOST_TEXTS: Final = 2000
_MOST_RUNS: Final = 250
# Below one half no language is the main one. Made-up words reach .44 of a window, real chats begin at .83.
_LEAST_SHARE: Final = 0.5


@dataclass(frozen=True)
class LanguageShare:
    """The main language of some texts, and how much of them it is.

    Attributes:
        language: ISO 639-1 code; None where it cannot be told: too little text, languages of which none makes up
            one half, or nothing but addresses, numbers and emoji.
        share: Share of the text, by bytes and by the detector's certainty, that is in this language or one
            written alike, 0 to 1; of the most probable language where ``language`` is None.
    """

    language: str | None
    share: float


def measure_language(texts: Iterable[str | None]) -> LanguageShare:
    """Find the main language of texts that belong together.

    Addresses, mentions, code, tags and media placeholders are passed over. Of long texts an evenly spaced part is
    judged. The same texts always give the same answer.

    Args:
        texts: The messages of a window or a conversation in order, or the parts of a document; nulls are passed
            over.

    Returns:
        The language and its share.
    """
    weights: Counter[str] = Counter()
    total = 0
    detector = _load_detector()
    for run in _thin(list(_cut_runs(texts)), _MOST_RUNS):
        ranked = detector.rank(run)
        if ranked[0][0] != _NO_LANGUAGE:
            size = _count_bytes(run)
            total += size
            for language, certainty in ranked:
                weights[language] += size * certainty
    if not total:
        return LanguageShare(None, 0.0)
    together = {code: sum(weights[each] for each in _alike(code)) for code in LANGUAGE_NAMES}
    main = max(LANGUAGE_NAMES, key=lambda code: (together[code], weights[code]))
    share = together[main] / total
    return LanguageShare(main if share >= _LEAST_SHARE else None, share)


def detect_language(texts: Iterable[str | None]) -> str | None:
    """Name the main language of texts that belong together, as :func:`measure_language` finds it.

    Returns:
        The ISO 639-1 code, or None where the language cannot be told.
    """
    return measure_language(texts).language


def detect_languages(rows: pl.DataFrame, *, by: str, text: str = "text") -> pl.DataFrame:
    """Name the main language of each group of rows, such as each window, conversation, export or document.

    Args:
        rows: One text per row, null where there is none.
        by: Column whose values make the groups.
        text: Column of the texts.

    Returns:
        One row per group, in the order of their first rows: the column ``by``, ``language`` and ``share`` as
        in :class:`LanguageShare`.
    """
    groups = rows.group_by(by, maintain_order=True).agg(pl.col(text))
    found = [measure_language(texts) for texts in groups[text]]
    return groups.select(
        by,
        language=pl.Series([each.language for each in found], dtype=pl.String),
        share=pl.Series([each.share for each in found], dtype=pl.Float64),
    )


def is_known(language: str | None, known: Collection[str] | None) -> bool:
    """Say whether a model can be trusted with a language.

    Args:
        language: ISO 639-1 code, or None for one that cannot be told.
        known: The languages that the model knows, :attr:`backstory.embeddings.protocol.Embedder.languages`.

    Returns:
        False only where the language can be told and the model does not know it, nor one that is written alike.
        Nothing is held against a model that names no languages.
    """
    return language is None or known is None or not _alike(language).isdisjoint(known)


def name_language(code: str) -> str:
    """Give the English name of a language; the code itself where it has none here."""
    return LANGUAGE_NAMES.get(code, code)


def name_languages(codes: Collection[str]) -> str:
    """List languages by their English names, in the order of the names."""
    return ", ".join(sorted(map(name_language, codes)))


def english_name(code: pl.Expr) -> pl.Expr:
    """Give the English names of a column of codes; null where there is none."""
    return code.replace_strict(dict(LANGUAGE_NAMES), default=None, return_dtype=pl.String)


@cache
def _load_detector() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    # The probabilities are scaled by the length of the text, so that one threshold serves all lengths.
    detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    detector.set_languages([*LANGUAGE_NAMES, _NO_LANGUAGE])
    return detector


def _alike(code: str) -> frozenset[str]:
    """Give the languages that count as one with this one, itself included."""
    return next((group for group in _ALIKE if code in group), frozenset({code}))


def _cut_runs(texts: Iterable[str | None]) -> Iterator[str]:
    """Cut texts at white space into runs of some eighty bytes, over the borders of messages; a rest is a run, too."""
    words: list[str] = []
    size = 0
    for text in _thin([text for text in texts if text], _MOST_TEXTS):
        for word in _FOREIGN_MATTER.sub(" ", text).split():
            words.append(word)
            size += _count_bytes(word)
            if size >= _RUN_BYTES:
                yield " ".join(words)
                words, size = [], 0
    if words:
        yield " ".join(words)


def _count_bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


def _thin(items: list[str], most: int) -> list[str]:
    """Keep an evenly spaced part of a list that is longer than ``most``."""
    return items[:: -(-len(items) // most)] if items else items
