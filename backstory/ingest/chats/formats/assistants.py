"""Assistants: the ``conversations.json`` that users of ChatGPT and of Claude can export.

ChatGPT writes the messages of a conversation as a tree, Claude as a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, Any, Final, TypeAlias

from backstory.base.errors import InputError
from backstory.ingest.chats.export import Chat, ChatMessage, Item, name_chat, read_each
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import Record, stream_json

_CHATGPT_AUTHORS: Final = {"user": "ChatGPT user", "assistant": "ChatGPT assistant"}
_CLAUDE_AUTHORS: Final = {"human": "Claude user", "assistant": "Claude assistant"}
"""Names of the two who write. They are no ordinary words, which would be taken for names in the texts."""

_UNSHOWN: Final = frozenset(["user_editable_context", "model_editable_context"])
"""Types of what the model is told about its user in every conversation."""

_THOUGHTS: Final = frozenset(["thoughts", "reasoning_recap"])
_CITATION: Final = re.compile("\ue200[^\ue200\ue201]*\ue201")
"""Place of a source, in characters for private use."""

_ListMessages: TypeAlias = Callable[[Record], Sequence[Any]]
_ReadMessage: TypeAlias = Callable[..., Iterator[ChatMessage]]


def _read(
    files: Iterator[IO[bytes]], name: str, list_messages: _ListMessages, read_message: _ReadMessage
) -> Iterator[Item]:
    """Read all conversations."""

    def read_conversation(conversation: Record) -> Iterator[Item]:
        identifier = conversation.require("conversation_id", "id", "uuid")
        chat = Chat(f"{name}/{identifier}", name_chat(conversation.text("title", "name"), identifier))
        yield chat
        yield from read_each(list_messages(conversation), partial(read_message, chat=chat.key))

    for file in files:
        yield from read_each((value for _, value in stream_json(file, {"item"})), read_conversation)


def follow_branch(parents: Mapping[str, str | None], leaf: str) -> list[str]:
    """List the messages of a branch from its root to its leaf.

    It raises ``InputError`` if the messages form a ring.
    """
    branch: dict[str, None] = {}
    at: str | None = leaf
    while at is not None and at in parents:
        if at in branch:
            raise InputError("the messages of the conversation form a ring", code="ring")
        branch[at] = None
        at = parents[at]
    return [*branch][::-1]


def _list_chatgpt_messages(conversation: Record) -> list[Record]:
    """List the messages of the branch that is shown, each with a time: one without any follows the last one at once.

    It raises ``ValueError`` if the export does not say which branch that is.
    """
    mapping, leaf = conversation.object("mapping"), conversation.text("current_node")
    nodes = {key: node for key, node in mapping.items() if isinstance(node, Record)}
    if leaf is None or leaf not in nodes:
        raise ValueError("the conversation does not name its last message (current_node)")
    messages: list[Record] = []
    latest = conversation.get("create_time")
    for key in follow_branch({key: node.text("parent") for key, node in nodes.items()}, leaf):
        if message := nodes[key].object("message"):
            latest = latest if message.get("create_time") is None else message["create_time"]
            message["create_time"] = latest
            messages.append(message)
    return messages


def _read_chatgpt_message(record: Record, chat: str) -> Iterator[ChatMessage]:
    """Read a message, unless it is not shown: instructions, hidden context, an answer without content."""
    role, kind = record.text("author/role"), record.text("content/content_type")
    key, recipient = record.require("id"), record.text("recipient") or "all"
    is_hidden = record.find("metadata/is_visually_hidden_from_conversation") is True
    if role == "system" or is_hidden or kind in _UNSHOWN:
        return
    sent = read_timestamp(record["create_time"])
    if role == "tool" or recipient != "all" or kind in _THOUGHTS:
        tool = record.text("author/name") if role == "tool" else recipient
        done = "thoughts" if kind in _THOUGHTS else f"tool {tool or ''}".strip()
        yield ChatMessage(sent, None, done, "system", chat=chat, key=key)
        return
    text, parts = _read_chatgpt_text(record), record.objects("content/parts")
    # Pictures and other files are parts without a text.
    has_files = bool(record.objects("metadata/attachments")) or not all(part.text("text") for part in parts)
    if text or has_files:
        author, kind = _CHATGPT_AUTHORS.get(role or ""), "media" if has_files else "message"
        yield ChatMessage(sent, author, text or None, kind, chat=chat, key=key)


def _read_chatgpt_text(record: Record) -> str:
    """Return what was written, or said and transcribed."""
    content = record.object("content")
    parts = content.get("parts")
    said = [content, *(parts if isinstance(parts, list) else [])]
    texts = (part.content("text") if isinstance(part, Record) else part for part in said)
    shown = (_CITATION.sub("", text).strip() for text in texts if isinstance(text, str))
    return "\n".join(filter(None, shown))


def _list_claude_messages(conversation: Record) -> list[Any]:
    """List the messages of the branch that is shown; all of them if the export does not say which that is."""
    listed = conversation.get("chat_messages")
    messages = listed if isinstance(listed, list) else []
    leaf = conversation.text("current_leaf_message_uuid")
    objects = conversation.objects("chat_messages")
    known = {key: message for message in objects if (key := message.text("uuid"))}
    if leaf is None or leaf not in known:
        return messages
    parents = {key: message.text("parent_message_uuid") for key, message in known.items()}
    return [known[key] for key in follow_branch(parents, leaf)]


def _read_claude_message(record: Record, chat: str) -> Iterator[ChatMessage]:
    # Thoughts, and calls of tools with their results, are parts of other types.
    parts = record.objects("content")
    said = [part.content("text") for part in parts if part.get("type") == "text"]
    text = "\n".join(filter(str.strip, said)) if parts else record.content("text").strip()
    has_files = any(record.objects(field) for field in ("attachments", "files", "files_v2"))
    kind = "media" if has_files else "message" if text else "system"
    author = None if kind == "system" else _CLAUDE_AUTHORS.get(record.require("sender"))
    sent, key = read_timestamp(record.get("created_at")), record.require("uuid")
    yield ChatMessage(sent, author, text or None, kind, chat=chat, key=key)


CHATGPT: Final = make_json_format(
    "chatgpt",
    (frozenset(["item.title", "item.create_time", "item.mapping"]),),
    partial(_read, name="chatgpt", list_messages=_list_chatgpt_messages, read_message=_read_chatgpt_message),
    re.compile(r"conversations(?:-\d+)?\.json"),
)
CLAUDE: Final = make_json_format(
    "claude",
    (
        frozenset(["item.uuid", "item.chat_messages.item.uuid"]),
        frozenset(["item.uuid", "item.name", "item.account.uuid"]),
    ),
    partial(_read, name="claude", list_messages=_list_claude_messages, read_message=_read_claude_message),
    re.compile(r"conversations\.json"),
)
