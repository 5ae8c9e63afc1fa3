"""Assistants: the ``conversations.json`` that users of ChatGPT and of Claude can export.

ChatGPT writes the messages of a conversation as a tree, Claude as a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from backstory.base.errors import InputError
from backstory.ingest.chats.chat_format import ChatFormat, find_marked
from backstory.ingest.chats.formats.table_values import read_timestamp
from backstory.ingest.chats.items import Chat, ChatMessage, Item, Unread, name_chat, read_each
from backstory.ingest.chats.json_stream import (
    as_object,
    first_text,
    list_objects,
    read_content,
    stream_records,
)
from backstory.ingest.chats.opened import Opened

_RECORDS: Final = "item"
_CHATGPT_AUTHORS: Final = {"user": "ChatGPT user", "assistant": "ChatGPT assistant"}
_CLAUDE_AUTHORS: Final = {"human": "Claude user", "assistant": "Claude assistant"}
"""Names of the two who write. They are no ordinary words, which would be taken for names in the texts."""

_UNSHOWN: Final = frozenset(["user_editable_context", "model_editable_context"])
"""Types of what the model is told about its user in every conversation."""

_THOUGHTS: Final = frozenset(["thoughts", "reasoning_recap"])
_CITATION: Final = re.compile("\ue200[^\ue200\ue201]*\ue201")
"""Place of a source, in characters for private use."""


@dataclass(frozen=True)
class _Assistant:
    """How one assistant writes a conversation.

    Attributes:
        name: Its name in the keys of chats.
        ids: Fields of which the first one with a text is the id of a conversation.
        title: Field of the title.
        list_messages: Lists the messages of a conversation, or raises ``ValueError``.
        read_message: Reads a message of the chat with a key; None for one that is not shown.
    """

    name: str
    ids: tuple[str, ...]
    title: str
    list_messages: Callable[[Mapping[str, Any]], Sequence[Any]]
    read_message: Callable[[Mapping[str, Any], str], ChatMessage | None]

    def read(self, opened: Opened, found: list[str]) -> Iterator[Item]:
        """Read all conversations."""
        for name in found:
            with opened.open(name) as file:
                for value in stream_records(file, _RECORDS):
                    yield from self._read_conversation(as_object(value))

    def _read_conversation(self, conversation: Mapping[str, Any]) -> Iterator[Item]:
        identifier = first_text(*map(conversation.get, self.ids))
        if identifier is None:
            yield Unread("the conversation has no id")
            return
        title = first_text(conversation.get(self.title))
        chat = Chat(f"{self.name}/{identifier}", name_chat(title, identifier))
        yield chat
        try:
            messages = self.list_messages(conversation)
        except ValueError as error:
            yield Unread(str(error))
            return
        yield from read_each(messages, lambda record: self.read_message(record, chat.key))


def follow_branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """List the messages of a branch from its root to its leaf.

    It raises ``InputError`` if the messages form a ring.
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


def _list_chatgpt_messages(conversation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the messages of the branch that is shown, each with a time: one without any follows the last one at once.

    It raises ``ValueError`` if the export does not say which branch that is.
    """
    nodes = {key: as_object(node) for key, node in as_object(conversation.get("mapping")).items()}
    leaf = first_text(conversation.get("current_node"))
    if leaf not in nodes:
        raise ValueError("the conversation does not name its last message (current_node)")
    parents = {key: first_text(node.get("parent")) for key, node in nodes.items()}
    messages: list[Mapping[str, Any]] = []
    latest = conversation.get("create_time")
    for key in follow_branch(parents, leaf):
        if message := as_object(nodes[key].get("message")):
            latest = latest if message.get("create_time") is None else message["create_time"]
            messages.append({**message, "create_time": latest})
    return messages


def _read_chatgpt_message(record: Mapping[str, Any], chat: str) -> ChatMessage | None:
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
        return ChatMessage(read_timestamp(record["create_time"]), None, done, "system", chat=chat, key=key)
    if role not in _CHATGPT_AUTHORS:
        raise ValueError("the author is neither user, assistant, tool nor system")
    text = _read_chatgpt_text(content)
    has_files = bool(_list_files(content) or list_objects(about.get("attachments")))
    if not text and not has_files:
        return None
    return ChatMessage(
        sent=read_timestamp(record["create_time"]),
        author=_CHATGPT_AUTHORS[role],
        text=text or None,
        kind="media" if has_files else "message",
        chat=chat,
        key=key,
    )


def _read_chatgpt_text(content: Mapping[str, Any]) -> str:
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


def _list_claude_messages(conversation: Mapping[str, Any]) -> list[Any]:
    """List the messages of the branch that is shown; all of them if the export does not say which that is."""
    listed = conversation.get("chat_messages")
    messages = listed if isinstance(listed, list) else []
    leaf = first_text(conversation.get("current_leaf_message_uuid"))
    known = {key: message for message in list_objects(messages) if (key := first_text(message.get("uuid")))}
    if leaf not in known:
        return messages
    parents = {key: first_text(message.get("parent_message_uuid")) for key, message in known.items()}
    return [known[key] for key in follow_branch(parents, leaf)]


def _read_claude_message(record: Mapping[str, Any], chat: str) -> ChatMessage:
    key, sender = first_text(record.get("uuid")), first_text(record.get("sender"))
    if key is None:
        raise ValueError("the message has no id")
    if sender not in _CLAUDE_AUTHORS:
        raise ValueError("the sender is neither human nor assistant")
    text = _read_claude_text(record)
    has_files = any(list_objects(record.get(field)) for field in ("attachments", "files", "files_v2"))
    kind = "media" if has_files else "message" if text else "system"
    return ChatMessage(
        sent=read_timestamp(record.get("created_at")),
        author=None if kind == "system" else _CLAUDE_AUTHORS[sender],
        text=text or None,
        kind=kind,
        chat=chat,
        key=key,
    )


def _read_claude_text(record: Mapping[str, Any]) -> str:
    """Return what was said, without thoughts and without calls of tools and their results."""
    parts = list_objects(record.get("content"))
    if parts:
        said = (read_content(part, "text") for part in parts if part.get("type") == "text")
        return "\n".join(filter(str.strip, said))
    return read_content(record, "text").strip()


_CHATGPT_ASSISTANT: Final = _Assistant(
    "chatgpt", ("conversation_id", "id"), "title", _list_chatgpt_messages, _read_chatgpt_message
)
_CLAUDE_ASSISTANT: Final = _Assistant(
    "claude", ("uuid",), "name", _list_claude_messages, _read_claude_message
)

CHATGPT: Final = ChatFormat(
    "chatgpt",
    partial(
        find_marked,
        marks=(frozenset(["item.title", "item.create_time", "item.mapping"]),),
        named=re.compile(r"conversations(?:-\d+)?\.json"),
    ),
    _CHATGPT_ASSISTANT.read,
)
CLAUDE: Final = ChatFormat(
    "claude",
    partial(
        find_marked,
        marks=(
            frozenset(["item.uuid", "item.chat_messages.item.uuid"]),
            frozenset(["item.uuid", "item.name", "item.account.uuid"]),
        ),
        named=re.compile(r"conversations\.json"),
    ),
    _CLAUDE_ASSISTANT.read,
)
