"""The interface of the reader of one format of chat exports."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Final

from backstory.ingest.chats.export import Export
from backstory.ingest.chats.items import Item
from backstory.ingest.chats.opened import Opened

_JSON_NAME: Final = re.compile(r".*\.json", re.IGNORECASE)


@dataclass(frozen=True)
class ChatFormat:
    """The reader of exports of one format, by its name in the table ``sources``.

    ``find`` returns the parts of an export that it reads, by names and content; none if the export has another format.
    ``read`` reads these parts: as a stream of items, each message, deletion and unread record of which counts as one
    record; or as a whole. It raises ``ReadError``, which names the setting that resolves an ambiguous export.
    """

    name: str
    find: Callable[[Opened], list[str]]
    read: Callable[[Opened, list[str]], Iterator[Item] | Export]


def make_json_format(
    name: str,
    marks: Collection[frozenset[str]],
    read_files: Callable[[Iterator[IO[bytes]]], Iterator[Item]],
    named: re.Pattern[str] = _JSON_NAME,
) -> ChatFormat:
    """Make the format of JSON files, each of which holds all paths of one of the marks near its beginning.

    A single file may have any name; those of an archive or a folder have the names of the format.
    """

    def find(opened: Opened) -> list[str]:
        return [
            part
            for part in opened.names
            if (opened.is_single or named.fullmatch(PurePosixPath(part).name))
            and any(mark <= opened.json_paths(part) for mark in marks)
        ]

    def open_each(opened: Opened, found: list[str]) -> Iterator[IO[bytes]]:
        for part in found:
            with opened.open(part) as file:
                yield file

    return ChatFormat(name, find, lambda opened, found: read_files(open_each(opened, found)))
