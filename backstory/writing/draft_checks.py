"""Checks of a draft: what must hold before it becomes a post."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from backstory.base.wording import count, name_some
from backstory.settings.writers import WriterSettings
from backstory.text.languages import detect_language, is_known, name_language
from backstory.text.people import FindLeaks
from backstory.writing.draft import MOST_TAG_CHARACTERS, MOST_TITLE_CHARACTERS, Draft
from backstory.writing.material import ContextMaterial

_MOST_TAGS: Final = 20
_LANGUAGE_CHARACTERS: Final = 200
"""Length from which the language of a draft is sure."""

_REFUSAL_CHARACTERS: Final = 600
"""Length from which a text that begins with an apology is a post nevertheless."""
_REFUSAL: Final = re.compile(
    r"\W*(?:"
    r"(?:i['’]?m|i am) (?:very |so |really )?sorry\b.{0,80}\b(?:can['’]?t|cannot|can not|unable|not able|won['’]?t)"
    r"|(?:sorry|apologies)\b.{0,60}\b(?:can['’]?t|cannot|unable|not able)"
    r"|i (?:can['’]?t|cannot|can not|won['’]?t|am unable to|am not able to|must decline to)"
    r" (?:help|assist|comply|write|create|provide|fulfil|generate|produce|do that|continue|answer)"
    r"|as an? (?:ai|large language model|language model|ai language model|assistant)\b.{0,80}\b(?:can|unable|not)"
    r"|(?:es )?tut mir (?:sehr )?leid\b.{0,80}\b(?:kann|darf)\b|ich kann (?:dabei|dir|ihnen|das|diese)\b.{0,60}\bnicht"
    r"|lo siento\b.{0,80}\bno puedo|no puedo (?:ayudar|escribir|cumplir)"
    r"|(?:je suis )?désolée?\b.{0,80}\bne (?:peux|puis)|je ne (?:peux|puis) pas (?:aider|vous aider|écrire|répondre)"
    r"|mi dispiace\b.{0,80}\bnon posso|desculp\w+\b.{0,80}\bnão posso"
    r")",
    re.IGNORECASE | re.DOTALL,
)
_FRONT_MATTER: Final = re.compile(r"\s*(?:---|\+\+\+)[ \t]*\n(?:[ \t]*\n)*[\w\"' -]{1,60}[:=]")
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\u2028\u2029]")
_NAMED: Final = 3
_HEADING: Final = re.compile(r"^#{1,6}\s+")


def clean_draft(draft: Draft) -> Draft:
    """Bring a draft into form: a title of one line, no control characters, distinct tags of one line."""
    title = _HEADING.sub("", _fold(draft.title))
    tags = dict.fromkeys(tag for tag in (_fold(tag).lstrip("#").strip() for tag in draft.tags) if tag)
    text = _UNSEEN.sub("", draft.text.replace("\r\n", "\n").replace("\r", "\n"))
    return replace(draft, title=title, text=text, tags=tuple(tags))


def find_fault(draft: Draft, settings: WriterSettings, language: str | None) -> str | None:
    """Return why a draft cannot become a post, or None.

    Args:
        draft: The draft, from :func:`clean_draft`.
        settings: Limits of the length.
        language: Language of the window; None if it could not be detected.
    """
    if draft.withheld is not None:
        return draft.withheld
    if not draft.text.strip() or not draft.title:
        return "empty: the draft has no text or no title"
    return _find_unfit_form(draft, settings) or _find_unfit_content(draft, language)


def find_refusal(text: str) -> str | None:
    """Describe a text that is an apology in place of a post; None for any other text."""
    is_refusal = len(text) < _REFUSAL_CHARACTERS and _REFUSAL.match(text)
    return f"refused: {count(len(text), 'character')}" if is_refusal else None


def find_leak(draft: Draft, context: ContextMaterial, find_leaks: FindLeaks) -> str | None:
    """Return why a draft may not even be stored, or None.

    Args:
        draft: The draft.
        context: The documents that its writer was shown.
        find_leaks: Finds the texts that must not be stored.
    """
    if draft.withheld is not None or not find_leaks([draft.title, draft.text, *draft.tags]):
        return None
    texts = {f"{citation.title}\n{citation.passage}": citation for citation in context.citations}
    shown = [texts[text] for text in find_leaks(list(texts))]
    unnamed = {*find_leaks([citation.path for citation in shown]), ""}
    places = [
        f"document {citation.number}" if citation.path in unnamed else citation.path
        for citation in sorted(shown, key=lambda citation: citation.number)
    ]
    named = name_some(places, _NAMED) if places else ""
    where = f"{named} shows one" if named else "the prompt may show it"
    return f"leak: the draft held a real name, a number or an address, and was not kept; {where}"


def _find_unfit_form(draft: Draft, settings: WriterSettings) -> str | None:
    length = len(draft.text.strip())
    if length > settings.max_characters:
        return (
            f"too long: the draft has {length} characters, and writers.max_characters is "
            f"{settings.max_characters}; raise it, or ask for less in the prompt"
        )
    if length < settings.min_characters:
        return (
            f"too short: the draft has {length} characters, and writers.min_characters is "
            f"{settings.min_characters}; lower it, or ask for more in the prompt"
        )
    if len(draft.title) > MOST_TITLE_CHARACTERS:
        return f"title: it has {len(draft.title)} characters, and {MOST_TITLE_CHARACTERS} are the most"
    if len(draft.tags) > _MOST_TAGS or any(len(tag) > MOST_TAG_CHARACTERS for tag in draft.tags):
        return f"tags: at most {_MOST_TAGS} tags of {MOST_TAG_CHARACTERS} characters are allowed"
    if _FRONT_MATTER.match(draft.text):
        return "front matter: the text begins with front matter of its own; forbid it in the prompt"
    return None


def _find_unfit_content(draft: Draft, language: str | None) -> str | None:
    # A writer without a model quotes the window, in whatever languages it is.
    if draft.model is None or language is None or len(draft.text) < _LANGUAGE_CHARACTERS:
        return None
    written = detect_language([draft.text])
    if written is None or is_known(written, (language,)):
        return None
    return f"language: the draft is in {name_language(written)}, and the window in {name_language(language)}"


def _fold(text: str) -> str:
    return " ".join(_UNSEEN.sub(" ", text).split())
