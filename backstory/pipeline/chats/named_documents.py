"""Documents that name members of a chat: whom each names, as the last search of it found.

The documents stay as they are; :mod:`backstory.pipeline.chats.name_view` shows them with other names. Whom they name is
recorded, so that a run reads the real names, which only the exports hold, where it must replace one, and nowhere else.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import polars as pl

from backstory.base.ids import WRITTEN_PREFIX, digest, digest_json, is_written
from backstory.base.wording import count, name_some
from backstory.ingest.documents.written import is_of_source
from backstory.ingest.privacy.erasure_list import read_forgotten
from backstory.ingest.privacy.folding import fold
from backstory.ingest.privacy.names import Found, NameFinder, replace_found
from backstory.ingest.privacy.pseudonyms import make_pseudonym
from backstory.ingest.privacy.surnames import (
    SurnameFinder,
    find_surname,
    list_clear_surnames,
    spell_surname,
)
from backstory.ingest.sources.web_address import list_link_places, make_linker
from backstory.pipeline.chats.people import read_names, read_people
from backstory.pipeline.incremental.inputs import content_of
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.tables import WHOLE
from backstory.text.languages import detect_language
from backstory.text.stemmers import find_stemmer, list_stop_words
from backstory.writing.post_files import inspect_file

_NAMED: Final = "names in documents"
_SEARCHED: Final = "documents searched for names"
_VERSION: Final = "5"
"""Changes when the search finds other names in the same text."""
_LISTED: Final = 5
_SCHEMA: Final = pl.Schema(
    {
        "document_id": pl.String(),
        "uri": pl.String(),
        "place": pl.String(),
        "person": pl.String(),
        "times": pl.Int64(),
        "by_surname": pl.Boolean(),
    }
)
_IN_TEXT: Final = pl.col("place") == "text"


class MemberNames:
    """The real names of all members, as the exports write them, with the pseudonyms that the tables hold."""

    def __init__(self, workspace: Workspace) -> None:
        names = read_names(workspace)
        aliases = workspace.last_reading.read_aliases(workspace.chats_dir, workspace.settings.conversations)
        self.finder = NameFinder(names, aliases=aliases)
        self._secret = workspace.load_secret()
        forgotten = read_forgotten(workspace.forgotten)
        self._gone = {
            make_pseudonym(self.finder.person(name), self._secret): forgotten.token(name)
            for name in forgotten.list_held("member", names)
        }

    def identify(self, person: str) -> str:
        """Return the pseudonym of a person, given as the finder does; the placeholder of a forgotten one."""
        pseudonym = make_pseudonym(person, self._secret)
        return self._gone.get(pseudonym, pseudonym)

    def find(self, text: str, by_surname: Iterable[str]) -> list[Found]:
        """Find the names of members in a part of a document, and the surnames of those given by pseudonym."""
        people = (self._surnames[key].items() for key in by_surname)
        surnames = {surname: self.finder.person(name) for of_one in people for surname, name in of_one}
        return SurnameFinder(surnames).find(text, self.finder.find(text, "message"))

    def list_by_surname(self, text: str, found: Sequence[Found]) -> list[str]:
        """List the members whom a document names in full, and whose surname alone can be nobody else's in it."""
        if not found:
            return []
        owners: dict[str, set[str]] = defaultdict(set)
        full = set[str]()
        for match in found:
            key, written = self.identify(match.person), fold(text[match.start : match.end])
            for surname in filter(None, {*self._surnames.get(key, ()), find_surname(match.person)}):
                for letters in spell_surname(surname):
                    owners[letters].add(key)
                if fold(surname) in written:
                    full.add(key)
        candidates = {
            key: self._surnames[key]
            for key in sorted(full & self._surnames.keys())
            if all(owners[part] == {key} for known in self._surnames[key] for part in spell_surname(known))
        }
        people = {surname: person for of_one in candidates.values() for surname, person in of_one.items()}
        stop_words = list_stop_words(find_stemmer(detect_language([text])))
        clear = list_clear_surnames(text, people, found, stop_words)
        return [key for key, surnames in candidates.items() if clear.issuperset(surnames)]

    def replace(self, text: str, by_surname: Iterable[str], shown: Mapping[str, str]) -> str:
        """Write other names in place of those of members."""

        def write(person: str) -> str:
            pseudonym = self.identify(person)
            return shown.get(pseudonym, pseudonym)

        return replace_found(text, lambda part: self.find(part, by_surname), write)

    @cached_property
    def _surnames(self) -> Mapping[str, Mapping[str, str]]:
        """The surnames of all members by pseudonym, each with the name that it is of."""
        surnames: dict[str, dict[str, str]] = defaultdict(dict)
        for person in self.finder.list_names():
            if surname := find_surname(person):
                surnames[self.identify(self.finder.person(person))][surname] = person
        return surnames


