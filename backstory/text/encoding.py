"""Decoding text: a whole file in the encoding that its bytes tell, or a stream in which each line may have its own."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import polars as pl
from charset_normalizer import from_bytes

UTF8: Final = "utf-8"
_MARKS: Final = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32"),  # checked before UTF-16, whose mark is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
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
_PUNCTUATION: Final = "“”„‘’‚«»‹›–—…·•¿¡°§€£¥¢©®™ªº²½×"
_CUBIC: Final = re.compile(r"m³(?!\w)")  # anywhere else, the byte of this sign is a letter of Polish
_OTHERS: Final = (
    "cp932", "cp949", "gb18030", "big5", "cp1251", "cp1253", "cp1255", "cp1256", "cp874", "cp1258", "koi8_r",
)  # fmt: skip
"""Code pages of other scripts than Latin; of two that fit equally well the first one is used."""
_CALM: Final = 0.04
_CHANCE: Final = 0.2
"""A text has letters as often as a language up to this degree by chance; Chinese and Japanese never do."""
_MIXED: Final = 0.9
_LEAST_FIT: Final = 0.8
_MOST_FOREIGN_IN_LATIN: Final = 0.45
_SAMPLE_BYTES: Final = 65_536
_LINES_OF_CHANCE: Final = 20


def find_iso_2022(content: bytes) -> str | None:
    """Detect ISO-2022-JP, which may be damaged, by an escape sequence that no terminal uses; None if it is not."""
    return "iso2022_jp_ext" if b"\x1b$" in content and content.isascii() else None


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
        # In UTF-16, digits and punctuation have one null byte each, always on the same side.
        even, odd = sample[::2].count(0), sample[1::2].count(0)
        is_wide = max(even, odd) > max(len(sample) // 10, 10 * min(even, odd))
        return UTF8 if not is_wide else "utf-16-le" if odd > even else "utf-16-be"
    if (escaped := find_iso_2022(content)) is not None:
        return escaped
    lines = [line for line in content.split(b"\n") if not line.isascii()]
    foreign = [line for line in lines if line.decode(UTF8, "ignore").encode() != line]
    if not foreign or (len(lines) - len(foreign)) * _LINES_OF_CHANCE > len(foreign):
        return UTF8
    return _guess_encoding(b"\n".join(foreign)[:_SAMPLE_BYTES])


def describe_encoding(encoding: str | None) -> str | None:
    """Describe that a file is in an encoding other than Unicode's, and what to do if that is wrong; else None."""
    if encoding is None or encoding.startswith("utf-"):
        return None
    return f"it is not UTF-8 and was read as {encoding}; save it as UTF-8 if names or texts look wrong"


def _guess_encoding(sample: bytes) -> str:
    """Detect a code page by the letters; UTF-8 if none makes sense, so that the lines are reported as damaged."""
    foreign = sum(byte >= 0x80 for byte in sample)
    if foreign <= _MOST_FOREIGN_IN_LATIN * (foreign + sum(bytes((byte,)).isalpha() for byte in sample)):
        fits = {name: _measure_fit(sample, name) for name in _ALPHABETS}
        best = max(fits, key=fits.__getitem__)
        if fits[best] < _LEAST_FIT:
            return UTF8
        reads_alike = sample.decode(_USUAL, "replace") == sample.decode(best, "replace")
        return _USUAL if reads_alike else best
    fits = {
        match.encoding: max(_CHANCE, match.coherence) - 4 * max(_CALM, match.chaos)
        for match in from_bytes(sample, cp_isolation=[*_OTHERS], enable_fallback=False)
    }
    return max(sorted(fits, key=_OTHERS.index), key=fits.__getitem__, default=UTF8)


def _measure_fit(sample: bytes, encoding: str) -> float:
    """Return the share of letters besides a to z that belong to the best fitting language of the code page.

    Texts mix languages, mostly in names: the share for all languages together counts almost as much.
    """
    try:
        text = _CUBIC.sub("m²", sample.decode(encoding))
    except UnicodeDecodeError:
        return 0.0
    # A capital alone, or after a small letter, is no letter of any word.
    letters = [
        letter.lower() if before.isupper() or (after.isalpha() and not before.isalpha()) else letter
        for before, letter, after in zip(f" {text}", text, f"{text[1:]} ", strict=False)
        if not letter.isascii() and not letter.isspace()
    ]

    def share(alphabet: str) -> float:
        return sum(letter in alphabet or letter in _PUNCTUATION for letter in letters) / max(1, len(letters))

    alphabets = _ALPHABETS[encoding]
    return max(_MIXED * share(alphabets), *map(share, alphabets.split()))


@dataclass(frozen=True)
class TextLines:
    """Lines of a file without line ends, and why some could not be decoded, by line number from 1.

    They are a series, which needs a third of a list's memory. Bytes that are no text in the encoding become U+FFFD.
    """

    lines: pl.Series
    undecodable: dict[int, str]
    encoding: str


def decode_lines(content: bytes) -> TextLines:
    """Split a file at line feeds, with or without a carriage return before them.

    Only line feeds end a line: a message may contain any other character that Unicode counts as a line break. In a file
    without line feeds, carriage returns do. A line feed at the end of the file does not add an empty line.
    """
    content = content if b"\n" in content else content.replace(b"\r", b"\n")
    if b"\0" not in content[:_SAMPLE_BYTES] and find_iso_2022(content) is None:
        with suppress(pl.exceptions.ComputeError):  # another encoding, or UTF-8 with damaged lines
            return TextLines(_split(content.removeprefix(codecs.BOM_UTF8)), {}, UTF8)
    encoding = find_encoding(content)
    lines = _split(content.removeprefix(codecs.BOM_UTF8).decode(encoding, "replace").encode())
    damaged = lines.str.contains("\ufffd", literal=True).arg_true() + 1
    reason = f"the line is not {encoding}, as others are; save the file as UTF-8"
    return TextLines(lines, dict.fromkeys(damaged, reason), encoding)


def _split(content: bytes) -> pl.Series:
    """Split UTF-8, else raise ``ComputeError``, without creating a Python object per line."""
    # Behind a line feed, Polars does not unpack a text that begins as a compressed file does ("x^2").
    return pl.read_lines(b"\n" + content).to_series().slice(1)


def decode_head(content: bytes) -> list[str]:
    """Decode the first complete lines of a file; the list is empty for a binary file.

    A text may contain a few null bytes; many of them indicate a binary file.
    """
    head = content[:_SAMPLE_BYTES]
    if len(content) >= _SAMPLE_BYTES:  # a line or a character cut in half would look like another encoding
        head = head[: head.rfind(b"\n") + 1] or head.rstrip(bytes(range(0x80, 0x100)))
    decoded = decode_lines(head)
    is_binary = decoded.encoding == UTF8 and head.count(0) > 1 + len(head) // 1000
    return [] if is_binary else decoded.lines.to_list()


def decode_line(line: bytes) -> str:
    """Decode one line, without its end, since in the logs of some programs each line has its own encoding.

    It is read as ISO-2022-JP if it has the escape sequences of that, else as UTF-8, else as Windows-1252.
    """
    ended = line.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").removesuffix(b"\r")
    escaped = find_iso_2022(ended)
    try:
        return ended.decode(escaped or UTF8, "replace" if escaped else "strict")
    except UnicodeDecodeError:
        return ended.decode(_USUAL, "replace")
