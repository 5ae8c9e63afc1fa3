"""Documents that name members of a chat: which they are, and their text as readers see it.

The documents stay as they are. Under ``privacy.documents: replace`` the names in what is shown of them to people are
those that readers see; :mod:`backstory.pipeline.chats.model_view` shows them to models.
Which documents hold names is recorded, so that a run reads the real names, which only the exports hold, where it must
replace one, and nowhere else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache, partial
from typing import Final

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest, digest_json, is_written
from backstory.base.wording import inflect, name_some
from backstory.ingest.documents.written import is_of_source
from backstory.ingest.privacy.erasure_list import read_forgotten
from backstory.ingest.privacy.leaks import find_naming_texts
from backstory.ingest.privacy.personal_data import scrub
from backstory.ingest.sources.web_address import list_link_places, make_linker
from backstory.pipeline.chats.member_names import MemberNames
from backstory.pipeline.chats.people import (
    People,
    read_agreed_names,
    read_hash_of_names,
    read_names,
    read_people,
)
from backstory.pipeline.incremental.partitions import content_of
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.text.people import Discretion, FindLeaks, ShowText, find_no_leaks
from backstory.writing.post_files import inspect_file

_NAMED: Final = "names in documents"
_SEARCHED: Final = "documents searched for names"
_VERSION: Final = "3"
"""Changes when the search finds other names in the same text."""
_LISTED: Final = 5
_CONTACTS: Final = ("email", "phone")
_SHOWN_TEXTS: Final = 1 << 13


@dataclass(frozen=True)
class NamedDocument:
    """A document that names members.

    Attributes:
        uri: Its uri.
        people: How often its title, text and tags name each member, by pseudonym.
        in_path: Members whom its path names, by pseudonym.
        by_surname: Members whose surname alone means them in this document, by pseudonym.
        in_link: Members whom a link to it names, by pseudonym: its folder may lie outside the workspace.
    """

    uri: str
    people: Mapping[str, int]
    in_path: Sequence[str]
    by_surname: Sequence[str] = ()
    in_link: Sequence[str] = ()

    @property
    def is_named(self) -> bool:
        """Whether it, its path or a link to it names anybody."""
        return bool(self.people or self.in_path or self.in_link)


class DocumentView:
    """Shows the texts of documents as readers see them, by what the last run found in them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._recorded = read_named_documents(workspace)
        self._shown: dict[str | None, Mapping[str, str]] = {None: {}}

    def show(self, conversation: str, document_id: str, text: str) -> str:
        """Return a text of a document with names of members as the readers of a conversation see them."""
        named = self._recorded.get(document_id)
        if named is None or not _replaces(self._workspace):
            return text
        return self.replace(text, named.by_surname, conversation)

    def replace(self, text: str, by_surname: Sequence[str], conversation: str | None) -> str:
        """Write the names that readers of a conversation see; without one, pseudonyms."""
        if conversation is not None and conversation not in self._shown:
            people = read_people(self._workspace)
            self._shown[conversation] = _name_everybody(people, conversation, self._recorded)
        return self.names.replace(text, by_surname, self._shown[conversation])

    @cached_property
    def names(self) -> MemberNames:
        """The real names of the members."""
        return MemberNames(self._workspace)


class CurrentView(DocumentView):
    """Also finds whom the documents name that came after the last run."""

    def __init__(self, workspace: Workspace) -> None:
        # Before what it stands for is read, so that a later change shows.
        self._state = _describe_names(workspace)
        self._is_recorded = workspace.catalog.read(_SEARCHED).get(WHOLE) == self._state
        super().__init__(workspace)
        self._searched: dict[str, NamedDocument | None] = {}

    def is_current(self) -> bool:
        """Return whether neither names nor documents have changed since this was made."""
        return self._state == _describe_names(self._workspace)

    def find(self, document_ids: Sequence[str]) -> dict[str, NamedDocument]:
        """Find those of some documents whose texts name members, by id."""
        unknown = [key for key in document_ids if key not in self._searched]
        if unknown and not self._is_recorded:
            # Nothing is recorded, since a run may be under way in another process.
            rows = _read_texts(self._workspace).filter(pl.col("document_id").is_in(unknown))
            found = _search_those_of_people(self._workspace, rows)
            self._searched |= {key: found.get(key) for key in unknown}
        known = self._recorded if self._is_recorded else self._searched
        named = {key: known.get(key) for key in document_ids}
        return {key: one for key, one in named.items() if one is not None and one.people}


