"""People and conversations as readers see them, and what callers pass to show, send and check texts about people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import regex

from backstory.base.ids import PSEUDONYM_PREFIX

ShowText: TypeAlias = Callable[[str, str, str], str]
"""Returns a text of a document as the readers of a window see it, given the ids of the window and the document."""

SendText: TypeAlias = Callable[[str | None, str], str | None]
"""Returns a text as a chat model is sent it, given the id of its document, or None for the words of who asks; None if
it is not sent."""

ListWithheld: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Returns those of some documents, by id, of which a chat model is sent nothing."""

ScrubText: TypeAlias = Callable[[str], str]
"""Returns a text with markers in place of contact data."""

FindLeaks: TypeAlias = Callable[[Sequence[str]], Collection[str]]
"""Returns those of the texts that hold a real name of an author."""

_PSEUDONYM: Final = re.compile(rf"{re.escape(PSEUDONYM_PREFIX)}[0-9a-f]{{10}}(?![0-9a-f])")

_GAP: Final = r"[ _\-\u00a0]+"
_WITH: Final = "with mit con com avec met med z s se с со з із cu dengan amb με sa"
_CHAT: Final = (
    "chat chats chatt conversa conversation conversación discussion czat чат xat sohbet conversație conversaţie "
    "συνομιλία keskustelu beszélgetés obrolan razgovor"
)
_ADDED: Final = (
    # WhatsApp Chat with X, WhatsApp-Chat mit X, WhatsApp Chat - X
    rf"WhatsApp{_GAP}(?:{'|'.join(_CHAT.split())})(?:{_GAP}(?:{'|'.join(_WITH.split())}){_GAP}| - |: )",
    # Chat de WhatsApp con X, Discussion WhatsApp avec X, Чат WhatsApp с X
    f"(?:{'|'.join(_CHAT.split())}){_GAP}(?:(?:de|do|di|da|del){_GAP})?WhatsApp{_GAP}(?:{'|'.join(_WITH.split())}){_GAP}",
    # what people name the folder or file of other exports
    rf"(?:Telegram|Discord|Slack|Signal){_GAP}(?:chat{_GAP})?export{_GAP}(?:of{_GAP}|from{_GAP}|- )?",
)
_BEFORE: Final = regex.compile("|".join(_ADDED), regex.IGNORECASE)
_AFTER: Final = regex.compile(
    r"(?:"
    r"\.(?:txt|json|jsonl|zip|html?|csv|log|mbox)"
    r"|[ _]?\(\d{1,3}\)"  # a further download
    r"| \[\d{6,}\]"  # Discord's id of a channel
    rf"|(?<!{PSEUDONYM_PREFIX[:-1]})-(?:\d{{9,}}|[CGD][A-Z0-9]{{8,}})"  # the id that tells two chats of one name apart
    r"|[ \-]ile[ \-]WhatsApp[ \-]Sohbeti"
    r")\Z",
    regex.IGNORECASE,
)


def show_as_written(window_id: str, document_id: str, text: str) -> str:  # noqa: ARG001 - the signature of ShowText
    """Return the text: no name is replaced."""
    return text


def name_people(text: str, names: Mapping[str, str]) -> str:
    """Write the people of a text as readers see them."""
    return _PSEUDONYM.sub(lambda found: names.get(found[0], found[0]), text) if names else text


def is_pseudonym(text: str) -> bool:
    """Return whether a text is the pseudonym of a person."""
    return _PSEUDONYM.fullmatch(text) is not None


@dataclass(frozen=True)
class Discretion:
    """What a post may say about people.

    ``find_leaks`` finds the texts that must not be stored, ``scrub`` replaces contact data in what is published, and
    ``rule`` names the rule for names in documents.
    """

    find_leaks: FindLeaks
    scrub: ScrubText = str
    rule: str = "keep"


def name_conversation(conversation_id: str) -> str:
    """Name a conversation for readers, which is no key; by its id itself if nothing else would be left of it."""
    name = _BEFORE.sub("", conversation_id, count=1) if _BEFORE.match(conversation_id) else conversation_id
    while (shorter := _AFTER.sub("", name)) != name:
        name = shorter
    return name.rstrip(" _-").lstrip() or conversation_id


def name_conversations(conversation_ids: Iterable[str]) -> dict[str, str]:
    """Name conversations for readers by their ids; those that would have one name keep their ids."""
    names = {key: name_conversation(key) for key in conversation_ids}
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else key for key, name in names.items()}
