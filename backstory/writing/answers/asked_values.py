"""The value that a question asks for, such as a price or a name, and whether a sentence states one.

A near miss, a sentence on the subject that lacks what is asked for, shares as many words with its question as an answer
does. That it states no such value tells them apart. ``asked_values.toml`` has the patterns, in eight languages.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import regex

from backstory.text.words import find_words
from backstory.writing.answers.routing import fold

_VALUES_FILE: Final = Path(__file__).with_name("asked_values.toml")
_PART: Final = re.compile(r"<([A-Z]+)>")
_NAMES: Final = ("name", "person")
_NO_NAME: Final = ("I", "A", "The", "Mr", "Mrs", "Ms", "Dr")
_WORD: Final = re.compile(r"\w+")
_FIRST_WORDS: Final = 3
"""Most words before the name of a value that a question without a question word asks for."""


@dataclass(frozen=True)
class AskedValue:
    """A value that a question asks for.

    Attributes:
        name: Its name.
        asked: What a question for it holds, in the form of :func:`backstory.writing.answers.routing.fold`.
        stated: What a sentence holds that states such a value.
        excluded: What looks like such a value, but is another.
    """

    name: str
    asked: regex.Pattern[str]
    stated: regex.Pattern[str]
    excluded: regex.Pattern[str] | None


def find_asked_value(question: str) -> AskedValue | None:
    """Find the value that a question asks for; None if it asks for none, as "how do I …" and "why …".

    Args:
        question: The question, or the words of one.
    """
    words = " ".join(_WORD.findall(fold(question)))
    values = _read_values()
    for value in values.values:
        found = value.asked.search(words)
        if found is not None and (
            words.count(" ", 0, found.start()) <= _FIRST_WORDS or values.asking.search(words, 0, found.end())
        ):
            return value
    return None


def states_value(value: AskedValue, question: str, sentence: str) -> bool:
    """Tell whether a sentence states a value of a kind, with a word that the question does not have.

    Args:
        value: The kind.
        question: The question.
        sentence: The sentence.
    """
    own = set(find_words(question))
    for found in value.stated.finditer(sentence):
        words = set(find_words(found[0]))
        if value.excluded is not None:
            words = {word for word in words if not value.excluded.fullmatch(word)}
        if words - own:
            return True
    return False


@dataclass(frozen=True)
class _Values:
    """The values, and the words that ask."""

    values: Sequence[AskedValue]
    asking: regex.Pattern[str]


@cache
def _read_values() -> _Values:
    record = tomllib.loads(_VALUES_FILE.read_text(encoding="utf-8"))
    parts: dict[str, str] = record["parts"]

    def compile_pattern(pattern: str) -> regex.Pattern[str]:
        return regex.compile(_PART.sub(lambda part: parts[part[1]], pattern), regex.IGNORECASE)

    no_name = compile_pattern("|".join(["<DAY>", "<MONTH>", *_NO_NAME]))
    values = tuple(
        AskedValue(
            value["name"],
            regex.compile("|".join(value["asked"].values())),
            compile_pattern(value["stated"]),
            no_name if value["name"] in _NAMES else None,
        )
        for value in record["values"]
    )
    return _Values(values, regex.compile(record["asking"]))
