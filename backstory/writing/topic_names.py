"""Names of the topics of a digest: titles of documents, names in the messages, and short messages that are quoted."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from backstory.base.ids import PSEUDONYM_PREFIX
from backstory.text.prompts.entries import cut_line
from backstory.text.small_talk import find_small_talk
from backstory.text.words import Words
from backstory.writing.headings import Phrase, capitalize, drop_marks
from backstory.writing.sentences import Sentence, sum_weights
from backstory.writing.topics import Topic

_LONGEST: Final = 60
"""Most characters of a sentence that stands for the name of a topic; a longer one is cut if there is no other."""
_SHORTEST: Final = 10
"""Fewest characters of such a sentence."""
_SHORT: Final = 40
"""Characters below which a sentence gains nothing by being shorter."""
_LEAST_TERMS: Final = 2
"""Fewest terms of such a sentence."""
_SAID_OF_TITLE: Final = 3
"""Terms of a long title that make it the name of a topic."""
_OFTEN: Final = 2
"""Messages of a topic that hold a word, from which on the word is one of those that the topic is about."""
_MANY_TERMS: Final = 3
"""Terms from which on a sentence says something, whatever else it points at."""
_INTRODUCTION: Final = re.compile(r"\bI[’']m [A-Z]|\b[Mm]y name is\b")
_CLAUSE: Final = re.compile(r"[,.!?:;–—]")
_LIST_MARK: Final = re.compile(r"\A[-*•]\s+")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


class TopicNames:
    """Finds names for the topics of one window.

    Args:
        sentences: The sentences of each message.
        words: Splits texts into terms.
        pointers: Words that point at what was said before, from
            :func:`backstory.writing.determiners.list_pointers`.
    """

    def __init__(
        self, sentences: Sequence[Sequence[Sentence]], words: Words, pointers: frozenset[str]
    ) -> None:
        self._sentences = [[_drop_marks(one, words) for one in message] for message in sentences]
        self._words = words
        self._pointers = pointers

    def name(self, topic: Topic, phrase: Phrase | None, weights: Mapping[str, float]) -> str:
        """Name a topic: by its document, by a name in its messages, by a short sentence of them, or by a phrase.

        A phrase that is no name and hardly repeated, such as "extra data", tells less than what somebody said.

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

    def _find_quote(self, topic: Topic, phrase: Phrase | None, weights: Mapping[str, float]) -> str | None:
        """Quote the short sentence of a topic that says most by itself, and addresses nobody by a pseudonym.

        A longer one is cut if all short ones only point at what was said before. A sentence with the word that names
        the topic best goes before all others.
        """
        sayable = [
            one
            for place in topic.places
            for one in self._sentences[place]
            if len(one.terms) >= _LEAST_TERMS
            and len(one.text) >= _SHORTEST
            and PSEUDONYM_PREFIX not in one.text
            and not _greets(one.text)
        ]
        main = phrase.terms if phrase is not None else frozenset[str]()
        if phrase is not None and " " in phrase.text:
            # Without a sentence that says all of it, the phrase itself is the better name.
            sayable = [one for one in sayable if main <= one.terms and len(one.text) <= _LONGEST]
        short = [one for one in sayable if len(one.text) <= _LONGEST]
        telling = [one for one in short if not self._points_back(one)]
        candidates = telling or [one for one in sayable if not self._points_back(one)] or short
        candidates = [one for one in candidates if one.terms & main] or candidates

        def weigh(sentence: Sentence) -> float:
            return sum_weights(sentence.terms, weights) / math.sqrt(max(len(sentence.text), _SHORT))

        best = max(candidates, key=weigh, default=None)
        if best is None or not weigh(best):
            return None
        # A quote ends as a name does, and a list's mark is none of its words.
        return f"“{capitalize(cut_line(_LIST_MARK.sub('', best.text), _LONGEST).rstrip('.'))}”"

    def _points_back(self, sentence: Sentence) -> bool:
        """Return whether a sentence points at what was said before, and hardly says anything itself."""
        words = (word.casefold().replace("’", "'") for word in _WORD.findall(sentence.text))
        return len(sentence.terms) < _MANY_TERMS and not self._pointers.isdisjoint(words)

    def _list_frequent(self, topic: Topic) -> frozenset[str]:
        counts = Counter(
            term
            for place in topic.places
            for term in frozenset[str]().union(*(one.terms for one in self._sentences[place]))
        )
        return frozenset(term for term, count in counts.items() if count >= _OFTEN)


def _drop_marks(sentence: Sentence, words: Words) -> Sentence:
    text = drop_marks(sentence.text)
    return (
        sentence
        if text == sentence.text
        else replace(sentence, text=text, terms=frozenset(words.split(text)))
    )


def _greets(text: str) -> bool:
    """Return whether the first clause of a sentence is a greeting, thanks, or the like, or somebody says a name."""
    return bool(_INTRODUCTION.search(text)) or find_small_talk([_CLAUSE.split(text, maxsplit=1)[0]])[0]
