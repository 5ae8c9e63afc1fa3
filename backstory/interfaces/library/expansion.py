"""Expand a question into several search keys. The same question always has the same keys."""

from __future__ import annotations

import re
from typing import Final

from backstory.index.search import SearchIndex
from backstory.text.content_words import list_content_words
from backstory.text.stemmers import NO_LANGUAGE
from backstory.text.words import find_words

_TEMPLATES: Final = (
    (r"what(?: is|'s| are| was| were) (?:an? |the )?(?P<x>.+)", "{x} definition"),
    (r"what does (?P<x>.+) mean", "{x} definition"),
    (r"who(?: is|'s| was| are| were) (?P<x>.+)", "{x} person"),
    (r"when(?: is| was| did| does| will) (?P<x>.+)", "{x} date"),
    (r"where(?: is| was| are| were| do| does| did) (?P<x>.+)", "{x} place"),
    (r"why (?:is |are |was |were |do |does |did )?(?P<x>.+)", "{x} reason"),
    (r"how (?:do|does|can|should) (?:i|we|you|one) (?P<x>.+)", "{x} steps"),
    (r"how (?:many|much) (?P<x>.+)", "{x} number"),
    (r"was (?:ist|sind|war|waren) (?:ein |eine |der |die |das )?(?P<x>.+)", "{x} Definition"),
)
_FORMS: Final = tuple((re.compile(form, re.IGNORECASE | re.DOTALL), made) for form, made in _TEMPLATES)
_ENDS: Final = " \t\n?!.,;:¿¡\"'“”‘’«»"
_LEAST_WORDS: Final = 2


def main_stemmer(index: SearchIndex) -> str:
    """Name the stemmer of most chunks of an index."""
    languages = index.manifest.languages
    return max(languages, key=lambda each: each.rows).stemmer if languages else NO_LANGUAGE


def expand_question(question: str, stemmer: str) -> tuple[str, ...]:
    """Build the search keys of a question.

    Args:
        question: Any text.
        stemmer: Name of the stemmer whose stop words are no content.

    Returns:
        The question itself; its content words, if it has others; and the result of a template. Each key once.
    """
    keys = [question]
    content = list_content_words(question, stemmer)
    if len(content) >= _LEAST_WORDS and len(content) < len(find_words(question)):
        keys.append(" ".join(content))
    bare = " ".join(question.split()).strip(_ENDS)
    for form, made in _FORMS:
        found = form.fullmatch(bare)
        if found is not None:
            keys.append(made.format(x=found["x"]))
            break
    return tuple(dict.fromkeys(keys))
