"""What an English question asks for, such as a date or a name, and whether a text holds such a thing near its words.

This tells an answer from a text about the same subject with another fact, about something else, or that only repeats
the question. It reads forms, not meaning: where a form can stand for either, it says that it cannot tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import regex

from backstory.text.words import find_terms, find_words, list_content_words
from backstory.writing.answers.asked_values import find_asked_value

Finding: TypeAlias = Literal["holds", "repeats", "other", "lacks", "unclear"]
"""A text holds what is asked for near the words of the question, only repeats the question, is about another thing,
lacks what is asked for, or its form does not tell."""

_NEAR_SHARE: Final = 0.6
"""Share of the question's content words that stand near what it asks for; with fewer it may belong to another fact."""
_SENTENCE: Final = regex.compile(r"(?<=[.!?])[\"'”’»)]*\s+|\n+")
_ASKED: Final = regex.compile(r"[?？؟][\"'”’»)]*\s*$")
_DIGIT: Final = regex.compile(r"\d")
_CAPITAL: Final = regex.compile(r"\b\p{Lu}[\p{L}\p{N}'’-]*")
_PREFIX: Final = 4
"""A word of so many letters also names what begins with it: Berlin and Berliners."""

_NUMBER_WORDS: Final = (
    "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|dozen|hundred|thousand|million"
)
_NUMBER: Final = rf"(?:\d[\d.,]*|\b(?i:{_NUMBER_WORDS})\b)"
_SPAN: Final = r"(?i:(?:second|minute|hour|day|night|week|month|year|decade)s?)\b"
_DATES: Final = (
    r"\b(?:(?i:january|february|april|june|july|august|september|october|november|december)|March|May|"
    r"(?i:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|noon|midnight|today|tomorrow|yesterday)|"
    r"1\d{3}s?|20\d\d|\d{1,2}[:.]\d\d|\d{1,2} ?[ap]m|"
    rf"(?i:at|until|till|by|from|before|after|to) (?:\d{{1,2}}(?![\d.,%]*\d| ?\p{{L}}*[°%])|(?i:{_NUMBER_WORDS})))\b"
)
_NO_PERSON: Final = regex.compile(rf"{_DATES}|\b(?:I|A|The|Mr|Mrs|Ms|Dr)\b")
_NAME: Final = r"\b\p{Lu}[\p{L}’'-]+(?: (?:\p{Lu}[\p{L}’'.-]*|(?:d[aeiu]|van|von|of|the)(?= \p{Lu})))*"
_PLACE: Final = (
    r"\b(?i:in|at|on|behind|beside|under|near|inside|opposite|above|below|from|to|into|next to) "
    r"(?:(?:the|a|an|our|your|their|its|number) (?:\p{L}+|\d+)|\p{Lu}\p{L}+)"
)
_STEP: Final = (
    r"(?:^|[.:;,] |\b(?i:then|and|first|please|to) )(?i:press|hold|push|pull|turn|switch|open|close|click|tap|select|"
    r"choose|pick|go|run|type|enter|fill|pour|put|place|take|remove|add|mix|stir|cut|trim|prune|dig|plant|water|"
    r"wait|let|leave|plug|unplug|connect|disconnect|install|download|upload|set|use|apply|attach|insert|lift|draws?|"
    r"sign|send|write|call|log|start|stop|restart|repeat|rinse|wash|clean|dry|heat|cool|bake|boil|check|make|"
    r"measure|drill|screw|fold|roll|copy|paste|delete|create|edit|save|scan)\b"
)
_CAUSE: Final = (
    r"\b(?i:because|since|so|as|for|due to|owing to|thanks to|caused?|therefore|thus|hence|reasons?|until|"
    r"after|in order to|leads?|led to|means that|broken?|broke|failed|found)\b"
)


@dataclass(frozen=True)
class _Kind:
    """A kind of question.

    Attributes:
        asked: What the question begins with, or holds.
        thing: What an answer holds, besides what the question says itself.
        is_name: Whether the thing is a name.
    """

    asked: regex.Pattern[str]
    thing: regex.Pattern[str]
    is_name: bool = False


def _kind(asked: str, thing: str, *, is_name: bool = False) -> _Kind:
    return _Kind(regex.compile(asked), regex.compile(thing), is_name)


