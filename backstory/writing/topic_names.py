"""Names of the topics of a digest: titles of documents, names in the messages, and what somebody asked or said."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from backstory.base.ids import PSEUDONYM_PREFIX
from backstory.text.prompts.entries import cut_line
from backstory.text.small_talk import find_small_talk
from backstory.text.words import Words
from backstory.writing.clauses import greets, list_beginnings, skip_empty_clauses
from backstory.writing.headings import Phrase, capitalize, drop_marks
from backstory.writing.material import WindowMessage
from backstory.writing.sentences import Sentence, replies, sum_weights
from backstory.writing.topics import Topic, measure_usual_gap

_LONGEST: Final = 60
"""Most characters of a sentence that stands for the name of a topic; a longer one is cut if there is no other."""
_LONGEST_WHOLE: Final = 72
"""The same for a question, and for the beginning of a topic, which are not cut."""
_SHORTEST: Final = 10
"""Fewest characters of such a sentence."""
_SHORT: Final = 40
"""Characters below which a sentence gains nothing by being shorter."""
_LEAST_TERMS: Final = 2
"""Fewest terms of such a sentence."""
_LEAST_WORDS: Final = 3
"""Fewest words of a question that says what it asks about."""
_SAID_OF_TITLE: Final = 3
"""Terms of a long title that make it the name of a topic."""
_OFTEN: Final = 2
"""Messages of a topic that hold a word, from which on the word is one of those that the topic is about."""
_MANY_TERMS: Final = 3
"""Terms from which on a sentence says something, whatever else it points at."""
_LONG_PAUSE: Final = 4
_LEAST_PAUSE: Final = timedelta(minutes=5)
"""A silence of as many usual gaps, and at least so long, after which a message begins something."""
_FIRST: Final = 1.5
"""How much more the first sentence of such a message counts than the ones after it."""
_BEGINNING: Final = 1.7
"""How much more a sentence of such a message counts than one of another message."""
_EARLY: Final = 1 / 3
"""Part of the messages of a topic, from its beginning, in which a question says what it is about."""
_MOST_ANSWERS: Final = 40
"""Messages of a topic up to which one question may be what it is about."""
_ASKED: Final = 1.8
"""How much more a question counts that somebody answered than a statement."""
_POINTING: Final = 1 / 4
"""How much a beginning counts that points at what was said before."""
_ADDRESS: Final = re.compile(r"(?:https?://|www\.)\S+\s?")
_LIST_MARK: Final = re.compile(r"\A(?:[-*•]|#+)\s+")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


class TopicNames:
    """Finds names for the topics of one window.

    Args:
        messages: The messages of the window, in order.
        sentences: The sentences of each message.
        words: Splits texts into terms.
        pointers: Words that point at what was said before, from
            :func:`backstory.writing.determiners.list_pointers`.
    """

    def __init__(
        self,
        messages: Sequence[WindowMessage],
        sentences: Sequence[Sequence[Sentence]],
        words: Words,
        pointers: frozenset[str],
    ) -> None:
        self._messages = messages
        self._sentences = [[_drop_marks(one, words) for one in message] for message in sentences]
        self._pause = max(_LONG_PAUSE * timedelta(seconds=measure_usual_gap(messages)), _LEAST_PAUSE)
        self._words = words
        self._pointers = pointers

    def name(self, topic: Topic, phrase: Phrase | None, weights: Mapping[str, float]) -> str:
        """Name a topic: by its document, by a name in its messages, by what was asked or said, or by a phrase.

        A phrase that is no name and hardly repeated, such as "extra data", tells less than what somebody said. What
        follows a pause begins a topic, and says what it is about.

        Args:
            topic: The topic.
            phrase: The phrase that names it best, if there is one.
            weights: How much each term of its messages says about it.
        """
        return (
            self.find_title(topic, phrase, weights)
            or (phrase.text if phrase is not None and phrase.tells else None)
            or self._find_quote(topic, phrase, weights)
            or (phrase.text if phrase is not None else "In short")
        )

    def find_title(self, topic: Topic, phrase: Phrase | None, weights: Mapping[str, float]) -> str | None:
        """Return the title of the first document of a topic if its messages are about what it says.

        They hold half of its words, or three of them, where the word that names the topic best counts as two if it is
        said again and again. A word alone, such as "draft", does not make a title their subject. The title of an
        earlier post names the main topic of another window.
        """
        of_people = [citation for citation in topic.citations if not citation.is_post]
        for citation in of_people[:1]:
            terms = set(self._words.split(citation.title))
            said = sum(1 for term in terms if weights.get(term))
            main = terms & phrase.terms if phrase is not None else frozenset[str]()
            said += bool(main & self._list_frequent(topic))
            if said and said >= min(_SAID_OF_TITLE, len(terms) / 2):
                return citation.title
        return None

    def _find_beginning(self, topic: Topic, weights: Mapping[str, float], least: float) -> str | None:
        """Quote the beginning of a topic that follows a pause, unless it answers what was said before."""
        first = topic.places[0]
        if first and self._messages[first].sent_at - self._messages[first - 1].sent_at < self._pause:
            return None
        heads = [_WORD.search(one.text) for one in self._sentences[first]]
        if heads and heads[0] and _fold(heads[0][0]) in self._pointers:
            return None
        frequent = self._list_frequent(topic)
        told = [self._strip(one.text) for one in self._sentences[first]]
        told = [text for text in told if text and not greets(text)]
        best = None
        for place, text in enumerate(told):
            following = told[place + 1] if place + 1 < len(told) else ""
            for part, share in list_beginnings(text, following, _LONGEST_WHOLE):
                terms = frozenset(self._words.split(part))
                clear = len(terms) >= _MANY_TERMS or not terms.isdisjoint(frequent)
                if self._is_sayable(part) and clear:
                    weight = _BEGINNING * share * self._weigh(part, terms, weights)
                    weight *= 1.0 if place else _FIRST
                    weight *= _POINTING if self._points(part) else 1.0
                    if weight > least:
                        best, least = part, weight
        return _quote(best, _LONGEST_WHOLE) if best is not None else None

    def _find_quote(self, topic: Topic, phrase: Phrase | None, weights: Mapping[str, float]) -> str | None:
        """Quote the short sentence of a topic that says most by itself, and addresses nobody by a pseudonym.

        A longer one is cut if all short ones only point at what was said before. A sentence with the word that names
        the topic best goes before all others, but a question that somebody answered needs less than a statement.
        """
        sayable = [
            one
            for place in topic.places
            for one in self._sentences[place]
            if len(one.terms) >= _LEAST_TERMS and self._is_sayable(one.text) and not greets(one.text)
        ]
        main = phrase.terms if phrase is not None else frozenset[str]()
        if phrase is not None and " " in phrase.text:
            # Without a sentence that says all of it, the phrase itself is the better name.
            sayable = [one for one in sayable if main <= one.terms and len(one.text) <= _LONGEST]
        short = [one for one in sayable if len(one.text) <= _LONGEST]
        telling = [one for one in short if not self._points_back(one.terms, one.text)]
        longer = [one for one in sayable if not self._points_back(one.terms, one.text)]
        candidates = telling or longer or short
        candidates = [one for one in candidates if one.terms & main] or candidates
        best = max(candidates, key=lambda one: self._weigh(one.text, one.terms, weights), default=None)
        weight = self._weigh(best.text, best.terms, weights) if best is not None else 0.0
        if best is None or not weight:
            return None
        opening = self._find_beginning(topic, weights, weight)
        if opening is None and not best.asks:
            opening = self._find_question(topic, weights, weight)
        return opening or _quote(_LIST_MARK.sub("", best.text), _LONGEST)

    def _find_question(self, topic: Topic, weights: Mapping[str, float], least: float) -> str | None:
        """Quote the question near the beginning of a topic that says most of those that somebody answered."""
        if len(topic.places) > _MOST_ANSWERS:
            return None
        best = None
        early = frozenset(topic.places[: math.ceil(len(topic.places) * _EARLY)])
        for place in self._list_answered(topic):
            if place not in early:
                break
            for one in self._sentences[place]:
                text = self._strip(one.text)
                terms = frozenset(self._words.split(text))
                if (
                    one.asks
                    and self._is_sayable(text)
                    and len(text) <= _LONGEST_WHOLE
                    and len(terms) >= _LEAST_TERMS
                    and len(_WORD.findall(text)) >= _LEAST_WORDS
                    and not self._points(text)
                    and not find_small_talk([text])[0]
                ):
                    weight = _ASKED * self._weigh(text, terms, weights)
                    if weight > least:
                        best, least = text, weight
        return _quote(best, _LONGEST_WHOLE) if best is not None else None

    @staticmethod
    def _weigh(text: str, terms: frozenset[str], weights: Mapping[str, float]) -> float:
        return sum_weights(terms, weights) / math.sqrt(max(len(text), _SHORT))

    @staticmethod
    def _is_sayable(text: str) -> bool:
        return len(text) >= _SHORTEST and PSEUDONYM_PREFIX not in text

    def _strip(self, text: str) -> str:
        """Leave out addresses, and the short clauses at the beginning of a sentence that say nothing."""
        return skip_empty_clauses(_LIST_MARK.sub("", _ADDRESS.sub("", text)).strip(), self._words)

    def _list_answered(self, topic: Topic) -> list[int]:
        """List the messages of a topic that another person soon answered in it."""
        answered: list[int] = []
        later: WindowMessage | None = None
        other: WindowMessage | None = None
        for place in reversed(topic.places):
            message = self._messages[place]
            if later is not None and later.author != message.author:
                other = later
            if other is not None and replies(message, other):
                answered.append(place)
            later = message
        return answered[::-1]

    def _points_back(self, terms: Sequence[str] | frozenset[str], text: str) -> bool:
        """Return whether a sentence points at what was said before, and hardly says anything itself."""
        return len(frozenset(terms)) < _MANY_TERMS and self._points(text)

    def _points(self, text: str) -> bool:
        return not self._pointers.isdisjoint(map(_fold, _WORD.findall(text)))

    def _list_frequent(self, topic: Topic) -> frozenset[str]:
        counts = Counter(
            term
            for place in topic.places
            for term in frozenset[str]().union(*(one.terms for one in self._sentences[place]))
        )
        return frozenset(term for term, count in counts.items() if count >= _OFTEN)


def _quote(text: str, longest: int) -> str:
    """Quote a text as a name, which has no full stop, comma or colon at its end."""
    return f"“{capitalize(cut_line(text, longest).rstrip('.,;:。、 '))}”"


def _drop_marks(sentence: Sentence, words: Words) -> Sentence:
    text = drop_marks(sentence.text)
    return (
        sentence
        if text == sentence.text
        else replace(sentence, text=text, terms=frozenset(words.split(text)))
    )


def _fold(word: str) -> str:
    return word.casefold().replace("’", "'")
