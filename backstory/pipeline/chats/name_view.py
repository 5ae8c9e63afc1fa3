"""Texts as an audience is shown them: the readers of a conversation, or a chat model, without the names of members."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Final, Literal, NamedTuple, TypeAlias

import polars as pl

from backstory.base.wording import count, inflect, name_some
from backstory.ingest.privacy.personal_data import scrub
from backstory.pipeline.chats.named_documents import (
    MemberNames,
    describe_names,
    find_named,
    is_searched,
    name_everybody,
    read_named_documents,
    read_texts,
)
from backstory.pipeline.workspace import Workspace
from backstory.settings.groups import ServiceSettings
from backstory.text.people import ScrubText, ShowText

Audience: TypeAlias = ServiceSettings | Literal["readers", "agent"]
"""Readers of the posts; a chat model that this process asks, by its settings; or one that somebody else asks."""

_CONTACTS: Final = ("email", "phone")
_LISTED: Final = 5
_SHOWN_TEXTS: Final = 1 << 13


class _Named(NamedTuple):
    """A document that names members, and those whose surname alone means them in it."""

    uri: str
    by_surname: list[str]


class NameView:
    """Shows the texts of documents, and the words of who asks, to an audience. Any thread may call it.

    By the setting ``privacy.documents``, names of members are replaced, or stay, or a chat model is not sent the text.
    Readers see what the last run found. A model is shown what is there now, and a model of this process every text as
    it is. In place of a name stands the one that the readers of a conversation see; without one, the pseudonym of the
    tables, since a model is also asked about no conversation or several.
    """

    def __init__(self, workspace: Workspace, audience: Audience) -> None:
        self._workspace = workspace
        self._audience = audience
        self._rule = workspace.settings.privacy.documents
        is_ours = isinstance(audience, ServiceSettings) and audience.paid_model is None
        is_kept = self._rule == "keep" or (self._rule == "reject" and audience == "readers")
        self.is_open: Final = is_ours or is_kept or not workspace.hides_names
        """Whether every text is shown as it is."""
        # Names and documents are described before any of them is read, so that a later change shows.
        self._state = None if self.is_open else describe_names(workspace)
        self._told: dict[str, str] = {}
        self._searched: dict[str, _Named | None] = {}
        self._shown: dict[str | None, Mapping[str, str]] = {None: {}}
        self._lock = threading.Lock()

    def renew(self) -> NameView:
        """Return a view without notes, which uses again what this one has read, unless names or documents changed."""
        view = NameView(self._workspace, self._audience)
        if view._state == self._state:
            vars(view).update({**vars(self), "_told": {}})
        return view

    def show(self, document_id: str | None, text: str, conversation: str | None = None) -> str | None:
        """Return a text of a document, or of who asks, as it is shown; None if it is withheld."""
        if self.is_open:
            return text
        with self._lock:
            if document_id is None:
                found = self._members.finder.find(text, "message")
                named = _Named("", self._members.list_by_surname(text, found)) if found else None
            else:
                named = self._find([document_id]).get(document_id)
            if named is None:
                return text
            if self._rule == "reject":
                return None
            if conversation is not None and conversation not in self._shown:
                self._shown[conversation] = name_everybody(self._workspace, conversation)
            return self._members.replace(text, named.by_surname, self._shown[conversation])

    def list_withheld(self, document_ids: Iterable[str]) -> list[str]:
        """List those of some documents that are withheld."""
        if self.is_open or self._rule != "reject":
            return []
        with self._lock:
            return list(self._find(list(dict.fromkeys(document_ids))))

    def list_notes(self, document_id: str | None = None) -> list[str]:
        """Say what became of the documents that name members and were asked for so far, or of one of them."""
        with self._lock:
            uris = sorted(uri for key, uri in self._told.items() if document_id in (None, key))
        if not uris:
            return []
        documents = count(len(uris), "document")
        done = f"names of members were replaced in {documents}"
        if self._rule == "reject":
            done = f"{documents} with names of members {inflect(len(uris), 'was', 'were')} withheld"
        return [f"{done} (privacy.documents is {self._rule}): {name_some(uris, _LISTED)}"]

    def _find(self, document_ids: Sequence[str]) -> dict[str, _Named]:
        """Find those of some documents whose texts name members, by id, and note them."""
        known: Mapping[str, _Named | None] | None = self._recorded
        if known is None:
            if unknown := [key for key in document_ids if key not in self._searched]:
                texts = read_texts(self._workspace).filter(pl.col("document_id").is_in(unknown))
                found = _index(find_named(self._workspace, texts))
                self._searched |= {key: found.get(key) for key in unknown}
            known = self._searched
        named = {key: one for key in document_ids if (one := known.get(key)) is not None}
        self._told |= {key: one.uri for key, one in named.items()}
        return named

    @cached_property
    def _recorded(self) -> dict[str, _Named] | None:
        """What is recorded of all documents; None where a model needs more, since a run may be under way elsewhere."""
        if self._audience != "readers" and not is_searched(self._workspace, self._state):
            return None
        return _index(read_named_documents(self._workspace))

    @cached_property
    def _members(self) -> MemberNames:
        return MemberNames(self._workspace)


def make_page_view(workspace: Workspace, conversations: Mapping[str, str]) -> ShowText:
    """Make what shows a text of a document on a page: with the names that readers see, and without contact data."""
    view, scrub_text = NameView(workspace, "readers"), make_contact_scrub(workspace)

    @lru_cache(maxsize=_SHOWN_TEXTS)  # the windows of a chat find the same documents
    def show(conversation: str, document_id: str, text: str) -> str:
        return scrub_text(view.show(document_id, text, conversation) or "")

    return lambda window_id, document_id, text: show(conversations[window_id], document_id, text)


def make_contact_scrub(workspace: Workspace) -> ScrubText:
    """Make what puts markers in place of the contact data of a text that readers see, if the settings ask for it."""
    privacy = workspace.settings.privacy
    return partial(scrub_contacts, region=privacy.phone_region) if privacy.documents == "replace" else str


def scrub_contacts(text: str, *, region: str | None) -> str:
    """Put markers in place of the contact data of a text."""
    return str(scrub(pl.Series([text]), _CONTACTS, region)[0])


def _index(named: pl.DataFrame) -> dict[str, _Named]:
    found: dict[str, _Named] = {}
    for row in named.filter(place="text").iter_rows(named=True):
        one = found.setdefault(row["document_id"], _Named(row["uri"], []))
        one.by_surname.extend([row["person"]] if row["by_surname"] else [])
    return found
