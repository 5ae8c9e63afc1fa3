"""The words of a Slack message: its text, its blocks, and what is attached to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from backstory.ingest.chats.json_stream import as_object, list_objects

_MARKUP: Final = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_ESCAPES: Final = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_SCHEME: Final = re.compile(r"^(?:mailto:|tel:|https?://)")
_TARGETS: Final = {
    "user": ("user_id", "@"),
    "channel": ("channel_id", "#"),
    "broadcast": ("range", "!"),
    "link": ("url", ""),
}
"""Field and sign of what a piece of a rich text points to."""

_NOTHING: Final = "This content can't be displayed."
"""The text that Slack gives a message whose words stand in its blocks alone."""


def read_markup(text: str, people: Mapping[str, str], channels: Mapping[str, str]) -> str:
    """Write the markup of a text as people see it.

    It returns the text with ``@name``, ``#channel`` and ``label (address)``; an id without a name stays after its
    sign.
    """

    def write(match: re.Match[str]) -> str:
        sign, target, label = match.groups()
        if sign == "@":
            return f"@{people.get(target) or label or target}"
        if sign == "#":
            return f"#{label or channels.get(target) or target}"
        if sign == "!":
            return label or f"@{target.partition('^')[0]}"
        plain = _SCHEME.sub("", target).rstrip("/")
        if not label or label.rstrip("/") in (target.rstrip("/"), plain):
            return plain if target.startswith(("mailto:", "tel:")) else target
        return f"{label} ({target})"

    written = _MARKUP.sub(write, text)
    for escape, character in _ESCAPES:
        written = written.replace(escape, character)
    return written


def read_words(record: Mapping[str, Any]) -> str:
    """Return what a message says, in the markup of Slack: its text, or its blocks, and the messages that it forwards.

    What a bot writes stands in headers and sections, of which the text is a summary. What is attached by a person is
    the preview of a link, unless it is another message.

    It raises ``ValueError`` if the text is not text.
    """
    text = record.get("text")
    if text and not isinstance(text, str):
        raise ValueError("the text is not text")
    blocks = list_objects(record.get("blocks"))
    attachments = list_objects(record.get("attachments"))
    if not text or text == _NOTHING or any(block.get("type") != "rich_text" for block in blocks):
        text = _join(map(_read_block, blocks)) or ("" if text == _NOTHING else text)
    shared = [part for part in attachments if not text or part.get("is_share") or part.get("is_msg_unfurl")]
    return _join([text or "", *map(_read_attachment, shared)])


def _join(lines: Iterable[str]) -> str:
    return "\n".join(filter(None, lines))


def _read_attachment(attachment: Mapping[str, Any]) -> str:
    """Return what is attached: its fields, its blocks, or the blocks of the message that it forwards."""
    said = [part for name in ("pretext", "title", "text") if isinstance(part := attachment.get(name), str)]
    said += [_read_pair(field) for field in list_objects(attachment.get("fields"))]
    blocks = list_objects(attachment.get("blocks"))
    for forwarded in list_objects(attachment.get("message_blocks")):
        blocks += list_objects(as_object(forwarded.get("message")).get("blocks"))
    if not any(said):
        said = [_read_block(block) for block in blocks]
    fallback = attachment.get("fallback")
    return _join(said) or (fallback if isinstance(fallback, str) else "")


def _read_pair(field: Mapping[str, Any]) -> str:
    return ": ".join(part for name in ("title", "value") if isinstance(part := field.get(name), str) and part)


def _read_block(block: Mapping[str, Any]) -> str:
    """Return the words of a block, a line for each of its parts."""
    if block.get("type") == "rich_text":
        return _join("".join(_read_rich(part)) for part in list_objects(block.get("elements")))
    if block.get("type") == "actions":  # names of buttons
        return ""
    rows = block.get("rows")
    if isinstance(rows, list):
        return _join(" | ".join(map(_read_block, list_objects(row))) for row in rows)
    words = [block.get("text"), block.get("title"), *list_objects(block.get("fields"))]
    return _join(map(_read_plain, [*words, *list_objects(block.get("elements"))]))


def _read_plain(value: Any) -> str:
    """Return a text, or that of an object with one."""
    text = value.get("text") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _read_rich(element: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pieces of a part of a rich text: a section, a list, a quote, or code."""
    kind, parts = str(element.get("type")), list_objects(element.get("elements"))
    if kind == "rich_text_list":
        indent = element.get("indent")
        begin = f"{'  ' * indent if isinstance(indent, int) else ''}- "
        yield "\n".join(begin + "".join(_read_rich(part)) for part in parts)
    elif parts:
        words = "".join(piece for part in parts for piece in _read_rich(part))
        yield f"&gt; {words}" if kind == "rich_text_quote" else words
    elif kind == "emoji":
        yield f":{element.get('name')}:"
    else:
        yield _read_leaf(kind, element)


def _read_leaf(kind: str, element: Mapping[str, Any]) -> str:
    """Write a piece in the markup of Slack's texts."""
    text = _read_plain(element)
    if kind in _TARGETS:
        name, sign = _TARGETS[kind]
        target = f"{sign}{element.get(name, '')}"
        return f"<{target}|{text}>" if text else f"<{target}>"
    escaped = text or str(element.get("fallback") or "")
    for escape, character in reversed(_ESCAPES):
        escaped = escaped.replace(character, escape)
    return escaped
