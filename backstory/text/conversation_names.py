"""Names of conversations for readers: their ids without what an exporting program adds to the name of a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import regex

from backstory.base.ids import PSEUDONYM_PREFIX

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
