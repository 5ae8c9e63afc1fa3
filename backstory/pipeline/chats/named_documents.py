"""Documents that name members of a chat: whom each names, and their texts as an audience is shown them.

The documents stay as they are, and :class:`NameView` shows them with other names. Whom they name is recorded, so that
a run reads the real names, which only the exports hold, where it must replace one, and nowhere else.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import unquote

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest, digest_json, is_written
from backstory.base.wording import count, inflect, name_some
from backstory.ingest.documents.files import is_of_source
from backstory.ingest.privacy.exclusions import Forgotten
from backstory.ingest.privacy.personal_data import scrub
from backstory.ingest.sources.listing import DocumentLinks
from backstory.pipeline.chats.people import MemberNames, read_names, read_people
from backstory.pipeline.incremental.inputs import content_of
from backstory.pipeline.workspace import Workspace
from backstory.settings.groups import ServiceSettings
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.text.people import ScrubText, ShowText
from backstory.writing.post_files import inspect_file

_NAMED: Final = "names in documents"
_SEARCHED: Final = "documents searched for names"
_VERSION: Final = "7"
"""Changes when the search finds other names in the same text."""
_LISTED: Final = 5
_CONTACTS: Final = ("email", "phone")
_SHOWN_TEXTS: Final = 1 << 13
_TEXTS: Final = dict.fromkeys(("document_id", "uri", "place", "person"), pl.String())
_SCHEMA: Final = pl.Schema({**_TEXTS, "times": pl.Int64(), "by_surname": pl.Boolean()})
_IN_TEXT: Final = pl.col("place") == "text"

Audience: TypeAlias = ServiceSettings | Literal["readers", "agent"]
"""Readers of the posts; a chat model that this process asks, by its settings; or one that somebody else asks."""


def record_named_documents(workspace: Workspace) -> None:
    """Search the documents that are new, or were not searched for the present names, for names of members."""
    if not workspace.hides_names:
        for table in (_NAMED, _SEARCHED):
            workspace.catalog.forget(table, workspace.catalog.read(table))
        return
    present = _describe_names(workspace)
    if _is_searched(workspace, present):
        return
    documents = _read_texts(workspace)
    # The file of a revision may have another text: that of another program or version of a reader.
    texts = documents.select("document_id", "text").iter_rows()
    inputs = {key: digest([present.inputs, text]) for key, text in texts}
    known = workspace.catalog.read(_NAMED)
    pending = [key for key, value in inputs.items() if key not in known or known[key].inputs != value]
    found = _find_named(workspace, documents.filter(pl.col("document_id").is_in(pending)))
    rows = found.rows_by_key("document_id", include_key=True)
    entries = {key: Entry(inputs[key], json.dumps(rows[key]), len(rows[key])) for key in pending}
    workspace.catalog.record(_NAMED, {**dict.fromkeys(known.keys() - inputs.keys()), **entries})
    workspace.catalog.record(_SEARCHED, {WHOLE: present})


def _describe_names(workspace: Workspace) -> Entry:
    """Describe the present documents and names as the catalog does after a search of all of them."""
    forgotten = Forgotten.read(workspace.forgotten).fingerprint
    searched_for = [_VERSION, read_people(workspace).real, forgotten, *DocumentLinks(workspace).list_places()]
    return Entry(digest(searched_for), content_of(workspace, "documents", [WHOLE])[WHOLE], 0)


def _is_searched(workspace: Workspace, names: Entry | None) -> bool:
    """Return whether documents and names, as :func:`_describe_names` describes them, are those of the last search."""
    return workspace.catalog.read(_SEARCHED).get(WHOLE) == names


def _read_texts(workspace: Workspace) -> pl.DataFrame:
    """Read what is searched of the documents: id, uri, and title, tags and text as one text."""
    columns = ("document_id", "uri", "title", "tags", "text", "status")
    text = pl.concat_str("title", pl.col("tags").list.join("\n"), "text", separator="\n\n")
    documents = workspace.tables.read("documents", columns=columns).filter(status="ok")
    return documents.select("document_id", "uri", text=text)


def _find_named(workspace: Workspace, documents: pl.DataFrame) -> pl.DataFrame:
    """Search documents, as :func:`_read_texts` gives them, for members; see :func:`read_named_documents`.

    A post as Backstory wrote it names nobody. The real names are read from the exports, which takes long, only if
    there is something else to search.
    """
    is_ours = [
        is_written(uri) and inspect_file(workspace.root / uri.removeprefix(WRITTEN_PREFIX)) == "ours"
        for uri in documents["uri"]
    ]
    searched = documents.filter(~pl.Series(is_ours, dtype=pl.Boolean))
    rows: list[tuple[str, str, str, str, int, bool]] = []
    if not searched.is_empty():
        members, link = MemberNames(workspace), DocumentLinks(workspace).link
        finder = members.finder
        in_text, in_path = (
            finder.find_in(searched["text"], "message"),
            finder.find_in(searched["uri"], "identifier"),
        )
        for (key, uri, text), found, in_uri in zip(searched.iter_rows(), in_text, in_path, strict=True):
            by_surname = members.list_by_surname(text, found)
            places = {
                "text": members.find(text, by_surname) if by_surname else found,
                "path": in_uri,
                "link": finder.find(unquote(link(uri)), "identifier") if is_of_source(uri) else [],
            }
            for place, matches in places.items():
                people = Counter(members.identify(match.person) for match in matches)
                rows += [
                    (key, uri, place, person, times, place == "text" and person in by_surname)
                    for person, times in sorted(people.items())
                ]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def read_named_documents(workspace: Workspace) -> pl.DataFrame:
    """Read which documents name members, as the last run found them.

    There is a row for each ``document_id``, ``place`` and ``person``, with the ``uri``. The place is ``text`` (with
    title and tags), ``path``, or ``link``, since the folder of a link may lie outside the workspace. ``times`` is how
    often it names the person, and ``by_surname`` whether there the surname alone means nobody else.
    """
    entries = sorted(workspace.catalog.read(_NAMED).items())
    rows = [row for _, entry in entries if entry.rows for row in json.loads(entry.content)]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _name_everybody(workspace: Workspace, conversation: str) -> Mapping[str, str]:
    """Return the names for readers of a conversation, also of members of others whom documents name."""
    named = read_named_documents(workspace).filter(_IN_TEXT)
    return read_people(workspace).names_beside(conversation, set(named["person"]))


def hash_sent_documents(workspace: Workspace) -> str:
    """Hash which documents name whom, where that decides what chat models are sent; empty if it does not."""
    if not workspace.hides_names or workspace.settings.privacy.documents == "keep":
        return ""
    named = read_named_documents(workspace).filter(_IN_TEXT).drop("uri")
    return "" if named.is_empty() else digest_json(named.rows())


def hash_shown_documents(workspace: Workspace) -> str:
    """Hash which documents name whom, and the names under which readers see them; empty if nothing is replaced."""
    sent = hash_sent_documents(workspace)
    # Where nobody is named, a further conversation must not make all contexts stale.
    if not sent or workspace.settings.privacy.documents != "replace":
        return ""
    people, mentioned = (
        read_people(workspace),
        set(read_named_documents(workspace).filter(_IN_TEXT)["person"]),
    )
    shown = {name: people.names_beside(name, mentioned) for name in people.languages}
    return digest_json(
        [sent, {name: {one: names.get(one) for one in mentioned} for name, names in shown.items()}]
    )


def list_withheld(workspace: Workspace) -> list[str]:
    """List the ids of documents that no chat model is sent, since they name members."""
    return _list_ids(workspace, _IN_TEXT, workspace.settings.privacy.documents == "reject")


def list_unlinked(workspace: Workspace) -> list[str]:
    """List the ids of documents to which no post may link, since their paths or links name members."""
    return _list_ids(workspace, ~_IN_TEXT, workspace.settings.privacy.documents != "keep")


def _list_ids(workspace: Workspace, is_meant: pl.Expr, is_ruled: bool) -> list[str]:
    if not workspace.hides_names or not is_ruled:
        return []
    return (
        read_named_documents(workspace).filter(is_meant)["document_id"].unique(maintain_order=True).to_list()
    )


def list_hidden_names(workspace: Workspace) -> list[str]:
    """List the real names that posts and tables must not hold: all but those that kept documents show."""
    names = read_names(workspace)
    if workspace.settings.privacy.documents != "keep":
        return names
    shown, members = set(read_named_documents(workspace)["person"]), MemberNames(workspace)
    return [name for name in names if members.identify(members.finder.person(name)) not in shown]


def find_shown_names(workspace: Workspace) -> pl.DataFrame:
    """Find the documents of which readers see names of members: in their paths, or since the names are kept.

    ``names`` is how many its title, tags and text hold.
    """
    is_replaced = workspace.hides_names and workspace.settings.privacy.documents == "replace"
    is_shown = (pl.col("place") == "path").any() if is_replaced else pl.lit(value=True)
    named = read_named_documents(workspace).group_by("document_id", "uri", maintain_order=True)
    counted = named.agg(names=pl.col("times").filter(_IN_TEXT).sum(), is_shown=is_shown)
    return counted.filter("is_shown").select("uri", "names")


def describe_named_documents(workspace: Workspace) -> dict[str, int | str]:
    """Return the figures of the documents that name members, with a sentence that lists them; empty without any."""
    named = read_named_documents(workspace).filter(_IN_TEXT)
    counted = named.group_by("uri").agg(pl.col("times").sum()).sort("uri")
    if counted.is_empty():
        return {}
    names, rule = int(counted["times"].sum()), workspace.settings.privacy.documents
    listed = name_some([f"{uri} ({times})" for uri, times in counted.iter_rows()], _LISTED)
    notice = f"{count(len(counted), 'document')} with {names} names of members (privacy.documents is {rule}): {listed}."
    return {"documents_with_names": len(counted), "names_in_documents": names, "notice": notice}


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
        self._state = None if self.is_open else _describe_names(workspace)
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
                self._shown[conversation] = _name_everybody(self._workspace, conversation)
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
        known: dict[str, _Named | None] | None = self._recorded
        if known is None:
            known = self._searched
            if unknown := [key for key in document_ids if key not in known]:
                texts = _read_texts(self._workspace).filter(pl.col("document_id").is_in(unknown))
                known |= dict.fromkeys(unknown) | _index(_find_named(self._workspace, texts))
        named = {key: one for key in document_ids if (one := known.get(key)) is not None}
        self._told |= {key: one.uri for key, one in named.items()}
        return named

    @cached_property
    def _recorded(self) -> dict[str, _Named | None] | None:
        """What is recorded of all documents; None where a model needs more, since a run may be under way elsewhere."""
        if self._audience != "readers" and not _is_searched(self._workspace, self._state):
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


def _index(named: pl.DataFrame) -> dict[str, _Named | None]:
    by_surname = pl.col("person").filter("by_surname")
    found = named.filter(_IN_TEXT).group_by("document_id", "uri").agg(by_surname)
    return {key: _Named(uri, people) for key, uri, people in found.iter_rows()}
