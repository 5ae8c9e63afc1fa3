"""The file of a post: Markdown with front matter that says what it was made from, and whether a person edited it."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import regex

from backstory.base.files.atomic import write_file
from backstory.base.ids import digest
from backstory.text.words import PLAIN_LETTERS

FileState: TypeAlias = Literal["absent", "ours", "edited"]

_CHECKSUM: Final = re.compile(rb"^checksum: ([0-9a-f]{64})\n", re.MULTILINE)
_WINDOW: Final = re.compile(rb'^window: "([^"\n]*)"\n', re.MULTILINE)
_UNSAFE: Final = re.compile(r"[\W_]+")
_ACCENTED: Final = regex.compile(r"(\p{Latin})\p{Mn}+")
_ID_CHARACTERS: Final = 8
_NAME_BYTES: Final = 180
"""Most bytes of the conversation in a slug: file systems allow 255 in a name."""


@dataclass(frozen=True)
class Post:
    """A finished post.

    Attributes:
        window_id: Its window.
        conversation_id: Conversation of the window.
        slug: Its slug.
        title: Title, one line.
        published_at: End of the window, in the time zone of its conversation.
        tags: Tags.
        text: Markdown without front matter.
        writer: Writer and its version.
    """

    window_id: str
    conversation_id: str
    slug: str
    title: str
    published_at: datetime
    tags: Sequence[str]
    text: str
    writer: str


def make_slug(conversation_id: str, window_id: str, started_at: datetime) -> str:
    """Make the slug of a window's post from its day, its conversation and its id, so that it never changes.

    Latin letters are written without accents; letters of other scripts stay.
    """
    spelled = "".join(PLAIN_LETTERS.get(letter, letter) for letter in conversation_id.casefold())
    plain = _ACCENTED.sub(r"\1", unicodedata.normalize("NFKD", spelled))
    named = _UNSAFE.sub("-", unicodedata.normalize("NFC", plain)).encode()[:_NAME_BYTES]
    conversation = named.decode(errors="ignore").strip("-")
    return "-".join(
        part for part in (f"{started_at:%Y-%m-%d}", conversation, window_id[:_ID_CHARACTERS]) if part
    )


def name_letter(conversation_id: str, grain: str, key: str) -> str:
    """Make the slug of the letter of a period, which is the same whatever windows the period has.

    Args:
        conversation_id: Its conversation.
        grain: ``day``, ``week`` or ``month``.
        key: First day of the period, such as ``2025-03-03``.
    """
    return make_slug(conversation_id, digest([conversation_id, grain, key]), datetime.fromisoformat(key))


def read_window_id(path: Path) -> str | None:
    """Read the id of the window that a file of a post states; None if it states none."""
    try:
        stated = _WINDOW.search(path.read_bytes())
    except FileNotFoundError:
        return None
    return stated[1].decode() if stated else None


def render_post(post: Post) -> bytes:
    """Write a post as a file. The checksum in the front matter is that of the file without the line of the checksum."""
    fields = {
        "title": post.title,
        "slug": post.slug,
        "date": post.published_at.isoformat(),
        "tags": list(post.tags),
        "kind": "post",
        "window": post.window_id,
        "conversation": post.conversation_id,
        "writer": post.writer,
    }
    return write_sealed(fields, f"\n{post.text.strip()}\n")


def write_sealed(fields: Mapping[str, Any], text: str) -> bytes:
    """Write a file of front matter and text with the checksum of both, by which :func:`inspect_file` knows it."""
    # JSON is YAML, and escapes whatever a value holds.
    head = "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())
    body = f"---\n{text}"
    checksum = hashlib.sha256(f"---\n{head}{body}".encode()).hexdigest()
    return f"---\n{head}checksum: {checksum}\n{body}".encode()


def inspect_file(path: Path) -> FileState:
    """Return whether a file of a post is absent, as it was written, or edited by a person."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return "absent"
    stated = _CHECKSUM.search(content)
    if stated is None:
        return "edited"
    rest = content[: stated.start()] + content[stated.end() :]
    return "ours" if hashlib.sha256(rest).hexdigest().encode() == stated[1] else "edited"


def _stated_checksum(content: bytes) -> bytes | None:
    stated = _CHECKSUM.search(content)
    return stated[1] if stated else None


def place_post(path: Path, post: Post) -> bool:
    """Write the file of a post, or, if a person has edited it, the draft beside it.

    Returns:
        Whether the file holds the post; False if the draft lies beside it, at :func:`draft_path`.
    """
    content = render_post(post)
    if inspect_file(path) != "edited":
        _replace(path, content)
        draft_path(path).unlink(missing_ok=True)
        return True
    if _stated_checksum(path.read_bytes()) == _stated_checksum(content):  # this very draft was edited
        draft_path(path).unlink(missing_ok=True)
    else:
        _replace(draft_path(path), content)
    return False


def remove_post(path: Path) -> bool:
    """Remove the file of a post, unless a person has edited it, and the draft beside it in any case.

    Returns:
        Whether the file is gone.
    """
    draft_path(path).unlink(missing_ok=True)
    if inspect_file(path) == "edited":
        return False
    path.unlink(missing_ok=True)
    return True


def hash_file(path: Path) -> str:
    """Hash the file of a post; empty if there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


def draft_path(path: Path) -> Path:
    """Return the file of the draft beside a post that a person has edited."""
    return path.with_name(f"{path.stem}.draft{path.suffix}")


def _replace(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    write_file(path, content)
