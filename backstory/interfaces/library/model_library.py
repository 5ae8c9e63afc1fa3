"""A library whose answers go to a model: an agent's tools show documents as chat models are sent them."""

from __future__ import annotations

from typing import TypeVar

from backstory.interfaces.library.library import Library
from backstory.interfaces.library.model_answers import give
from backstory.pipeline.chats.name_view import NameView
from backstory.retrieval.found import Result

_R = TypeVar("_R", bound=Result)


class ModelLibrary(Library):
    """Answers as the library does, by the rule ``privacy.documents``; paths and ids stay.

    Whatever is withheld or written with other names is said in the notes of the answer or of the document. Contexts
    and summaries by a model follow the rule in every library.
    """

    def __init__(self, library: Library) -> None:
        """Wrap a library. Both share one state: what one of them opens, watches or closes, the other does, too."""
        self.__dict__ = library.__dict__

    def _give(self, result: _R) -> _R:
        """Return a result as a model is sent it, with notes of what was replaced or withheld."""
        last: NameView | None = self.__dict__.get("_model_view")
        # What the last view has read of names is used again while it holds.
        view = self.__dict__["_model_view"] = (
            NameView(self.workspace, "agent") if last is None else last.renew()
        )
        return give(result, view, lambda name: self._read_corpus().read(name, None).text)
