"""Several search keys for one question. The same question always has the same keys."""

from __future__ import annotations

import re
from typing import Final

from backstory.index.engines.words import find_words
from backstory.library.words import list_content_words

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


def expand_question(question: str, stemmer: str) -> tuple[str, ...]:
    """Make the search keys of a question.

    Args:
        question: Any text.
        stemmer: Name of the stemmer whose stop words are no content.

    Returns:
        The question itself; its content words, if it has others; and what a template makes of it. Each key once.
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
