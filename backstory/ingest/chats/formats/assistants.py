"""Assistants: the ``conversations.json`` that users of ChatGPT and of Claude can export.

ChatGPT writes the messages of a conversation as a tree, Claude as a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, Any, Final

from backstory.ingest.chats.export import Chat, ChatMessage, Item, Wordless, name_chat, read_each
from backstory.ingest.chats.export_files import make_json_format
from backstory.ingest.chats.formats.tables import read_timestamp
from backstory.ingest.chats.json_stream import Record, stream_json

_CHATGPT_AUTHORS: Final = {"user": "ChatGPT user", "assistant": "ChatGPT assistant"}
_CLAUDE_AUTHORS: Final = {"human": "Claude user", "assistant": "Claude assistant"}
"""Names of the two who write. They are no ordinary words, which would be taken for names in the texts."""

_UNSHOWN: Final = frozenset(["user_editable_context", "model_editable_context"])
"""Types of what the model is told about its user in every conversation."""

_CITATION: Final = re.compile("\ue200[^\ue200\ue201]*\ue201")
"""Place of a source, in characters for private use."""


def _read(
    files: Iterator[IO[bytes]],
    name: str,
    list_messages: Callable[[Record], Sequence[Any]],
    read_message: Callable[..., Iterator[Item]],
) -> Iterator[Item]:
    """Read all conversations."""

    def read_conversation(conversation: Record) -> Iterator[Item]:
        identifier = conversation.require("conversation_id", "id", "uuid")
        chat = Chat(f"{name}/{identifier}", name_chat(conversation.text("title", "name"), identifier))
        yield chat
        yield from read_each(list_messages(conversation), partial(read_message, chat=chat.key))

    for file in files:
        yield from read_each((value for _, value in stream_json(file, {"item"})), read_conversation)


def _list_chatgpt_messages(conversation: Record) -> list[Record]:
    """List the messages of the branch that is shown, each with a time: one without any follows the last one at once."""
    nodes, at = conversation.object("mapping"), conversation.text("current_node")
    if at not in nodes:
        raise ValueError("the conversation does not name its last message (current_node)")
    branch: dict[str, Record] = {}
    while at is not None and at in nodes and at not in branch:
        branch[at] = nodes.object(at)
        at = branch[at].text("parent")
    if at in branch:
        raise ValueError("the messages of the conversation form a ring")
    messages: list[Record] = []
    latest = conversation.get("create_time")
    for node in reversed(branch.values()):
        if message := node.object("message"):
            latest = latest if message.get("create_time") is None else message["create_time"]
            message["create_time"] = latest
            messages.append(message)
    return messages


def _read_chatgpt_message(record: Record, chat: str) -> Iterator[Item]:
    """Read a message, unless it is not shown: instructions, hidden context, a call of a tool and its result."""
    role, kind = record.text("author/role"), record.text("content/content_type")
    key, recipient = record.require("id"), record.text("recipient") or "all"
    is_hidden = record.find("metadata/is_visually_hidden_from_conversation") is True
    if role == "system" or is_hidden or kind in _UNSHOWN:
        return
    if role == "tool" or recipient != "all":
        yield Wordless("tool")
        return
    text, parts = _read_chatgpt_text(record), record.objects("content/parts")
    # Pictures and other files are parts without a text.
    has_files = bool(record.objects("metadata/attachments")) or not all(part.text("text") for part in parts)
    sent, author = read_timestamp(record["create_time"]), _CHATGPT_AUTHORS.get(role or "")
    said = "media" if has_files else "message"
    yield ChatMessage(sent, author, text, said, chat=chat, key=key, type=kind or said)


def _read_chatgpt_text(record: Record) -> str:
    """Return what was written, or said and transcribed."""
    content = record.object("content")
    parts = content.get("parts")
    said = [content, *(parts if isinstance(parts, list) else [])]
    texts = (part.content("text") if isinstance(part, Record) else part for part in said)
    shown = (_CITATION.sub("", text).strip() for text in texts if isinstance(text, str))
    return "\n".join(filter(None, shown))


def _list_claude_messages(conversation: Record) -> list[Any]:
    listed = conversation.get("chat_messages")
    return listed if isinstance(listed, list) else []


def _read_claude_message(record: Record, chat: str) -> Iterator[Item]:
    # Thoughts, and calls of tools with their results, are parts of other types.
    parts = record.objects("content")
    said = [part.content("text") for part in parts if part.get("type") == "text"]
    text = "\n".join(filter(str.strip, said)) if parts else record.content("text").strip()
    has_files = any(record.objects(field) for field in ("attachments", "files", "files_v2"))
    sent, author = read_timestamp(record.get("created_at")), _CLAUDE_AUTHORS.get(record.require("sender"))
    key, kind = record.require("uuid"), "media" if has_files else "message"
    yield ChatMessage(sent, author, text, kind, chat=chat, key=key, type=kind)


CHATGPT: Final = make_json_format(
    "chatgpt",
    ["item.title item.create_time item.mapping"],
    partial(_read, name="chatgpt", list_messages=_list_chatgpt_messages, read_message=_read_chatgpt_message),
    re.compile(r"conversations(?:-\d+)?\.json"),
)
CLAUDE: Final = make_json_format(
    "claude",
    ["item.uuid item.chat_messages.item.uuid", "item.uuid item.name item.account.uuid"],
    partial(_read, name="claude", list_messages=_list_claude_messages, read_message=_read_claude_message),
    re.compile(r"conversations\.json"),
)
