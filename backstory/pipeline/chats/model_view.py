"""Texts as chat models are sent them, without the names of members.

The search for names takes long to load, and is loaded where a text may hold one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Final

from backstory.base.wording import count, inflect, name_some
from backstory.pipeline.workspace import Workspace
from backstory.settings.groups import ServiceSettings

if TYPE_CHECKING:
    from backstory.pipeline.chats.named_documents import CurrentView

_LISTED: Final = 5


class ModelView:
    """Shows the texts of documents, and the words of who asks, as chat models are sent them.

    By the setting ``privacy.documents``, names of members become the pseudonyms of the tables, or stay, or the text is
    withheld. They are no names for readers, since a model is also asked about no conversation or several, in which
    readers see one person by different names. Any thread may call it.

    Args:
        workspace: An open workspace.
        model: Settings of the model; one that this process runs is sent every text as it is. None for a model that
            somebody else asks.
        conversation: The conversation whose readers see the answer, by whose names they know its people; None for
            pseudonyms.
    """

    def __init__(
        self, workspace: Workspace, model: ServiceSettings | None, conversation: str | None = None
    ) -> None:
        self._workspace = workspace
        self._model = model
        self._conversation = conversation
        self._rule = workspace.settings.privacy.documents
        is_ours = model is not None and model.paid_model is None
        self.is_open: Final = is_ours or self._rule == "keep" or not workspace.hides_names
        """Whether every text is sent as it is."""
        self._withheld: dict[str, str] = {}
        self._replaced: dict[str, str] = {}
        self._lock = threading.Lock()

    def renew(self) -> ModelView:
        """Return a view without notes, which uses again what this one has read, unless names or documents changed."""
        view = ModelView(self._workspace, self._model, self._conversation)
        if "_documents" in self.__dict__ and self._documents.is_current():
            view._documents = self._documents
        return view

    def send(self, document_id: str | None, text: str) -> str | None:
        """Return a text as it is sent; None if it is withheld. See :data:`backstory.text.people.SendText`."""
        if self.is_open:
            return text
        with self._lock:
            if document_id is None:
                return self._send_words(text)
            named = self._documents.find([document_id]).get(document_id)
            if named is None:
                return text
            if self._rule == "reject":
                self._withheld[document_id] = named.uri
                return None
            self._replaced[document_id] = named.uri
            return self._documents.replace(text, named.by_surname, self._conversation)

    def list_withheld(self, document_ids: Iterable[str]) -> list[str]:
        """List those of some documents that are withheld."""
        if self.is_open or self._rule != "reject":
            return []
        with self._lock:
            found = self._documents.find(list(dict.fromkeys(document_ids)))
            self._withheld |= {key: named.uri for key, named in found.items()}
            return list(found)

    def show(self, window_id: str, document_id: str, text: str) -> str:  # noqa: ARG002 - the signature of ShowText
        """Return a text that is not withheld as it is sent; nothing of one that is."""
        return self.send(document_id, text) or ""

    def list_notes(self, document_id: str | None = None) -> list[str]:
        """Say what became of the documents that name members and were asked for so far, or of one of them."""
        with self._lock:
            withheld, replaced = (
                sorted(uri for key, uri in uris.items() if document_id in (None, key))
                for uris in (self._withheld, self._replaced)
            )
        rule = f"(privacy.documents is {self._rule})"
        notes = []
        if withheld:
            are = inflect(len(withheld), "was", "were")
            of = f"{count(len(withheld), 'document')} with names of members {are} withheld"
            notes.append(f"{of} {rule}: {name_some(withheld, _LISTED)}")
        if replaced:
            of = f"names of members were replaced in {count(len(replaced), 'document')}"
            notes.append(f"{of} {rule}: {name_some(replaced, _LISTED)}")
        return notes

    def _send_words(self, text: str) -> str | None:
        """Treat words that are of no document as a document of their own."""
        names = self._documents.names
        found = names.finder.find(text, "message")
        if not found:
            return text
        by_surname = names.list_by_surname(text, found)
        if self._rule == "reject":
            return None
        return self._documents.replace(text, by_surname, self._conversation)

    @cached_property
    def _documents(self) -> CurrentView:
        from backstory.pipeline.chats.named_documents import CurrentView

        return CurrentView(self._workspace)
