"""The chunkers by name: how a text is cut, its sizes, and what stands as heading above its chunks.

The ceiling of the embedder holds for every chunker. A chunker is a function of texts; whether it is given the pages of
a document one by one is up to its row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from backstory.base.ids import digest
from backstory.settings.inputs import ChunkerName, ChunkSettings
from backstory.text.chunking.characters import cut_characters
from backstory.text.chunking.code import CODE_LANGUAGES, cut_code_in
from backstory.text.chunking.cut import Cut, Span, cut_chunks
from backstory.text.chunking.outline import outline_markdown, outline_sentences
from backstory.text.chunking.python_code import cut_python
from backstory.text.chunking.rows import cut_rows
from backstory.text.chunking.sections import cut_sections
from backstory.text.chunking.tokens import CountTokens


@dataclass(frozen=True)
class Chunker:
    """A chunker with its sizes.

    Attributes:
        name: Its name in the settings and in the ids of its chunks.
        cut: Cuts texts.
        max_tokens: The ceiling of its chunks, title and headings included.
        overlap_tokens: Most tokens that a chunk repeats.
        keeps_pages_apart: Whether no chunk may hold text of two pages.
        list_headings: Lists the headings of a text that may stand above its chunks, as far as they are known before it
            is cut.
        has_whole_headings: Whether a heading loses its use when it is shortened.
        fingerprint: Hash of everything that decides its chunks besides texts and tokenizer.
    """

    name: ChunkerName
    cut: Cut
    max_tokens: int
    overlap_tokens: int
    keeps_pages_apart: bool
    list_headings: Callable[[str], Sequence[str]]
    has_whole_headings: bool
    fingerprint: str


@dataclass(frozen=True)
class _Row:
    """How a chunker is made of the settings.

    Attributes:
        make: Gives its function.
        size: Gives the most tokens of a chunk and of what it repeats.
        keeps_pages_apart: As in :class:`Chunker`.
        list_headings: As in :class:`Chunker`.
        has_whole_headings: As in :class:`Chunker`.
        revision: Increase it when the chunker cuts in another way.
    """

    make: Callable[[ChunkSettings], Cut]
    size: Callable[[ChunkSettings], tuple[int, int]]
    keeps_pages_apart: bool = False
    list_headings: Callable[[str], Sequence[str]] = lambda text: outline_markdown(text).heading_paths()
    has_whole_headings: bool = False
    revision: int = 1


def choose_chunker(name: ChunkerName, settings: ChunkSettings, *, max_tokens: int) -> Chunker:
    """Make a chunker of its name."""
    row = CHUNKERS[name]
    wanted, repeated = row.size(settings)
    ceiling = min(wanted, max_tokens)
    overlap = min(repeated, ceiling - 1)
    sizes = [ceiling, overlap]
    if name == "character":
        sizes += [settings.max_characters, settings.overlap_characters]
    return Chunker(
        name=name,
        cut=row.make(settings),
        max_tokens=ceiling,
        overlap_tokens=overlap,
        keeps_pages_apart=row.keeps_pages_apart,
        list_headings=row.list_headings,
        has_whole_headings=row.has_whole_headings,
        fingerprint=digest([name, str(row.revision), *map(str, sizes)]),
    )


def _cut_sentences(
    texts: Sequence[str], *, max_tokens: Sequence[int], overlap_tokens: int, count_tokens: CountTokens
) -> list[list[Span]]:
    return cut_chunks(
        texts,
        max_tokens=max_tokens,
        overlap_tokens=overlap_tokens,
        count_tokens=count_tokens,
        outline=outline_sentences,
    )


def _cut_characters(settings: ChunkSettings) -> Cut:
    def cut(
        texts: Sequence[str], *, max_tokens: Sequence[int], overlap_tokens: int, count_tokens: CountTokens
    ) -> list[list[Span]]:
        return cut_characters(
            texts,
            max_characters=settings.max_characters,
            overlap_characters=settings.overlap_characters,
            max_tokens=max_tokens,
            overlap_tokens=overlap_tokens,
            count_tokens=count_tokens,
        )

    return cut


def _row_for_code(cut: Cut) -> _Row:
    """Make a row without headings known before: the definitions are found when a text is cut."""
    return _Row(lambda _: cut, _whole, list_headings=lambda _: ())


def _whole(settings: ChunkSettings) -> tuple[int, int]:
    return settings.max_tokens, settings.overlap_tokens


def _sentence(settings: ChunkSettings) -> tuple[int, int]:
    return settings.sentence_max_tokens, settings.sentence_overlap_tokens


CHUNKERS: Final[Mapping[ChunkerName, _Row]] = MappingProxyType(
    {
        "markdown": _Row(lambda _: cut_sections, _whole, revision=2),
        "sentence": _Row(lambda _: _cut_sentences, _sentence),
        "character": _Row(_cut_characters, _whole),
        "page": _Row(lambda _: cut_sections, _whole, keeps_pages_apart=True, revision=2),
        "rows": _Row(
            lambda _: cut_rows,
            _sentence,  # of few rows in a chunk each is found much better than of many
            keeps_pages_apart=True,
            list_headings=lambda text: [text.partition("\n")[0].strip()],
            has_whole_headings=True,
        ),
        "python": _row_for_code(cut_python),
        **{language: _row_for_code(cut_code_in(language)) for language in CODE_LANGUAGES},
    }
)
"""The rows of the chunkers by name."""