def record_named_documents(workspace: Workspace) -> None:
    """Search the documents that are new, or were not searched for the present names, for names of members."""
    if not workspace.hides_names:
        for table in (_NAMED, _SEARCHED):
            workspace.catalog.forget(table, workspace.catalog.read(table))
        return
    present = describe_names(workspace)
    if is_searched(workspace, present):
        return
    documents = read_texts(workspace)
    # The file of a revision may have another text: that of another program or version of a reader.
    texts = documents.select("document_id", "text").iter_rows()
    inputs = {key: digest([present.inputs, text]) for key, text in texts}
    known = workspace.catalog.read(_NAMED)
    workspace.catalog.forget(_NAMED, known.keys() - inputs.keys())
    pending = [key for key, value in inputs.items() if key not in known or known[key].inputs != value]
    found = find_named(workspace, documents.filter(pl.col("document_id").is_in(pending)))
    rows = found.rows_by_key("document_id", include_key=True)
    entries = {key: Entry(inputs[key], json.dumps(rows[key]), len(rows[key])) for key in pending}
    workspace.catalog.record(_NAMED, entries)
    workspace.catalog.record(_SEARCHED, {WHOLE: present})


def describe_names(workspace: Workspace) -> Entry:
    """Describe the present documents and names as the catalog does after a search of all of them."""
    forgotten = read_forgotten(workspace.forgotten).fingerprint
    searched_for = [_VERSION, read_people(workspace).real, forgotten, *list_link_places(workspace)]
    return Entry(digest(searched_for), content_of(workspace, "documents", [WHOLE])[WHOLE], 0)


def is_searched(workspace: Workspace, names: Entry | None) -> bool:
    """Return whether documents and names, as :func:`describe_names` describes them, are those of the last search."""
    return workspace.catalog.read(_SEARCHED).get(WHOLE) == names


def read_texts(workspace: Workspace) -> pl.DataFrame:
    """Read what is searched of the documents: id, uri, and title, tags and text as one text."""
    columns = ("document_id", "uri", "title", "tags", "text", "status")
    text = pl.concat_str("title", pl.col("tags").list.join("\n"), "text", separator="\n\n")
    documents = workspace.tables.read("documents", columns=columns).filter(status="ok")
    return documents.select("document_id", "uri", text=text)


def find_named(workspace: Workspace, documents: pl.DataFrame) -> pl.DataFrame:
    """Search documents, as :func:`read_texts` gives them, for members; see :func:`read_named_documents`.

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
        members, link = MemberNames(workspace), make_linker(workspace)
        finder = members.finder
        in_text, in_path = (
            finder.may_hold(searched["text"], "message"),
            finder.may_hold(searched["uri"], "identifier"),
        )
        for (key, uri, text), may_text, may_path in zip(searched.iter_rows(), in_text, in_path, strict=True):
            found = finder.find(text, "message") if may_text else []
            by_surname = members.list_by_surname(text, found)
            places = {
                "text": members.find(text, by_surname) if by_surname else found,
                "path": finder.find(uri, "identifier") if may_path else [],
                "link": finder.find(link(uri), "identifier") if is_of_source(uri) else [],
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


def name_everybody(workspace: Workspace, conversation: str) -> Mapping[str, str]:
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
    people = read_people(workspace)
    mentioned = set(read_named_documents(workspace).filter(_IN_TEXT)["person"])
    shown = {name: people.names_beside(name, mentioned) for name in people.languages}
    return digest_json(
        [sent, {name: {one: names.get(one) for one in mentioned} for name, names in shown.items()}]
    )


def list_withheld(workspace: Workspace) -> list[str]:
    """List the ids of documents that no chat model is sent, since they name members."""
    if not workspace.hides_names or workspace.settings.privacy.documents != "reject":
        return []
    return _list_ids(workspace, _IN_TEXT)


def list_unlinked(workspace: Workspace) -> list[str]:
    """List the ids of documents to which no post may link, since their paths or links name members."""
    if not workspace.hides_names or workspace.settings.privacy.documents == "keep":
        return []
    return _list_ids(workspace, ~_IN_TEXT)


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
    named = (
        read_named_documents(workspace)
        .filter(_IN_TEXT)
        .group_by("uri")
        .agg(pl.col("times").sum())
        .sort("uri")
    )
    if named.is_empty():
        return {}
    names = int(named["times"].sum())
    listed = name_some([f"{uri} ({times})" for uri, times in named.iter_rows()], _LISTED)
    done = {
        "replace": "what is shown of them has the names that readers see",
        "keep": "privacy.documents is keep, so contexts and posts hold them",
        "reject": "privacy.documents is reject, so no chat model is sent these documents, contexts hold the names, "
        "and posts that do are rejected",
    }[workspace.settings.privacy.documents]
    notice = f"{count(len(named), 'document')} with {names} names of members: {listed}; {done}."
    return {"documents_with_names": len(named), "names_in_documents": names, "notice": notice}


def _list_ids(workspace: Workspace, is_meant: pl.Expr) -> list[str]:
    return (
        read_named_documents(workspace).filter(is_meant)["document_id"].unique(maintain_order=True).to_list()
    )
