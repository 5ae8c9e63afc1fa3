"""ChatGPT: the ``conversations.json`` that its users can export, with the messages of each conversation as a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from backstory.base.errors import InputError
from backstory.ingest.chats.chat_format import Chat, ChatFormat, ChatMessage, Item, Unread, name_chat
from backstory.ingest.chats.export_parts import ExportParts
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.json_stream import (
    as_object,
    find_marked,
    first_text,
    list_objects,
    read_content,
    stream_records,
)


def follow_branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """List the messages of a branch from its root to its leaf.

    Args:
        parents: The message before each message, by ids; None, or an id that is no key, for the first one.
        leaf: Id of the last message.

    Raises:
        InputError: The messages form a ring.
    """
    branch: list[str] = []
    passed: set[str] = set()
    at: str | None = leaf
    while at is not None and at in parents:
        if at in passed:
            raise InputError("the messages of the conversation form a ring", code="ring")
        passed.add(at)
        branch.append(at)
        at = parents[at]
    return branch[::-1]


_FILE: Final = re.compile(r"conversations(?:-\d+)?\.json")
_RECORDS: Final = "item"
_MARKS: Final = (frozenset(["item.title", "item.create_time", "item.mapping"]),)
_AUTHORS: Final = {"user": "ChatGPT user", "assistant": "ChatGPT assistant"}
"""Names of the two who write. They are no ordinary words, which would be taken for names in the texts."""

_UNSHOWN: Final = frozenset(["user_editable_context", "model_editable_context"])
"""Types of what the model is told about its user in every conversation."""

_THOUGHTS: Final = frozenset(["thoughts", "reasoning_recap"])
_CITATION: Final = re.compile("\ue200[^\ue200\ue201]*\ue201")
"""Place of a source, in characters for private use."""


def find_chatgpt(parts: ExportParts) -> list[str]:
    """Return the files of conversations; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    return find_marked(parts, _MARKS, _FILE.fullmatch)


def read_chatgpt(parts: ExportParts, found: list[str]) -> Iterator[Item]:
    """Read the displayed branch of all conversations; see :class:`backstory.ingest.chats.chat_format.ChatFormat`."""
    for name in found:
        with parts.open(name) as file:
            for value in stream_records(file, _RECORDS):
                yield from _read_conversation(as_object(value))


def _read_conversation(conversation: Mapping[str, Any]) -> Iterator[Item]:
    identifier = first_text(conversation.get("conversation_id"), conversation.get("id"))
    if identifier is None:
        yield Unread("the conversation has no id")
        return
    chat = Chat(f"chatgpt/{identifier}", name_chat(first_text(conversation.get("title")), identifier))
    yield chat
    try:
        records = _list_messages(conversation)
    except ValueError as error:
        yield Unread(str(error))
        return
    latest = conversation.get("create_time")
    for record in records:
        # Some messages have no time: they follow the one before them at once.
        latest = latest if record.get("create_time") is None else record["create_time"]
        try:
            message = _read_message(record, chat.key, latest)
        except ValueError as error:
            yield Unread(str(error))
            continue
        if message is not None:
            yield message


def _list_messages(conversation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the messages of the branch that is shown.

    Raises:
        ValueError: The export does not say which branch that is.
    """
    nodes = {key: as_object(node) for key, node in as_object(conversation.get("mapping")).items()}
    leaf = first_text(conversation.get("current_node"))
    if leaf not in nodes:
        raise ValueError("the conversation does not name its last message (current_node)")
    parents = {key: first_text(node.get("parent")) for key, node in nodes.items()}
    branch = (as_object(nodes[key].get("message")) for key in follow_branch(parents, leaf))
    return [message for message in branch if message]


def _read_message(record: Mapping[str, Any], chat: str, sent: object) -> ChatMessage | None:
    """Read a message; None for one that is not shown: instructions, hidden context, an answer without content."""
    author, content, about = (as_object(record.get(field)) for field in ("author", "content", "metadata"))
    role, kind = first_text(author.get("role")), first_text(content.get("content_type"))
    key, recipient = first_text(record.get("id")), first_text(record.get("recipient")) or "all"
    if key is None:
        raise ValueError("the message has no id")
    if role == "system" or about.get("is_visually_hidden_from_conversation") is True or kind in _UNSHOWN:
        return None
    if role == "tool" or recipient != "all" or kind in _THOUGHTS:
        tool = first_text(author.get("name")) if role == "tool" else recipient
        done = "thoughts" if kind in _THOUGHTS else f"tool {tool or ''}".strip()
        return ChatMessage(read_timestamp(sent), None, done, "system", chat=chat, key=key)
    if role not in _AUTHORS:
        raise ValueError("the author is neither user, assistant, tool nor system")
    text = _read_text(content)
    has_files = bool(_list_files(content) or list_objects(about.get("attachments")))
    if not text and not has_files:
        return None
    return ChatMessage(
        sent=read_timestamp(sent),
        author=_AUTHORS[role],
        text=text or None,
        kind="media" if has_files else "message",
        chat=chat,
        key=key,
    )


def _read_text(content: Mapping[str, Any]) -> str:
    """Return what was written, or said and transcribed."""
    listed = content.get("parts")
    parts = listed if isinstance(listed, list) else []
    said = (
        part if isinstance(part, str) else read_content(as_object(part), "text") for part in [content, *parts]
    )
    return "\n".join(filter(None, (_CITATION.sub("", text).strip() for text in said)))


def _list_files(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List pictures and other parts that are no text."""
    return [part for part in list_objects(content.get("parts")) if not first_text(part.get("text"))]


CHATGPT: Final = ChatFormat("chatgpt", find_chatgpt, read_chatgpt)
