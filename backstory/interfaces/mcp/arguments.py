"""Arguments that several tools of the server take, each with its description."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import Field

from backstory.interfaces.library.search import DocumentFilters

Query: TypeAlias = Annotated[str, Field(description="The question, in words.")]
DocumentName: TypeAlias = Annotated[
    str, Field(description="Path, title, slug or id of the document, or the id of a chunk of it.")
]
Pattern: TypeAlias = Annotated[str, Field(description="What to find: a text, or a regular expression.")]
IsRegex: TypeAlias = Annotated[bool, Field(description="Whether the pattern is a regular expression.")]
Offset: TypeAlias = Annotated[int, Field(ge=0, description="Number of results to skip.")]
TopK: TypeAlias = Annotated[int | None, Field(ge=1, le=100, description="Most passages.")]
MaxChunks: TypeAlias = Annotated[int | None, Field(ge=1, le=100, description="Another name of top_k.")]
Filters: TypeAlias = Annotated[DocumentFilters | None, Field(description="Which documents may be found.")]
AsOf: TypeAlias = Annotated[
    datetime | None, Field(description="A time with a zone, which hides documents that were published later.")
]
WindowId: TypeAlias = Annotated[str, Field(description="Id of a window of a chat, from list_windows.")]
