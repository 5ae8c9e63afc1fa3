"""Detecting the encoding of a text file from its bytes."""

from __future__ import annotations

import codecs
from operator import itemgetter
from typing import Final

from charset_normalizer import from_bytes

UTF8: Final = "utf-8"
_ISO_2022: Final = "iso2022_jp_ext"
"""Reads all that usual ISO-2022-JP holds, and more."""
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),  # checked before UTF-16, whose mark is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CERTAIN: Final = frozenset([*(name for _, name in _MARKS), "utf-16-le", "utf-16-be"])
_ALPHABETS: Final = {
    "cp1254": "çğıi̇öşüâîû",
    "cp1252": "äöüß àâæçéèêëîïôœùûü áéíñóúü àáâãçéêíóôõú àèéìòù áéëïóöü åäöé æøåé áðéíóúýþæö àçèéíïòóúü",
    "cp1250": "áčďéěíňóřšťúůýž áäčďéíĺľňóôŕšťúýž ąćęłńóśźż áéíóöőúüű čćđšž ăâîşţ äöüß",
    "cp1257": "ąčęėįšųūž āčēģīķļņšūž äõöüšž",
}
"""Letters besides a to z of the languages that each Latin code page of Windows was made for.

The statistics of charset-normalizer distinguish scripts, but not these code pages, which differ in a few letters only.
If two fit equally well, the first one is used: Turkish is likelier than Icelandic.
"""

_USUAL: Final = "cp1252"
_PUNCTUATION: Final = frozenset("“”„‘’‚«»‹›–—…·•¿¡°§€£¥¢©®™ªº²³½×")
_OTHERS: Final = (
    "cp932", "cp949", "gb18030", "big5", "cp1251", "cp1253", "cp1255", "cp1256", "cp874", "cp1258", "koi8_r",
)  # fmt: skip
"""Code pages of other scripts than Latin; of two that fit equally well the first one is used."""
_CALM: Final = 0.05
_CHANCE: Final = 0.2
"""A text has letters as often as a language up to this degree by chance; Chinese and Japanese never do."""
_MIXED: Final = 0.9
_LEAST_FIT: Final = 0.8
_MOST_FOREIGN_IN_LATIN: Final = 0.45
_SAMPLE_BYTES: Final = 65_536
_LEAST_SHARE_OF_NULLS: Final = 0.2
_LINES_OF_CHANCE: Final = 20


def find_iso_2022(content: bytes) -> str | None:
    """Detect ISO-2022-JP, which may be damaged, by an escape sequence that no terminal uses; None if it is not."""
    return _ISO_2022 if b"\x1b$" in content and content.isascii() else None


def find_encoding(content: bytes) -> str:
    """Detect the encoding of a text by a mark, by the positions of null bytes, by escape sequences, or by its letters.

    Lines that are not valid UTF-8 are damaged where other lines have letters in valid UTF-8. Another encoding is chosen
    if hardly any line has such letters and the text makes sense in that encoding.
    """
    for mark, name in _MARKS:
        if content.startswith(mark):
            return name
    sample = content[:_SAMPLE_BYTES]
    if b"\0" in sample:
        return _find_wide_encoding(sample)
    if (escaped := find_iso_2022(content)) is not None:
        return escaped
    lines = [line for line in content.split(b"\n") if not line.isascii()]
    foreign = [line for line in lines if line.decode(UTF8, "ignore").encode() != line]
    if not foreign or (len(lines) - len(foreign)) * _LINES_OF_CHANCE > len(foreign):
        return UTF8
    return _guess_encoding(b"\n".join(foreign)[:_SAMPLE_BYTES])


def describe_encoding(encoding: str | None) -> str | None:
    """Describe that a file is in an encoding other than Unicode's, and what to do if that is wrong; else None."""
    if encoding is None or encoding in _CERTAIN:
        return None
    return f"it is not UTF-8 and was read as {encoding}; save it as UTF-8 if names or texts look wrong"


def _find_wide_encoding(sample: bytes) -> str:
    """Detect UTF-16 without a mark: digits and punctuation have one null byte each, always on the same side."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if max(even, odd) < _LEAST_SHARE_OF_NULLS * len(sample) / 2 or max(even, odd) <= 10 * min(even, odd):
        return UTF8
    return "utf-16-le" if odd > even else "utf-16-be"


def _guess_encoding(sample: bytes) -> str:
    """Detect a code page by the letters; UTF-8 if none makes sense, so that the lines are reported as damaged."""
    foreign = sum(byte >= 0x80 for byte in sample)
    if foreign <= _MOST_FOREIGN_IN_LATIN * (foreign + sum(bytes((byte,)).isalpha() for byte in sample)):
        share, best = max(
            ((_share_in_alphabet(sample, name), name) for name in _ALPHABETS), key=itemgetter(0)
        )
        if share < _LEAST_FIT:
            return UTF8
        reads_alike = sample.decode(_USUAL, "replace") == sample.decode(best, "replace")
        return _USUAL if reads_alike else best
    matches = from_bytes(sample, cp_isolation=[*_OTHERS], enable_fallback=False)
    most = min((match.chaos for match in matches), default=0.0) + _CALM
    ordered = sorted(matches, key=lambda match: _OTHERS.index(match.encoding))
    calm = (match for match in ordered if match.chaos <= most)
    likely = max(calm, key=lambda match: max(match.coherence, _CHANCE), default=None)
    return likely.encoding if likely else UTF8


def _share_in_alphabet(sample: bytes, encoding: str) -> float:
    """Return the share of letters besides a to z that belong to the best fitting language of the code page.

    Texts mix languages, mostly in names: the share for all languages together counts almost as much.
    """
    try:
        text = f" {sample.decode(encoding)} "
    except UnicodeDecodeError:
        return 0.0
    letters = [
        letter.lower()
        for before, letter, after in zip(text, text[1:], text[2:], strict=False)
        if not letter.isascii()
        and letter.isalpha()
        and (letter.islower() or before.isupper() or (not before.isalpha() and after.isalpha()))
    ]
    marks = sum(character in _PUNCTUATION for character in text)
    number = max(1, sum(not character.isascii() and not character.isspace() for character in text))
    alphabets = _ALPHABETS[encoding].split()
    best = max(sum(letter in alphabet for letter in letters) for alphabet in alphabets)
    together = sum(any(letter in alphabet for alphabet in alphabets) for letter in letters)
    return (max(best, _MIXED * together) + marks) / number
