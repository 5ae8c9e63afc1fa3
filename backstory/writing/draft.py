"""The draft that a writer returns, and the interface of writers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from backstory.writing.material import ContextMaterial, WindowMaterial

MOST_TITLE_CHARACTERS: Final = 200
MOST_TAG_CHARACTERS: Final = 60


@dataclass(frozen=True)
class Draft:
    """The text that a writer made of a window, before any check.

    Attributes:
        title: Title, one line.
        text: Markdown without the title. ``[2]`` cites the document with that number.
        tags: Tags.
        model: Model that wrote it; None for a writer without a model.
        tokens_in: Tokens that the model read.
        tokens_out: Tokens that the model wrote.
        withheld: Why there is no text, such as ``refused: ...`` or ``blocked (SAFETY)``; None if there is one.
    """

    title: str
    text: str
    tags: tuple[str, ...] = ()
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    withheld: str | None = None


class Writer(Protocol):
    """Writes the draft of a post.

    Attributes:
        id: Name and version; a change of it writes every post again.
        prompt_hash: Hash of the prompt; for a writer without one, of its version.
    """

    @property
    def id(self) -> str:
        """Name and version; a change of it writes every post again."""

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompt; for a writer without one, of its version."""

    def write(self, window: WindowMaterial, context: ContextMaterial) -> Draft:
        """Write the draft of a post.

        Args:
            window: The messages to write about, at least one.
            context: The documents that may be cited.

        Raises:
            ModelError: The model could not be called, or gave no usable answer.
        """


@runtime_checkable
class RecordedWriter(Writer, Protocol):
    """A writer whose drafts are kept, since asking again costs something or gives another draft."""

    def hash_request(self, window: WindowMaterial, context: ContextMaterial) -> str:
        """Hash everything that decides the draft; the same hash is not requested again."""
