"""The writer without a model: a digest that quotes the sentences of a window that say most, topic by topic."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from backstory.base.local_times import choose_clock, name_zone
from backstory.base.wording import inflect, name_all
from backstory.text.prompts.entries import cut_line
from backstory.text.prompts.escaping import escape_line
from backstory.text.small_talk import find_small_talk
from backstory.writing.determiners import list_introducers, list_pointers
from backstory.writing.draft import MOST_TAG_CHARACTERS, MOST_TITLE_CHARACTERS, Draft
from backstory.writing.headings import Phrase, capitalize, drop_marks, find_phrases
from backstory.writing.material import (
    Citation,
    ContextMaterial,
    EarlierTopic,
    Period,
    WindowMaterial,
    WindowMessage,
)
from backstory.writing.sentences import (
    Sentence,
    choose_sentences,
    choose_words,
    replies,
    shorten,
    split_messages,
    split_passage,
    sum_weights,
    weigh_terms,
)
from backstory.writing.topic_names import TopicNames
from backstory.writing.topics import Topic, find_topics

_VERSION: Final = "digest-14"
_SENTENCES: Final = 4
"""Most sentences quoted of a short topic, without answers."""
_MESSAGES_PER_SENTENCE: Final = 30
"""Messages of a topic for each of which one more sentence is quoted."""
_MOST_SENTENCES: Final = 8
_EXCHANGE: Final = 2
"""The same in a letter, which tells of more topics."""
_TOPICS: Final = 15
"""Most topics of a digest."""
_TAGS: Final = 5
_SHARED_FACTOR: Final = 1.5
"""How much more a term of a topic counts that the passage of its document holds, too."""
_SHARED_TERMS: Final = 2
"""Terms of a topic in a sentence of a document, from which on the sentence is about the topic."""
_EARLIER: Final = "Earlier"
# What an earlier digest quotes is quoted without its author and time: neither belongs to the sentence.
_QUOTED_BY: Final = re.compile(r"^- \*\*[^*\n]+\*\* (?:\d\d? \w+ \d{4} )?\d\d:\d\d: ", re.MULTILINE)
_ACTIVE: Final = re.compile(r"(\\*)([*`<]|(?<![^\W_])_|_(?![^\W_]))")


@dataclass(frozen=True)
class _Section:
    """A topic with what is needed to write about it."""

    topic: Topic
    phrase: Phrase | None
    weights: Mapping[str, float]


class DigestWriter:
    """Lists who said what about which topic, with the earlier posts on it. The same input gives the same text."""

    id = _VERSION
    prompt_hash = _VERSION

    def write(self, window: WindowMaterial, context: ContextMaterial) -> Draft:
        """Write the digest of a window.

        Args:
            window: The messages, at least one.
            context: The documents to link to.
        """
        return _Digest(window, context).write()


@dataclass(frozen=True)
class Outlined:
    """A section of a digest.

    Attributes:
        heading: Its heading, Markdown without marks.
        places: Positions of its messages, ascending.
        documents: Ids of the documents that serve it, without posts.
        terms: Terms of its messages.
    """

    heading: str
    places: tuple[int, ...]
    documents: tuple[str, ...]
    terms: frozenset[str]


def outline(window: WindowMaterial, context: ContextMaterial) -> list[Outlined]:
    """List the sections of the digest of a window, in their order. A message may belong to none."""
    return _Digest(window, context).outline()


class _Digest:
    """One digest in the making.

    Args:
        window: The messages, at least one.
        context: The documents to link to.
    """

    def __init__(self, window: WindowMaterial, context: ContextMaterial) -> None:
        self._window = window
        self._context = context
        self._words = choose_words(window.language)
        self._introducers = list_introducers(window.language)
        self._name_people = window.name_people
        self._sentences = split_messages(window.messages, self._words)
        self._names = TopicNames(
            window.messages, self._sentences, self._words, list_pointers(window.language)
        )
        self._passages = {
            citation.number: split_passage(
                _QUOTED_BY.sub("- ", citation.passage) if citation.is_post else citation.passage, self._words
            )
            for citation in context.citations
        }

    def outline(self) -> list[Outlined]:
        sections, _ = self._plan()
        return [
            Outlined(
                self._name(section),
                section.topic.places,
                _list_documents(section),
                frozenset(section.weights),
            )
            for section in sections
        ]

    def write(self) -> Draft:
        sections, left_out = self._plan()
        parts = [self._write_head()]
        if self._window.period is not None and self._window.period.earlier:
            sections, news = self._compare(sections, self._window.period.earlier)
            parts.append(news)
        parts += map(self._write_section, sections)
        if left_out:
            parts.append(f"*{left_out} {inflect(left_out, 'message')} on other subjects.*")
        without_topic = [citation for citation in self._context.citations if not citation.messages]
        if without_topic:
            parts.append("\n".join(["## Earlier posts", "", *map(self._write_item, without_topic)]))
        return Draft(
            title=self._write_title(sections),
            text="\n\n".join(parts) + "\n",
            tags=_choose_tags(citation for citation in self._context.citations if not citation.is_post),
        )

    def _plan(self) -> tuple[list[_Section], int]:
        """Choose the topics to write about, in the order of time, and count the messages of all others."""
        terms = [_join(sentences) for sentences in self._sentences]
        citations = self._context.citations
        passages = [_join(self._passages[citation.number]) for citation in citations]
        rarity = weigh_terms(terms)
        topics = find_topics(self._window.messages, terms, citations, passages)
        telling = [topic for topic in topics if topic.citations or _is_substantial(topic, terms)] or topics
        ranked = sorted(telling, key=lambda topic: (not topic.citations, -len(topic.places), topic.places))
        apart = weigh_terms([frozenset[str]().union(*(terms[at] for at in topic.places)) for topic in topics])
        sections = [self._open_section(topic, terms, rarity, apart) for topic in ranked[:_TOPICS]]
        sections.sort(key=lambda section: section.topic.places)
        return sections, len(terms) - sum(len(section.topic.places) for section in sections)

    def _open_section(
        self,
        topic: Topic,
        terms: Sequence[frozenset[str]],
        rarity: Mapping[str, float],
        apart: Mapping[str, float],
    ) -> _Section:
        phrases = find_phrases(
            [sentence.text for place in topic.places for sentence in self._sentences[place]],
            [citation.title for citation in topic.citations],
            apart,
            self._words,
            self._introducers,
            1,
        )
        counts = Counter(term for place in topic.places for term in terms[place])
        shared = frozenset[str]().union(*(_join(self._passages[one.number]) for one in topic.citations))
        weights = {
            term: rarity[term] * math.log(1 + count) * (_SHARED_FACTOR if term in shared else 1)
            for term, count in counts.items()
        }
        return _Section(topic, next(iter(phrases), None), weights)

    def _compare(
        self, sections: Sequence[_Section], earlier: Sequence[EarlierTopic]
    ) -> tuple[list[_Section], str]:
        """Put what is new since the letter before first, and say what is new, what goes on, and what has ended."""
        met = [self._meet(section, earlier) for section in sections]
        new = [section for section, places in zip(sections, met, strict=True) if not places]
        old = [section for section, places in zip(sections, met, strict=True) if places]
        gone = [
            one.heading for place, one in enumerate(earlier) if not any(place in places for places in met)
        ]
        listed = (
            ("New since the letter before", map(self._name, new)),
            ("Still talked about", map(self._name, old)),
            ("No longer talked about", map(self._name_people, gone)),
        )
        lines = [f"- {label}: {'; '.join(map(_escape, names))}." for label, names in listed]
        return [*new, *old], "\n".join(line for line in lines if not line.endswith(": ."))

    @staticmethod
    def _meet(section: _Section, earlier: Sequence[EarlierTopic]) -> set[int]:
        """Find the topics of the letter before that a topic continues: they share a document, or most of its words."""
        documents = set(_list_documents(section))
        half = sum(section.weights.values()) / 2
        return {
            place
            for place, one in enumerate(earlier)
            if not documents.isdisjoint(one.documents) or sum_weights(one.terms, section.weights) > half
        }

    def _write_title(self, sections: Sequence[_Section]) -> str:
        """Name the main topic: the one with most messages among those that a document names, or else among all."""
        main = min(
            sections,
            key=lambda section: (
                self._names.find_title(section.topic, section.phrase, section.weights) is None,
                -len(section.topic.places),
                section.topic.places,
            ),
        )
        period = self._window.period
        told = f"{_name_period(period)}: " if period is not None else ""
        return cut_line(f"{told}{self._name(main)}", MOST_TITLE_CHARACTERS - 1)

    def _write_head(self) -> str:
        window = self._window
        authors = list(dict.fromkeys(one.author for one in window.messages if one.author))
        by = f" by {name_all([_escape(self._name_people(author)) for author in authors])}" if authors else ""
        start, end = window.started_at, window.ended_at
        clock = choose_clock(start, end)
        until = f"{end:{clock}}" if start.date() == end.date() else f"{_write_day(end)} {end:{clock}}"
        span = f"{_write_day(start)} {start:{clock}} to {until} {name_zone(start)}"
        return f"*{span}: {len(window.messages)} {inflect(len(window.messages), 'message')}{by}.*"

    def _write_section(self, section: _Section) -> str:
        lines = [f"## {_escape(self._name(section))}", "", *self._write_quotes(section)]
        for citation in section.topic.citations:
            lines += ["", self._write_earlier(citation, section.weights)]
        return "\n".join(lines)

    def _name(self, section: _Section) -> str:
        """Name a topic as a reader sees it."""
        return capitalize(self._name_people(self._names.name(section.topic, section.phrase, section.weights)))

    def _write_quotes(self, section: _Section) -> list[str]:
        said = [one for place in section.topic.places for one in self._sentences[place]]
        candidates = _leave_out_small_talk(said) or said
        more = len(section.topic.places) // _MESSAGES_PER_SENTENCE
        most = min(_SENTENCES + more, _MOST_SENTENCES) if self._window.period is None else _EXCHANGE
        best = choose_sentences(candidates, section.weights, most) or [0]
        chosen = [candidates[place] for place in best]
        for one in tuple(chosen):
            partner = self._find_answer(one, section) if one.asks else self._find_question(one, section)
            if partner is not None and partner not in chosen:
                chosen.append(partner)
        by_message: dict[int, list[Sentence]] = {}
        for one in sorted(chosen, key=lambda one: (one.place, one.number)):
            by_message.setdefault(one.place, []).append(one)
        return [
            self._write_quote(self._window.messages[place], sentences)
            for place, sentences in by_message.items()
        ]

    def _find_answer(self, question: Sentence, section: _Section) -> Sentence | None:
        """Find the best sentence of the next message of the topic, if another person sent it soon."""
        place = next((place for place in section.topic.places if place > question.place), None)
        if place is None or not replies(self._window.messages[question.place], self._window.messages[place]):
            return None
        best = choose_sentences(self._sentences[place], section.weights, 1) or [0]
        return self._sentences[place][best[0]]

    def _find_question(self, answer: Sentence, section: _Section) -> Sentence | None:
        """Find the question that ends the message of the topic before, if another person sent it shortly before."""
        place = next((place for place in reversed(section.topic.places) if place < answer.place), None)
        if place is None or not replies(self._window.messages[place], self._window.messages[answer.place]):
            return None
        last = _leave_out_small_talk(self._sentences[place][-1:])
        return last[0] if last and last[0].asks else None

    def _write_quote(self, message: WindowMessage, sentences: Sequence[Sentence]) -> str:
        pieces: list[str] = []
        before = -1
        for one in sentences:
            if pieces and one.number != before + 1:
                pieces.append("…")
            pieces.append(_escape(shorten(self._name_people(drop_marks(one.text) or one.text))))
            before = one.number
        author = _escape(self._name_people(message.author or "someone"))
        # A letter about a single day names it once, at its head.
        has_days = self._window.started_at.date() != self._window.ended_at.date()
        day = f"{_write_day(message.sent_at)} " if self._window.period is not None and has_days else ""
        return f"- **{author}** {day}{message.sent_at:%H:%M}: {' '.join(pieces)}"

    def _write_earlier(self, citation: Citation, weights: Mapping[str, float]) -> str:
        """Cite a document, with the sentence of it that is nearest to a topic unless the two share a chance word."""
        sentences = self._passages[citation.number]
        shares = [sum_weights(one.terms, weights) / math.sqrt(max(len(one.text), 40)) for one in sentences]
        best = max(range(len(shares)), key=lambda place: (shares[place], -place), default=None)
        # The title of a post names its main topic, which need not be that of the sentence.
        written = f"post of {_write_day(citation.published_at)}" if citation.published_at else "post"
        cited = f"{written} [{citation.number}]" if citation.is_post else self._write_citation(citation)
        shared = sentences[best].terms & weights.keys() if best is not None else frozenset[str]()
        if best is None or (
            len(shared) < _SHARED_TERMS and shared.isdisjoint(self._words.split(citation.title))
        ):
            return f"> {_EARLIER}: {cited}"
        return f"> “{_escape(shorten(sentences[best].text))}”\n>\n> {_EARLIER}: {cited}"

    def _write_item(self, citation: Citation) -> str:
        return f"- {self._write_citation(citation)}"

    def _write_citation(self, citation: Citation) -> str:
        dated = f", {_write_day(citation.published_at)}" if citation.published_at else ""
        return f"{_escape(citation.title) or 'untitled'}{dated} [{citation.number}]"


def _leave_out_small_talk(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Leave out the sentences without content, such as "Mm-hmm" and the marks of a transcript."""
    empty = find_small_talk([drop_marks(one.text) for one in sentences])
    return [one for one, says_nothing in zip(sentences, empty, strict=True) if not says_nothing]