def record_named_documents(workspace: Workspace) -> None:
    """Search the documents that are new, or were not searched for the present names, for names of members.

    What Backstory wrote is not searched, unless a person has edited it: no post is written with a name.
    """
    if not workspace.hides_names:
        for table in (_NAMED, _SEARCHED):
            workspace.catalog.forget(table, workspace.catalog.read(table))
        return
    all_of_them = _describe_names(workspace)
    made_by = all_of_them.inputs
    if workspace.catalog.read(_SEARCHED).get(WHOLE) == all_of_them:
        return
    documents = _read_texts(workspace)
    # The file of a revision may have another text: that of another program or version of a reader.
    texts = documents.select("document_id", "text").iter_rows()
    inputs = {key: digest([made_by, text]) for key, text in texts}
    known = workspace.catalog.read(_NAMED)
    workspace.catalog.forget(_NAMED, known.keys() - inputs.keys())
    pending = [key for key, value in inputs.items() if key not in known or known[key].inputs != value]
    if pending:
        rows = documents.filter(pl.col("document_id").is_in(pending))
        entries = {
            key: Entry(inputs[key], json.dumps(asdict(document)), sum(document.people.values()))
            for key, document in _search_those_of_people(workspace, rows).items()
        }
        workspace.catalog.record(_NAMED, entries)
    workspace.catalog.record(_SEARCHED, {WHOLE: all_of_them})


def _describe_search(workspace: Workspace) -> str:
    """Hash what decides which names a search finds in a text."""
    return digest(
        [
            _VERSION,
            read_hash_of_names(workspace),
            read_forgotten(workspace.forgotten).fingerprint,
            *list_link_places(workspace),
        ]
    )


def _read_texts(workspace: Workspace) -> pl.DataFrame:
    """Read what is searched of the documents: id, uri, and title, tags and text as one text."""
    columns = ("document_id", "uri", "title", "tags", "text", "status")
    return (
        workspace.tables.read("documents", columns=columns)
        .filter(status="ok")
        .select(
            "document_id",
            "uri",
            text=pl.concat_str("title", pl.col("tags").list.join("\n"), "text", separator="\n\n"),
        )
    )


def _describe_names(workspace: Workspace) -> Entry:
    """Describe the present documents and names as the catalog does after a search of all of them."""
    return Entry(_describe_search(workspace), content_of(workspace, "documents", [WHOLE])[WHOLE], 0)


def read_named_documents(workspace: Workspace) -> dict[str, NamedDocument]:
    """Read the documents that name members, by id, as the last run found them."""
    known = workspace.catalog.read(_NAMED)
    documents = {key: _parse(entry.content) for key, entry in sorted(known.items())}
    return {key: document for key, document in documents.items() if document.is_named}


@lru_cache(maxsize=16384)
def _parse(content: str) -> NamedDocument:
    # A run reads the same entries for each partition and table.
    return NamedDocument(**json.loads(content))


def hash_named_documents(workspace: Workspace) -> str:
    """Hash which documents name whom, and the names under which readers see them; empty if nothing is replaced."""
    if not _replaces(workspace):
        return ""
    named, people = read_named_documents(workspace), read_people(workspace)
    if not named:  # else a further conversation would make all contexts stale
        return ""
    shown = {conversation: _name_everybody(people, conversation, named) for conversation in people.seen}
    mentioned = {person for document in named.values() for person in document.people}
    return digest_json(
        [
            {key: [document.people, document.by_surname] for key, document in named.items()},
            {key: {person: names.get(person) for person in mentioned} for key, names in shown.items()},
        ]
    )


