"""The writer without a model: a digest that quotes the sentences of a window that say most, topic by topic."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backstory.chunking.units import split_sentences
from backstory.prompt_escaping import escape_block, escape_line
from backstory.writing.draft import Draft
from backstory.writing.material import Citation, ContextMaterial, WindowMaterial, WindowMessage

_VERSION: Final = "digest-1"
_SENTENCES: Final = 4
"""Most quoted sentences of a topic."""
_LONGEST: Final = 300
"""Longest quoted sentence, in characters; a longer one is cut by nobody, but chosen last."""
_WORD: Final = re.compile(r"[^\W_]{3,}")


@dataclass(frozen=True)
class _Sentence:
    message: WindowMessage
    text: str
    words: frozenset[str]


class DigestWriter:
    """Lists who said what about which topic, with the earlier documents on it. The same input gives the same text."""

    id = _VERSION
    prompt_hash = _VERSION

    def write(self, window: WindowMaterial, context: ContextMaterial) -> Draft:
        """Write the digest of a window.

        Args:
            window: The messages, at least one.
            context: The documents to link to.
        """
        weights = _weigh_words(window.messages)
        topics, rest = _divide(window, context)
        sections = [_write_topic(citation, messages, weights) for citation, messages in topics]
        if rest:
            sections.append(_write_section("Also said" if topics else "What was said", rest, weights))
        people = len({message.author for message in window.messages if message.author})
        head = (
            f"*{window.started_at:%Y-%m-%d %H:%M} to {window.ended_at:%Y-%m-%d %H:%M} (UTC), "
            f"{len(window.messages)} messages by {people} people.*"
        )
        return Draft(
            title=f"{window.conversation_id}, {window.started_at:%Y-%m-%d}",
            text="\n\n".join([head, *sections]) + "\n",
            tags=tuple(dict.fromkeys(tag for citation, _ in topics for tag in citation.tags)),
        )


def _divide(
    window: WindowMaterial, context: ContextMaterial
) -> tuple[list[tuple[Citation, list[WindowMessage]]], list[WindowMessage]]:
    """Give each message to the best document that serves it, and return the messages that none serves."""
    owner: dict[int, Citation] = {}
    for citation in context.citations:
        for place in citation.messages:
            owner.setdefault(place, citation)
    topics: dict[int, tuple[Citation, list[WindowMessage]]] = {}
    rest = []
    for place, message in enumerate(window.messages):
        if place in owner:
            topics.setdefault(owner[place].number, (owner[place], []))[1].append(message)
        else:
            rest.append(message)
    return list(topics.values()), rest


def _write_topic(citation: Citation, messages: Sequence[WindowMessage], weights: dict[str, float]) -> str:
    dated = f", {citation.published_at:%Y-%m-%d}" if citation.published_at else ""
    title = escape_line(citation.title)
    return _write_section(title, messages, weights) + f"\n\nEarlier: {title}{dated} [{citation.number}]"


def _write_section(title: str, messages: Sequence[WindowMessage], weights: dict[str, float]) -> str:
    lines = [
        f"- **{sentence.message.author or 'someone'}** ({sentence.message.sent_at:%H:%M}): "
        f"{escape_block(' '.join(sentence.text.split()))}"
        for sentence in _choose(messages, weights)
    ]
    return "\n".join([f"## {title}", "", *lines])


def _choose(messages: Sequence[WindowMessage], weights: dict[str, float]) -> list[_Sentence]:
    """Choose the sentences that together hold most of the weight of the words, in their order."""
    sentences = [
        _Sentence(message, message.text[start:end], _words(message.text[start:end]))
        for message in messages
        for start, end in split_sentences(message.text, 0, len(message.text))
    ]
    chosen: list[int] = []
    said: set[str] = set()
    for _ in range(min(_SENTENCES, len(sentences))):
        left = [place for place in range(len(sentences)) if place not in chosen]
        gain = {
            place: sum(weights[word] for word in sorted(sentences[place].words - said))
            / math.sqrt(max(len(sentences[place].text), 40))
            for place in left
        }
        best = max(left, key=lambda place: (len(sentences[place].text) <= _LONGEST, gain[place], -place))
        if not gain[best]:
            break
        chosen.append(best)
        said |= sentences[best].words
    return [sentences[place] for place in sorted(chosen or range(min(1, len(sentences))))]


def _weigh_words(messages: Sequence[WindowMessage]) -> dict[str, float]:
    """Weigh each word by its rarity among the messages."""
    held = Counter(word for message in messages for word in _words(message.text))
    return {word: math.log(1 + len(messages) / count) for word, count in held.items()}


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