def _list_documents(section: _Section) -> tuple[str, ...]:
    return tuple(citation.document_id for citation in section.topic.citations if not citation.is_post)


def _choose_tags(citations: Iterable[Citation]) -> tuple[str, ...]:
    """Choose the tags of the documents that serve most messages; earlier posts only repeat tags of others.

    A tag that is too long for a post is left out: shortened, it would be another one.
    """
    served: Counter[str] = Counter()
    for citation in citations:
        for tag in dict.fromkeys(citation.tags):
            if len(tag) <= MOST_TAG_CHARACTERS:
                served[tag] += len(citation.messages)
    return tuple(tag for tag, count in served.most_common(_TAGS) if count)


def _is_substantial(topic: Topic, terms: Sequence[frozenset[str]]) -> bool:
    """Return whether a topic that no document serves is more than an aside."""
    return len(topic.places) > 1 and len(frozenset[str]().union(*(terms[at] for at in topic.places))) > 3


def _join(sentences: Iterable[Sentence]) -> frozenset[str]:
    return frozenset(term for sentence in sentences for term in sentence.terms)


def _escape(text: str) -> str:
    """Make a text part of a line, in which it can be neither structure nor emphasis nor a citation nor a link."""
    return _ACTIVE.sub(_deactivate, escape_line(text)).rstrip("\\")


def _deactivate(found: re.Match[str]) -> str:
    """Put a backslash before a character, unless there is one already that counts."""
    backslashes, character = found.groups()
    return f"{backslashes}{character}" if len(backslashes) % 2 else f"{backslashes}\\{character}"


def _name_period(period: Period) -> str:
    first = datetime.fromisoformat(period.key)
    if period.grain == "month":
        return f"{_MONTHS[first.month - 1]} {first.year}"
    return f"{'Week of ' if period.grain == 'week' else ''}{_write_day(first)}"


def _write_day(moment: datetime) -> str:
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
