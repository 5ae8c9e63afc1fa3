"""What a question asks for, told by patterns, without a model: the same question always has the same class."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import regex

from backstory.text.small_talk import find_small_talk
from backstory.text.words import PLAIN_LETTERS
from backstory.writing.answers.answer import Kind, Route

_ROUTES_FILE: Final = Path(__file__).with_name("routes.toml")
_ACCENTED: Final = regex.compile(r"(\p{Latin})\p{Mn}+")
_PLAIN: Final = str.maketrans(PLAIN_LETTERS)
_QUOTES: Final = str.maketrans(dict.fromkeys("'’‘`´\"“”„«»", " "))
_ASK: Final = "<ASK>"
_DOCUMENTS: Final = "<DOCUMENTS>"
_SPACES: Final = re.compile(r"\s+|(?<=[^\W\d])-(?=[^\W\d])")
_MARK: Final = regex.compile(
    r"[!?¿¡\n]+|[.,:;]+(?=\s|$)|(?<=\s)[–—-](?=\s)|[\p{Emoji_Presentation}\p{Extended_Pictographic}\uFE0F]+"
)
_LONGEST: Final = 2000
"""Characters of a question that are looked at; what is longer is a text, whose beginning tells what it asks for."""


@dataclass(frozen=True)
class _Rule:
    kind: Kind
    says: str
    pattern: re.Pattern[str]


@dataclass(frozen=True)
class _Routes:
    """The patterns.

    Attributes:
        talk: Finds a stretch of talk.
        asking: Matches the beginning of a question of three words or more, or of a sum.
        asking_word: Matches a first word that begins questions.
        opening: Matches the talk and the polite words at the beginning of a question.
        documents: Finds names of documents.
        rules: All other rules, in the order in which they decide.
    """

    talk: _Rule
    asking: re.Pattern[str]
    asking_word: re.Pattern[str]
    opening: re.Pattern[str]
    documents: re.Pattern[str]
    rules: tuple[_Rule, ...]


def route_question(question: str) -> Route:
    """Tell what a question asks for.

    Talk beside a question does not count: "thanks, and the roof?" asks for the roof.

    Returns:
        Its class, and the words that told it.
    """
    asked = find_asked(question)
    if not asked:
        return Route("casual", "it is talk, and asks nothing")
    for rule in _read_routes().rules:
        if found := rule.pattern.search(asked):
            return Route(rule.kind, f"it {rule.says}: “{found[0].strip()}”")
    return Route("lookup", "it asks for one thing")


def names_documents(question: str) -> bool:
    """Tell whether a question names documents, such as "letters"."""
    return bool(_read_routes().documents.search(fold(question)))


def begins_asking(text: str) -> bool:
    """Tell whether a text begins with a word that begins questions, such as "how"."""
    return bool(_read_routes().asking_word.match(fold(text)))


def find_asked(question: str) -> str:
    """Return what a question asks, in lower case without accents, and without talk; empty if all of it is talk."""
    routes = _read_routes()
    stretches = [stretch for each in _MARK.split(question[:_LONGEST]) if (stretch := fold(each))]
    small = find_small_talk(stretches)
    kept = []
    for stretch, is_small in zip(stretches, small, strict=True):
        said = _strip_opening(stretch, routes)
        is_talk = any(routes.talk.pattern.search(each) for each in (stretch, said))
        asks = any(routes.asking.match(each) for each in (stretch, said))
        if not (is_talk or (is_small and not asks)):
            kept.append(stretch)
    return _strip_opening(", ".join(kept), routes)


def _strip_opening(asked: str, routes: _Routes) -> str:
    """Take talk and polite words off the beginning, unless nothing is left."""
    while (opening := routes.opening.match(asked)) and opening.end() < len(asked):
        asked = asked[opening.end() :]
    return asked


def fold(text: str) -> str:
    """Return a text in lower case, without accents, quotes, apostrophes, and hyphens between letters."""
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_QUOTES)
    plain = _ACCENTED.sub(r"\1", unicodedata.normalize("NFD", folded))
    return _SPACES.sub(" ", unicodedata.normalize("NFC", plain).translate(_PLAIN)).strip()


@cache
def _read_routes() -> _Routes:
    record = tomllib.loads(_ROUTES_FILE.read_text(encoding="utf-8"))
    asking = _join(record["asking"])
    marks = {_ASK: rf"(?!(?:{asking})\b)", _DOCUMENTS: f"(?:{_join(record['documents'])})"}
    rules = [
        _Rule(rule["kind"], rule["says"], _compile(_join(rule["patterns"]), marks))
        for rule in record["rules"]
    ]
    openers = "|".join([_join(record["openers"]), _join(record["polite"])])
    talk, *others = rules
    return _Routes(
        talk=talk,
        asking=re.compile(rf"(?:{asking}) \S+ \S|\S*\d ?[-+*/x×÷^] ?\d"),
        asking_word=re.compile(rf"(?:{asking})\b"),
        opening=re.compile(rf"(?:{openers})(?:,? +|,)"),
        documents=re.compile(rf"\b{marks[_DOCUMENTS]}\b"),
        rules=tuple(others),
    )


def _join(languages: Mapping[str, Sequence[str]]) -> str:
    """Join the patterns of all languages to one, since a question may mix them."""
    return "|".join(f"(?:{pattern})" for patterns in languages.values() for pattern in patterns)


def _compile(pattern: str, marks: Mapping[str, str]) -> re.Pattern[str]:
    for mark, stands_for in marks.items():
        pattern = pattern.replace(mark, stands_for)
    return re.compile(pattern)