def hash_sent_documents(workspace: Workspace) -> str:
    """Hash which documents name whom, where that decides what chat models are sent; empty if it does not."""
    if not workspace.hides_names or workspace.settings.privacy.documents == "keep":
        return ""
    named = {key: document for key, document in read_named_documents(workspace).items() if document.people}
    return digest_json({key: [one.people, one.by_surname] for key, one in named.items()}) if named else ""


def list_withheld(workspace: Workspace) -> list[str]:
    """List the ids of documents that no chat model is sent, since they name members."""
    if not workspace.hides_names or workspace.settings.privacy.documents != "reject":
        return []
    return [key for key, document in read_named_documents(workspace).items() if document.people]


def describe_named_documents(workspace: Workspace) -> dict[str, int | str]:
    """Return the figures of the documents that name members, with a sentence that lists them; empty without any."""
    named = [document for document in read_named_documents(workspace).values() if document.people]
    if not named:
        return {}
    count = sum(sum(document.people.values()) for document in named)
    by_uri = sorted(named, key=lambda document: document.uri)
    listed = name_some([f"{document.uri} ({sum(document.people.values())})" for document in by_uri], _LISTED)
    done = {
        "replace": "what is shown of them has the names that readers see",
        "keep": "privacy.documents is keep, so contexts and posts hold them",
        "reject": "privacy.documents is reject, so no chat model is sent these documents, contexts hold the names, "
        "and posts that do are rejected",
    }[workspace.settings.privacy.documents]
    notice = (
        f"{len(named)} {inflect(len(named), 'document')} with {count} names of members: {listed}; {done}."
    )
    return {"documents_with_names": len(named), "names_in_documents": count, "notice": notice}


def list_unlinked(workspace: Workspace) -> list[str]:
    """List the ids of documents to which no post may link, since their paths or links name members."""
    if not workspace.hides_names or workspace.settings.privacy.documents == "keep":
        return []
    return [
        key
        for key, document in read_named_documents(workspace).items()
        if document.in_path or document.in_link
    ]


def list_hidden_names(workspace: Workspace) -> list[str]:
    """List the real names that posts and tables must not hold: all but those that kept documents show."""
    names = read_names(workspace)
    if workspace.settings.privacy.documents != "keep":
        return names
    shown = {
        person
        for document in read_named_documents(workspace).values()
        for person in [*document.people, *document.in_path, *document.in_link]
    }
    members = MemberNames(workspace)
    return [name for name in names if members.identify(members.finder.person(name)) not in shown]


def make_leak_finder(workspace: Workspace) -> FindLeaks:
    """Make the function that finds the texts of models that hold a real name.

    The names are read from the exports, which alone hold them, before the function is returned, so that any thread may
    call it. Where no author is hidden, it finds nothing.
    """
    if not workspace.settings.privacy.pseudonyms:
        return find_no_leaks
    names = list_hidden_names(workspace)
    agreed = read_agreed_names(workspace)
    return lambda texts: find_naming_texts(texts, names, agreed)


def make_discretion(workspace: Workspace) -> Discretion:
    """Make what a post may say about people, by the settings; see :func:`make_leak_finder`."""
    privacy = workspace.settings.privacy
    find_leaks = make_leak_finder(workspace)
    scrub_text = partial(_scrub_contacts, region=privacy.phone_region)

    def find_contacts_and_leaks(texts: Sequence[str]) -> Collection[str]:
        return {*find_leaks(texts), *(text for text in texts if scrub_text(text) != text)}

    if privacy.documents == "reject":
        return Discretion(find_contacts_and_leaks, rule=privacy.documents)
    return Discretion(find_leaks, make_contact_scrub(workspace), privacy.documents)