_MEASURES: Final = (
    "maximum|minimum|number|price|cost|height|weight|load|turnover|revenue|population|size|speed|length|width|"
    "distance|area|depth|amount|age|salary|budget|capacity|limit|fee"
)
_KINDS: Final = (
    _kind(
        r"^when |^(?:at )?what time|\b(?:what|which) (?:year|date|day|month)\b|^what is the deadline", _DATES
    ),
    _kind(r"^(?:who|whom|whose)\b", _NAME, is_name=True),
    _kind(r"^where\b", _PLACE),
    _kind(r"^why\b|^what (?:is|was) the reason", _CAUSE),
    _kind(r"^how long\b", rf"{_NUMBER}[^.;]{{0,12}}?{_SPAN}"),
    _kind(
        r"^how often\b",
        rf"\b(?i:every|each|per|once|twice|daily|weekly|monthly|yearly|annually)\b|{_NUMBER} times",
    ),
    _kind(
        r"^how much .*\b(?:costs?|pay|paid|charged?)\b|^what .*\b(?:price|cost|fee|salary|rent|pay|paid)\b",
        rf"[£$€¥] ?\d|{_NUMBER} ?(?i:[£$€¥]|euros?|dollars?|pounds?|pence|cents?|francs?|yen|(?:USD|EUR|GBP|CHF)\b)",
    ),
    _kind(
        r"\btemperature\b|\b(?:boiling|melting|freezing) point\b|^how (?:hot|cold|warm)\b",
        rf"{_NUMBER} ?(?i:°|degrees?|celsius|kelvin|fahrenheit|K\b)",
    ),
    _kind(
        r"^how (?:far|tall|high|wide|deep|big|large)\b",
        rf"{_NUMBER} ?(?i:(?:milli|centi|kilo)?met(?:re|er)s?|[mck]?m\b|miles?|foot|feet|inch(?:es)?|yards?|minutes?)",
    ),
    _kind(
        rf"^how (?:many|much|old|fast|heavy|strong)\b|^what (?:is|was|are) the (?:\w+ )?(?:{_MEASURES})\b",
        _NUMBER,
    ),
    _kind(r"^how (?:do|does|can|should|to)\b", _STEP),
)
_OPEN: Final = regex.compile(r"^(?:what|which|how)\b")
_YES_OR_NO: Final = regex.compile(r"^(?:is|are|were|do|does|did|can|could|may|should|would|has|have|had)\b")
"""Other English questions; "was" and "will" are German words, too."""
_NAMING: Final = ("what ", "which ")
"""What asks for a thing, and not for a manner that no form shows."""
_ASKING: Final = (
    "how what whats when where which who whom whose why many much often long far tall high old wide deep big time year "
    "date mean does question asks want know customer people tell read section please"
)
"""Words that say what is asked for, or that something is asked, and nothing of the subject."""


def judge_answer(question: str, texts: Sequence[str], stemmer: str) -> Finding:
    """Judge whether texts hold what a question asks for.

    Args:
        question: The question. What is no English question is ``unclear``, unless the texts only repeat it.
        texts: The texts.
        stemmer: Stemmer of most of the documents.
    """
    asked = " ".join(find_words(question))
    asking = find_terms([_ASKING], stemmer)
    wanted = find_terms([question], stemmer) - asking
    passages = list(_list_passages(texts))
    added = find_terms([part for _, part in passages], stemmer) - wanted - asking
    is_closed = bool(_YES_OR_NO.search(asked))
    if not passages or not (added or is_closed):
        return "repeats"
    kind = next((kind for kind in _KINDS if kind.asked.search(asked)), None)
    if kind is None and not is_closed and not _OPEN.search(asked):
        return "unclear"
    held = set(find_words("\n".join(texts)))
    names, numbers = _list_names(question, stemmer)
    absent = {name for name in names if not any(_is_named(name, word) for word in held)}
    if numbers - held or (names and absent == names):
        return "other"
    own = set(asked.split())
    around = [before for before, part in passages if kind is None or _holds(kind, part, own)]
    if not around:
        return "lacks"
    share = max(len(wanted & find_terms([each], stemmer)) for each in around) / max(1, len(wanted))
    is_plain = share >= _NEAR_SHARE if kind else share == 1 and (is_closed or asked.startswith(_NAMING))
    return "holds" if is_plain and not absent else "unclear"


_LIGHT: Final = (
    "go goes went going gone get gets got take takes took taken use used uses make makes made need needs"
)
"""Verbs that say little of the subject, and that an answer seldom repeats."""
_COSTING: Final = "cost costs pay paid price priced charge charged fee spend spent expensive"


def list_wanted(question: str, stemmer: str) -> set[str]:
    """List the terms of what a question is about, without those that only say what is asked for."""
    value = find_asked_value(question)
    asks_price = value is not None and value.name == "price"
    asking = " ".join([_ASKING, _LIGHT, *([_COSTING] if asks_price else [])])
    wanted = find_terms([question], stemmer)
    return (wanted - find_terms([asking], stemmer)) or wanted


def list_numbers(question: str) -> set[str]:
    """List the numbers of a question, and its identifiers with a digit."""
    return {word for word in find_words(question) if _DIGIT.search(word)}


def _list_passages(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """List the sentences that are no question, which answers none: each with the one before it, and by itself."""
    for text in texts:
        before = ""
        for sentence in _SENTENCE.split(text):
            if sentence.strip() and not _ASKED.search(sentence):
                yield f"{before} {sentence}", sentence
                before = sentence


def _list_names(question: str, stemmer: str) -> tuple[set[str], set[str]]:
    """List the words of names in a question, and its numbers and identifiers with a digit."""
    words = find_words(question)
    numbers = {word for word in words if _DIGIT.search(word)}
    if question.isupper():
        return set(), numbers
    _, _, after_first = question.strip().partition(" ")
    words_of_names = _CAPITAL.findall(after_first)
    capitals = set(list_content_words(" ".join(words_of_names), stemmer))
    return capitals - numbers, numbers


def _is_named(name: str, word: str) -> bool:
    return word == name or (len(name) >= _PREFIX and word.startswith(name.rstrip("s")))


def _holds(kind: _Kind, sentence: str, own: set[str]) -> bool:
    """Tell whether a sentence holds a thing of a kind, with a word that the question does not have."""
    for found in kind.thing.finditer(sentence):
        words = find_words(found[0])
        if kind.is_name:
            words = [word for word in words if not _NO_PERSON.fullmatch(word.capitalize())]
            if found.start() == 0 and len(words) < 2:  # any word has a capital there
                continue
        if set(words) - own:
            return True
    return False
