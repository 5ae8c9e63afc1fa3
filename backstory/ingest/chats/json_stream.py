"""JSON of any size as a stream: the values around lists of records, and one record after another."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import IO, Any, Final

import ijson

from backstory.base.errors import ReadError
from backstory.ingest.zips import DAMAGED

OPENED: Final = object()
"""Stands for an object whose content follows."""

_MOST_DEPTH: Final = 64
_BROKEN: Final = (
    f"the JSON breaks off or is damaged here, or has more than {_MOST_DEPTH} levels; export the chat again"
)
_BUFFER_BYTES: Final = 1 << 16
_ASKED: Final = frozenset(["question", "title", "text", "options"])
_BEGINNINGS: Final = ("start_map", "start_array")


class BrokenJsonError(ReadError):
    """A file is not JSON from some place on; everything before it was yielded."""


class Record(dict[str, Any]):
    """An object of JSON, whose values are found by paths: keys that are joined by slashes."""

    __slots__ = ()

    def find(self, path: str) -> Any:
        """Return the value at a path; None if there is none."""
        if "/" not in path:
            return self.get(path)
        value: Any = self
        for key in path.split("/"):
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def object(self, path: str) -> Record:
        """Return the object at a path; an empty one if there is none."""
        value = self.find(path)
        return value if isinstance(value, Record) else Record()

    def objects(self, path: str) -> list[Record]:
        """List the objects of the list at a path; none if there is no list."""
        value = self.find(path)
        return [part for part in value if isinstance(part, Record)] if isinstance(value, list) else []

    def text(self, *paths: str) -> str | None:
        """Return the first text at the paths that is not blank."""
        for path in paths:
            value = self.find(path)
            if isinstance(value, str) and value and not value.isspace():
                return value
        return None

    def require(self, *paths: str) -> str:
        """Return the first text at the paths that is not blank; raise ``ValueError`` if there is none."""
        text = self.text(*paths)
        if text is None:
            raise ValueError(f"the record has no {paths[0]}")
        return text

    def content(self, path: str) -> str:
        """Return the text at a path; an empty one if there is none. Any other value is a ``ValueError``."""
        text = self.find(path)
        if text is not None and not isinstance(text, str):
            raise ValueError("the text is not text")
        return text or ""

    def reactions(
        self, name: Callable[[Record], str | None], path: str = "reactions"
    ) -> tuple[tuple[str, int], ...]:
        """List the emoji, as ``name`` gives them, and the counts of the reactions at a path."""
        found = ((name(reaction), reaction.get("count")) for reaction in self.objects(path))
        return tuple((emoji, count) for emoji, count in found if emoji and isinstance(count, int))

    def poll(self, path: str) -> str:
        """Return the question of a poll, or the title of a list, and a line for each of its answers."""
        return "\n- ".join(_find_asked(self.find(path), ""))


def _find_asked(value: Any, name: str) -> Iterator[str]:
    """Yield the texts of questions and answers, wherever they stand."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _find_asked(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _find_asked(part, name)
    elif isinstance(value, str) and name in _ASKED:
        yield value


def stream_json(file: IO[bytes], records: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """Read JSON without holding more than one record.

    A path joins the keys that lead to a value with dots; ``item`` stands for any place in a list. So ``messages.item``
    is each element of the list under the key ``messages``.

    It yields path and value of each record, of each number, text, truth value or null outside them, and
    :data:`OPENED` at the beginning of each object outside them. It raises ``BrokenJsonError`` if the file is no JSON,
    breaks off, or is nested too deeply.
    """
    if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
        file.seek(0)
    # Without use_float, a number of 5,000 digits crashes the parser of ijson 3.6.0; no chat has one above 64 bits.
    events = ijson.basic_parse(file, buf_size=_BUFFER_BYTES, use_float=True)
    keys: list[str] = []
    try:
        for event, value in events:
            if event == "map_key":
                keys[-1] = value
                continue
            if event in ("end_map", "end_array"):
                keys.pop()
                continue
            path = ".".join(keys)
            if path in records:
                yield path, _build(events, event, value)
            elif event in _BEGINNINGS:
                if len(keys) == _MOST_DEPTH:
                    raise ValueError
                keys.append("item")
                if event == "start_map":
                    yield path, OPENED
            else:
                yield path, value
    except (ijson.JSONError, *DAMAGED, ArithmeticError) as error:
        raise BrokenJsonError(_BROKEN) from error


def find_paths(head: bytes) -> frozenset[str]:
    """Return the paths of all values in the beginning of a JSON file; none for any other file."""
    if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] not in (b"{", b"["):
        return frozenset()
    paths = set[str]()
    with suppress(BrokenJsonError):  # the head ends in the middle of a value
        paths.update(sys.intern(path) for path, _ in stream_json(io.BytesIO(head)))
    return frozenset(paths)


def _build(events: Iterator[tuple[str, Any]], event: str, value: Any, depth: int = 0) -> Any:
    """Build the value that begins with an event from it and the following ones."""
    if event not in _BEGINNINGS:
        return value
    if depth == _MOST_DEPTH:
        raise ValueError
    if event == "start_array":
        listed = []
        for event, value in events:
            if event == "end_array":
                break
            listed.append(_build(events, event, value, depth + 1) if event in _BEGINNINGS else value)
        return listed
    built = Record()
    for event, key in events:
        if event == "end_map":
            break
        event, value = next(events)
        built[key] = _build(events, event, value, depth + 1) if event in _BEGINNINGS else value
    return built
