"""What a post says in a line: for front matter, feeds and link previews."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from backstory.interfaces.pages.site.library import SitePost
from backstory.interfaces.pages.site.markdown import Block, list_blocks
from backstory.text.chunking.units import split_sentences
from backstory.text.prompts.entries import cut_line

_CHARACTERS: Final = 200
_SENTENCES: Final = 2
_LEAST_WORDS: Final = 5
_LEAST_CHARACTERS: Final = 12
"""Letters that say something in a language without spaces, too."""
_QUESTION: Final = re.compile(r"[?？؟]\W*\Z")
_SPEAKER: Final = re.compile(r"\A[^\n:]{1,80}? \d\d:\d\d: ")
"""Who said what a digest quotes, and when."""
_LIST_MARK: Final = re.compile(r"\A[-*•]\s+")


def describe_post(post: SitePost) -> str:
    """Describe a post by its first one or two sentences that say something.

    The topic that the title names is read before all others. Headings, quotations of documents, tables, code, and
    lines in italics are not read.

    Returns:
        One line of at most 200 characters and an ellipsis; the topics of a post that has no such sentence.
    """
    blocks = list_blocks(post.text)
    main = next(
        (place for place, block in enumerate(blocks) if block.is_topic and _names(post.title, block.text)), 0
    )
    sentences = list(chain(_list_sentences(blocks[main:]), _list_sentences(blocks[:main])))
    telling = [place for place, sentence in enumerate(sentences) if _tells(sentence)]
    if not telling:
        return cut_line(", ".join(post.topics), _CHARACTERS)
    said = sentences[telling[0]]
    for place in telling[1:_SENTENCES]:
        if len(said) + len(sentences[place]) < _CHARACTERS:
            said = f"{said} {'' if place == telling[0] + 1 else '… '}{sentences[place]}"
    return cut_line(said, _CHARACTERS)


def _names(title: str, topic: str) -> bool:
    """Return whether a title is the name of a topic, alone or after that of a period."""
    return bool(topic) and (title == topic or title.endswith(f": {topic}"))


def _list_sentences(blocks: Sequence[Block]) -> Iterator[str]:
    for block in blocks:
        if block.is_topic or block.is_aside:
            continue
        text = _SPEAKER.sub("", block.text) if block.in_list else block.text
        for start, end in split_sentences(text, 0, len(text)):
            sentence = _LIST_MARK.sub("", text[start:end])
            yield sentence if sentence[-1:] in ".!?…。！？" else f"{sentence}."


def _tells(sentence: str) -> bool:
    is_long = len(sentence.split()) >= _LEAST_WORDS or (
        " " not in sentence and len(sentence) >= _LEAST_CHARACTERS and not sentence.isascii()
    )
    return is_long and not _QUESTION.search(sentence)
