"""Documents that name members of a chat: which they are, and their text as readers see it.

The documents stay as they are. Under ``privacy.documents: replace`` the names in what is shown of them, to people and
to models, are those that readers see. Which documents hold names is recorded, so that a run reads the real names, which
only the exports hold, where it must replace one, and nowhere else.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest, digest_json, is_written
from backstory.base.wording import inflect, name_some
from backstory.ingest.documents.written import is_of_source
from backstory.ingest.privacy.erasure_list import list_forgotten_members, read_forgotten
from backstory.ingest.privacy.folding import fold
from backstory.ingest.privacy.names import Found, NameFinder, replace_found
from backstory.ingest.privacy.possessives import write_possessive
from backstory.ingest.privacy.pseudonyms import make_pseudonym
from backstory.ingest.privacy.secret_file import load_secret
from backstory.ingest.privacy.surnames import (
    SurnameFinder,
    find_surname,
    list_clear_surnames,
    spell_surname,
)
from backstory.ingest.sources.web_address import list_link_places, make_linker
from backstory.pipeline.chats.people import People, hash_names, read_people
from backstory.pipeline.incremental.partitions import content_of
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.ledger import Entry
from backstory.storage.tables.parquet import WHOLE, scan_table
from backstory.text.languages import detect_language
from backstory.text.stemmers import find_stemmer, list_stop_words
from backstory.writing.post_files import inspect_file

_NAMED: Final = "names in documents"
_SEARCHED: Final = "documents searched for names"
_VERSION: Final = "2"
"""Changes when the search finds other names in the same text."""
_LISTED: Final = 5


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


class _MemberNames:
    """The real names of all members, as the exports write them, with the pseudonyms that the tables hold."""

    def __init__(self, workspace: Workspace) -> None:
        settings = workspace.settings.conversations
        names = workspace.last_reading.read_names(workspace.chats_dir, settings)
        aliases = workspace.last_reading.read_aliases(workspace.chats_dir, settings)
        self.finder = NameFinder(names)
        self._secret = load_secret(workspace.secret, workspace.ledger, workspace.tables)
        self._people = {
            self.finder.person(alias): self.finder.person(name) for alias, name in aliases.items()
        }
        forgotten = read_forgotten(workspace.forgotten)
        self._gone = {
            self._make_pseudonym(self.finder.person(name)): forgotten.token(name)
            for name in list_forgotten_members(names, forgotten)
        }

    def identify(self, person: str) -> str:
        """Return the pseudonym of a person, given as the finder does; the placeholder of a forgotten one."""
        pseudonym = self._make_pseudonym(person)
        return self._gone.get(pseudonym, pseudonym)

    @cached_property
    def surnames(self) -> Mapping[str, Mapping[str, str]]:
        """The surnames of all members by pseudonym, each with the name that it is of."""
        surnames: dict[str, dict[str, str]] = defaultdict(dict)
        for person in self.finder.list_people():
            if surname := find_surname(person):
                surnames[self.identify(person)][surname] = person
        return surnames

    def find(self, text: str, by_surname: Iterable[str]) -> list[Found]:
        """Find the names of members in a part of a document, and the surnames of those given by pseudonym."""
        surnames = {surname: person for key in by_surname for surname, person in self.surnames[key].items()}
        return SurnameFinder(surnames).find(text, self.finder.find(text, "message"))

    def list_by_surname(self, text: str, found: Sequence[Found]) -> list[str]:
        """List the members whom a document names in full, and whose surname alone can be nobody else's in it."""
        if not found:
            return []
        stop_words = list_stop_words(find_stemmer(detect_language([text])))
        owners: dict[str, set[str]] = defaultdict(set)
        full = set[str]()
        for match in found:
            key, surname = self.identify(match.person), find_surname(match.person)
            for known in (*self.surnames.get(key, ()), *([surname] if surname else [])):
                for letters in spell_surname(known):
                    owners[letters].add(key)
            if surname and (not match.is_mention or fold(surname) in fold(text[match.start : match.end])):
                full.add(key)
        candidates = {
            key: self.surnames[key]
            for key in sorted(full & self.surnames.keys())
            if all(
                owners[letters] == {key} for known in self.surnames[key] for letters in spell_surname(known)
            )
        }
        people = {surname: person for of_one in candidates.values() for surname, person in of_one.items()}
        clear = list_clear_surnames(text, people, found, stop_words)
        return [key for key, surnames in candidates.items() if clear.issuperset(surnames)]

    def _make_pseudonym(self, person: str) -> str:
        return make_pseudonym(self._people.get(person, person), self._secret)