def make_contact_scrub(workspace: Workspace) -> Callable[[str], str]:
    """Make what puts markers in place of the contact data of a text that readers see, if the settings ask for it."""
    privacy = workspace.settings.privacy
    return partial(_scrub_contacts, region=privacy.phone_region) if privacy.documents == "replace" else str


def make_page_view(workspace: Workspace, conversations: Mapping[str, str]) -> ShowText:
    """Make what shows a text of a document on a page: with the names that readers see, and without contact data."""
    view = DocumentView(workspace)
    scrub_text = make_contact_scrub(workspace)

    @lru_cache(maxsize=_SHOWN_TEXTS)  # the windows of a chat find the same documents
    def show(conversation: str, document_id: str, text: str) -> str:
        return scrub_text(view.show(conversation, document_id, text))

    return lambda window_id, document_id, text: show(conversations[window_id], document_id, text)


def _scrub_contacts(text: str, *, region: str | None) -> str:
    return str(scrub(pl.Series([text]), _CONTACTS, region)[0])


def find_shown_names(workspace: Workspace) -> pl.DataFrame:
    """Find the documents of which readers see names of members: in their paths, or since the names are kept.

    ``names`` is how many its title, tags and text hold.
    """
    replaced = _replaces(workspace)
    rows = [
        (document.uri, sum(document.people.values()))
        for document in read_named_documents(workspace).values()
        if document.in_path or not replaced
    ]
    return pl.DataFrame(rows, schema={"uri": pl.String, "names": pl.Int64}, orient="row")


def _search_those_of_people(workspace: Workspace, rows: pl.DataFrame) -> dict[str, NamedDocument]:
    """Search documents; a post as Backstory wrote it names nobody."""
    ours = [
        uri
        for uri in rows["uri"]
        if is_written(uri) and inspect_file(workspace.root / uri.removeprefix(WRITTEN_PREFIX)) == "ours"
    ]
    is_ours = pl.col("uri").is_in(ours)
    unnamed = rows.filter(is_ours).select("document_id", "uri")
    others = rows.filter(~is_ours)
    # The real names are read from the exports, which takes long, only if there is something to search.
    found = {} if others.is_empty() else dict(_search(others, MemberNames(workspace), make_linker(workspace)))
    return found | {key: NamedDocument(uri, {}, []) for key, uri in unnamed.iter_rows()}


def _search(
    rows: pl.DataFrame, names: MemberNames, link: Callable[[str], str]
) -> Iterator[tuple[str, NamedDocument]]:
    finder = names.finder
    in_text, in_path = finder.may_hold(rows["text"], "message"), finder.may_hold(rows["uri"], "identifier")
    for row, may_hold, may_path_hold in zip(rows.iter_rows(named=True), in_text, in_path, strict=True):
        found = finder.find(row["text"], "message") if may_hold else []
        by_surname = names.list_by_surname(row["text"], found)
        found = names.find(row["text"], by_surname) if by_surname else found
        people = Counter(names.identify(match.person) for match in found)
        in_uri = finder.find(row["uri"], "identifier") if may_path_hold else []
        in_uri_named = sorted({names.identify(match.person) for match in in_uri})
        in_link = finder.find(link(row["uri"]), "identifier") if is_of_source(row["uri"]) else []
        in_link_named = sorted({names.identify(match.person) for match in in_link})
        yield (
            row["document_id"],
            NamedDocument(row["uri"], dict(sorted(people.items())), in_uri_named, by_surname, in_link_named),
        )


def _name_everybody(
    people: People, conversation: str, named: Mapping[str, NamedDocument]
) -> Mapping[str, str]:
    """Return the names for readers of a conversation, also of members of others whom documents name."""
    return people.names_beside(
        conversation, {person for document in named.values() for person in document.people}
    )


def _replaces(workspace: Workspace) -> bool:
    return workspace.hides_names and workspace.settings.privacy.documents == "replace"
