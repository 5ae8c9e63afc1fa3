"""The input of a peer: documents, windows, and the vector of every text that it looks up.

The files are plain and need only the standard library and numpy, since a peer's environment has nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNDATED = 0


class UnknownTextError(LookupError):
    """A peer asked for the vector of a text that was not embedded for it.

    Attributes:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        super().__init__(
            f"no vector was prepared for this text of {len(text)} characters: {text[:80]!r}; "
            "the peer must split texts alike in its `split` step and in its `search` step"
        )
        self.text = text


@dataclass(frozen=True)
class Document:
    """A document of the set.

    Attributes:
        doc_id: Id in the labels.
        title: May be empty.
        text: Without the title.
        published_at: Microseconds since 1970; :data:`UNDATED` precedes every window.
    """

    doc_id: str
    title: str
    text: str
    published_at: int


@dataclass(frozen=True)
class Window:
    """A window to find documents for.

    Attributes:
        window_id: Id in the labels.
        started_at: Microseconds since 1970; later documents are hidden from the window.
        text: Texts of the messages, cut to the embedder's limit.
        transcript: Texts of all messages, without authors and times, which would mislead keyword search.
        query_chunks: The texts of Backstory's query chunks.
    """

    window_id: str
    started_at: int
    text: str
    transcript: str
    query_chunks: list[str]


class VectorTable:
    """Vectors by text. A text that is not in the table is an error; no vector is ever computed."""

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Index vectors by their texts.

        Args:
            texts: Distinct texts, in the order of the vectors.
            vectors: Shape ``(len(texts), dimension)``.
        """
        self.vectors = vectors
        self._rows = {text: row for row, text in enumerate(texts)}

    @property
    def texts(self) -> list[str]:
        """All texts, in the order of the vectors."""
        return list(self._rows)

    def look_up(self, text: str) -> list[float]:
        """Give the vector of a text.

        Raises:
            UnknownTextError: The text was not embedded.
        """
        row = self._rows.get(text)
        if row is None:
            raise UnknownTextError(text)
        vector: list[float] = self.vectors[row].tolist()
        return vector

    def write(self, folder: Path) -> None:
        """Write the table to a folder, which is made if absent."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "vectors.npy", self.vectors)
        write_texts(folder / "texts.json", self.texts)

    @classmethod
    def read(cls, folder: Path) -> VectorTable:
        """Read what :meth:`write` wrote."""
        return cls(read_texts(folder / "texts.json"), np.load(folder / "vectors.npy"))


def write_texts(path: Path, texts: Sequence[str]) -> None:
    """Write a list of texts."""
    path.write_text(json.dumps(texts), encoding="utf-8")


def read_texts(path: Path) -> list[str]:
    """Read what :func:`write_texts` wrote."""
    texts: list[str] = json.loads(path.read_text(encoding="utf-8"))
    return texts


def write_job(folder: Path, documents: Iterable[Document], windows: Iterable[Window]) -> None:
    """Write documents and windows to a folder, which is made if absent."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / "documents.jsonl", map(asdict, documents))
    _write_lines(folder / "windows.jsonl", map(asdict, windows))


def read_documents(folder: Path) -> list[Document]:
    """Read the documents of a job, in the order in which they were written."""
    return [Document(**row) for row in _read_lines(folder / "documents.jsonl")]


def read_windows(folder: Path) -> list[Window]:
    """Read the windows of a job, in the order in which they were written."""
    return [Window(**row) for row in _read_lines(folder / "windows.jsonl")]


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
