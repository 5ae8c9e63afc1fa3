"""Claude: the ``conversations.json`` that its users can export, with the messages of each conversation as a list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from backstory.ingest.chats.chat_format import (
    Chat,
    ChatFormat,
    ChatMessage,
    Item,
    Unread,
    name_chat,
    read_each,
)
from backstory.ingest.chats.export_parts import ExportParts
from backstory.ingest.chats.formats.chatgpt import follow_branch
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.json_stream import (
    as_object,
    find_marked,
    first_text,
    list_objects,
    read_content,
    stream_records,
)

_FILE: Final = "conversations.json"
_RECORDS: Final = "item"
_MARKS: Final = (
    frozenset(["item.uuid", "item.chat_messages.item.uuid"]),
    frozenset(["item.uuid", "item.name", "item.account.uuid"]),
)
_AUTHORS: Final = {"human": "Claude user", "assistant": "Claude assistant"}
"""Names of the two who write. They are no ordinary words, which would be taken for names in the texts."""


def find_claude(parts: ExportParts) -> list[str]:
    """Return the file of conversations; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    return find_marked(parts, _MARKS, lambda name: name == _FILE)


def read_claude(parts: ExportParts, found: list[str]) -> Iterator[Item]:
    """Read all conversations; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    for name in found:
        with parts.open(name) as file:
            for value in stream_records(file, _RECORDS):
                yield from _read_conversation(as_object(value))


def _read_conversation(conversation: Mapping[str, Any]) -> Iterator[Item]:
    identifier = first_text(conversation.get("uuid"))
    if identifier is None:
        yield Unread("the conversation has no id")
        return
    chat = Chat(f"claude/{identifier}", name_chat(first_text(conversation.get("name")), identifier))
    yield chat
    try:
        messages = _list_messages(conversation)
    except ValueError as error:
        yield Unread(str(error))
        return
    yield from read_each(messages, partial(_read_message, chat=chat.key))


def _list_messages(conversation: Mapping[str, Any]) -> list[Any]:
    """List the messages of the branch that is shown; all of them if the export does not say which that is."""
    listed = conversation.get("chat_messages")
    messages = listed if isinstance(listed, list) else []
    leaf = first_text(conversation.get("current_leaf_message_uuid"))
    known = {key: message for message in list_objects(messages) if (key := first_text(message.get("uuid")))}
    if leaf not in known:
        return messages
    parents = {key: first_text(message.get("parent_message_uuid")) for key, message in known.items()}
    return [known[key] for key in follow_branch(parents, leaf)]


def _read_message(record: Mapping[str, Any], chat: str) -> ChatMessage:
    key, sender = first_text(record.get("uuid")), first_text(record.get("sender"))
    if key is None:
        raise ValueError("the message has no id")
    if sender not in _AUTHORS:
        raise ValueError("the sender is neither human nor assistant")
    text = _read_text(record)
    has_files = any(list_objects(record.get(field)) for field in ("attachments", "files", "files_v2"))
    kind = "media" if has_files else "message" if text else "system"
    return ChatMessage(
        sent=read_timestamp(record.get("created_at")),
        author=None if kind == "system" else _AUTHORS[sender],
        text=text or None,
        kind=kind,
        chat=chat,
        key=key,
    )


def _read_text(record: Mapping[str, Any]) -> str:
    """Return what was said, without thoughts and without calls of tools and their results."""
    parts = list_objects(record.get("content"))
    if parts:
        said = (read_content(part, "text") for part in parts if part.get("type") == "text")
        return "\n".join(filter(str.strip, said))
    return read_content(record, "text").strip()


CLAUDE: Final = ChatFormat("claude", find_claude, read_claude)