class DocumentView:
    """Shows the texts of documents as readers see them.

    Args:
        workspace: An open workspace.
        conversations: The conversation of each window in question.
    """

    def __init__(self, workspace: Workspace, conversations: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._conversations = conversations
        self._named = read_named_documents(workspace) if _replaces(workspace) else {}
        self._people = read_people(workspace)
        self._known: dict[str, Mapping[str, str]] = {}

    def show(self, window_id: str, document_id: str, text: str) -> str:
        """Return a text of a document with names of members as the readers of a window see them."""
        if document_id not in self._named:
            return text
        conversation = self._conversations[window_id]
        if conversation not in self._known:
            self._known[conversation] = _name_everybody(self._people, conversation, self._named)
        known = self._known[conversation]
        names, by_surname = self._names, self._named[document_id].by_surname

        def write(found: Found, written: str) -> str:
            pseudonym = names.identify(found.person)
            return write_possessive(known.get(pseudonym, pseudonym), written)

        return replace_found(text, lambda part: names.find(part, by_surname), write)

    @cached_property
    def _names(self) -> _MemberNames:
        return _MemberNames(self._workspace)


def record_named_documents(workspace: Workspace) -> None:
    """Search the documents that are new, or were not searched for the present names, for names of members.

    What Backstory wrote is not searched, unless a person has edited it: no post is written with a name.
    """
    if not _hides(workspace):
        for table in (_NAMED, _SEARCHED):
            workspace.ledger.forget(table, workspace.ledger.read(table))
        return
    made_by = digest(
        [
            _VERSION,
            hash_names(workspace),
            read_forgotten(workspace.forgotten).fingerprint,
            *list_link_places(workspace),
        ]
    )
    all_of_them = Entry(made_by, content_of(workspace, "documents", [WHOLE])[WHOLE], 0)
    if workspace.ledger.read(_SEARCHED).get(WHOLE) == all_of_them:
        return
    documents = scan_table(workspace.tables, "documents").filter(status="ok")
    documents = documents.select(
        "document_id",
        "uri",
        text=pl.concat_str("title", pl.col("tags").list.join("\n"), "text", separator="\n\n"),
    )
    # The file of a revision may have another text: that of another program or version of a reader.
    texts = documents.select("document_id", "text").collect()
    inputs = {key: digest([made_by, text]) for key, text in texts.iter_rows()}
    known = workspace.ledger.read(_NAMED)
    workspace.ledger.forget(_NAMED, known.keys() - inputs.keys())
    pending = [key for key, value in inputs.items() if key not in known or known[key].inputs != value]
    if pending:
        rows = documents.filter(pl.col("document_id").is_in(pending)).collect()
        found = _search_those_of_people(workspace, rows)
        workspace.ledger.record(
            _NAMED,
            {
                key: Entry(
                    inputs[key],
                    json.dumps(
                        [
                            document.uri,
                            document.people,
                            document.in_path,
                            *document.by_surname,
                            document.in_link,
                        ]
                    ),
                    sum(document.people.values()),
                )
                for key, document in found.items()
            },
        )
    workspace.ledger.record(_SEARCHED, {WHOLE: all_of_them})


def read_named_documents(workspace: Workspace) -> dict[str, NamedDocument]:
    """Read the documents that name members, by id, as the last run found them."""
    known = workspace.ledger.read(_NAMED)
    documents = {key: _parse(entry.content) for key, entry in sorted(known.items())}
    return {
        key: document
        for key, document in documents.items()
        if document.people or document.in_path or document.in_link
    }


def _parse(content: str) -> NamedDocument:
    uri, people, in_path, *rest = json.loads(content)
    in_link = rest.pop() if rest and isinstance(rest[-1], list) else []  # earlier releases wrote none
    return NamedDocument(uri, people, in_path, rest, in_link)


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
        "reject": "privacy.documents is reject, so contexts hold them, and posts that do are rejected",
    }[workspace.settings.privacy.documents]
    notice = (
        f"{len(named)} {inflect(len(named), 'document')} with {count} names of members: {listed}; {done}."
    )
    return {"documents_with_names": len(named), "names_in_documents": count, "notice": notice}


def list_unlinked(workspace: Workspace) -> list[str]:
    """List the ids of documents to which no post may link, since their paths or links name members."""
    if not _hides(workspace) or workspace.settings.privacy.documents == "keep":
        return []
    return [
        key
        for key, document in read_named_documents(workspace).items()
        if document.in_path or document.in_link
    ]


def list_hidden_names(workspace: Workspace) -> list[str]:
    """List the real names that posts and tables must not hold: all but those that kept documents show."""
    settings = workspace.settings
    names: list[str] = workspace.last_reading.read_names(
        workspace.chats_dir, settings.conversations
    ).to_list()
    if settings.privacy.documents != "keep":
        return names
    shown = {
        person
        for document in read_named_documents(workspace).values()
        for person in [*document.people, *document.in_path, *document.in_link]
    }
    members = _MemberNames(workspace)
    return [name for name in names if members.identify(members.finder.person(name)) not in shown]


def find_shown_names(workspace: Workspace) -> pl.DataFrame:
    """Find the documents of which readers see names of members: in their paths, or since the names are kept.

    Returns:
        ``uri``, and ``names``: how many names its title, tags and text hold.
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
    found = (
        {} if others.is_empty() else dict(_search(others, _MemberNames(workspace), make_linker(workspace)))
    )
    return found | {key: NamedDocument(uri, {}, []) for key, uri in unnamed.iter_rows()}


def _search(
    rows: pl.DataFrame, names: _MemberNames, link: Callable[[str], str]
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
    return people.names_beside(
        conversation, {person for document in named.values() for person in document.people}
    )


def _hides(workspace: Workspace) -> bool:
    return workspace.settings.privacy.pseudonyms and workspace.has_chats


def _replaces(workspace: Workspace) -> bool:
    return _hides(workspace) and workspace.settings.privacy.documents == "replace"
