"""The names under which readers see the people of each conversation, as the last reading of the exports gave them.

The tables name people by keyed pseudonyms. The names for readers follow from the messages, the real names and the
settings alone, so a run of all days and a run of a few give the same; :mod:`backstory.ingest.privacy.pseudonyms` says
by which rule.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import polars as pl

from backstory.base.errors import SettingsError
from backstory.base.ids import PSEUDONYM_PREFIX, digest
from backstory.ingest.chats.exports import ExportRead
from backstory.ingest.privacy.exclusions import Forgotten
from backstory.ingest.privacy.forms import fold
from backstory.ingest.privacy.names import (
    Found,
    NameFinder,
    find_surname,
    find_surnames,
    list_clear_surnames,
    replace_found,
    spell_surname,
)
from backstory.ingest.privacy.pseudonyms import (
    DEFAULT_LANGUAGE,
    PSEUDONYM,
    assign_names,
    find_members,
    list_usable_words,
    load_words,
    make_finder,
    make_pseudonym,
)
from backstory.pipeline.incremental.inputs import code_version
from backstory.pipeline.workspace import Workspace
from backstory.storage.tables.catalog import Entry
from backstory.storage.tables.partitions import Grain, partition_keys
from backstory.storage.tables.tables import WHOLE
from backstory.text.languages import detect_language
from backstory.text.people import is_pseudonym, name_people
from backstory.text.prompts.entries import format_message
from backstory.text.words import find_stemmer, list_stop_words

_PEOPLE: Final = "people"
_UNKNOWN: Final = "someone"
"""The author of a message whose export names none."""
_READ_FOR_LANGUAGE: Final = 500
"""Messages of a conversation, the earliest ones, that decide its language: later ones rename nobody."""

logger = logging.getLogger(__name__)

Names = Mapping[str, str]
"""Names for readers, by pseudonym."""


class People(NamedTuple):
    """The people of all conversations; nobody where pseudonyms are switched off.

    ``seen`` has by conversation pseudonym, name and partition of the first message by or about each person;
    ``languages`` the language of each conversation; ``words`` by language those that may be names; ``agreed`` the names
    that people chose, by pseudonym; ``real`` is a keyed hash of all real names.
    """

    seen: Mapping[str, Sequence[Sequence[str]]]
    languages: Mapping[str, str]
    words: Mapping[str, Sequence[str]]
    agreed: Names
    real: str = ""

    def names_in(self, conversation: str) -> Names:
        """Return the names for readers of the people of a conversation, by pseudonym."""
        return {person: name for person, name, _ in self.seen.get(conversation, ())}

    def names_beside(self, conversation: str, others: Collection[str]) -> Names:
        """Return the names of the people of a conversation, and of others, who come after them in the choice.

        Others have no name but a chosen one in a conversation that the last reading of the exports did not find.
        """
        known = self.names_in(conversation)
        beside = sorted(person for person in others if person not in known and is_pseudonym(person))
        words = self.words.get(self.languages.get(conversation, ""), ())
        return {**known, **assign_names(beside, words, self.agreed, known.values())}

    def fingerprint(self, partitions: Iterable[str]) -> dict[str, str]:
        """Hash for each partition the names of the people whom its messages may name.

        People who are first seen later do not count, so that whoever joins makes nothing earlier again.
        """
        by_partition: dict[str, list[str]] = defaultdict(list)
        for conversation, people in self.seen.items():
            for person, name, partition in people:
                by_partition[partition].append(f"{conversation} {person} {name}")
        hashed, known = "", dict[str, str]()
        for key in sorted({*by_partition, *partitions}):
            if key in by_partition:
                hashed = digest([hashed, *sorted(by_partition[key])], length=16)
            known[key] = hashed
        return {key: known[key] for key in partitions}


def find_people(workspace: Workspace, read: ExportRead, messages: pl.DataFrame) -> People:
    """Name the people of all conversations for readers."""
    if not workspace.settings.privacy.pseudonyms:
        return People({}, {}, {}, {})
    agreed = _find_agreed(workspace, read)
    app_texts = read.messages.filter(kind="system")["text"].drop_nulls().unique()
    real = [*read.names, *find_members(app_texts), *agreed.values()]
    languages = _choose_languages(messages)
    words = {language: list_usable_words(language, real) for language in {*languages.values()}}
    seen: dict[str, list[tuple[str, str, str]]] = {}
    for conversation, rows in _find_first_messages(messages, workspace.settings.partitions.grain).items():
        people = dict(rows)
        names = assign_names(list(people), words[languages[conversation]], agreed)
        seen[conversation] = [(person, name, people[person]) for person, name in names.items()]
    return People(seen, languages, words, agreed, hash_names(workspace))


def record_people(workspace: Workspace, people: People) -> None:
    """Record people and their names, after the copies that show withdrawn names are cleared.

    A killed run that has recorded them before would leave these copies for good, since no later run knows the names.
    """
    written = json.dumps(people, sort_keys=True)
    workspace.catalog.record(_PEOPLE, {WHOLE: Entry("", written, len(people.seen))})


def read_people(workspace: Workspace) -> People:
    """Read the people that :func:`record_people` recorded."""
    entry = workspace.catalog.read(_PEOPLE).get(WHOLE)
    return People({}, {}, {}, {}) if entry is None else _parse(entry.content)


@lru_cache(maxsize=4)
def _parse(content: str) -> People:
    # A run reads the same people for each partition and table.
    return People(*json.loads(content))


def read_names(workspace: Workspace) -> list[str]:
    """Read the real names of all people from the exports, which alone hold them."""
    return workspace.last_reading.read_people()[0]


def hash_names(workspace: Workspace) -> str:
    """Return a keyed hash of all real names, as the exports give them now; empty if they are not hidden."""
    if not workspace.settings.privacy.pseudonyms:
        return ""
    secret = workspace.load_secret()
    names, aliases = workspace.last_reading.read_people()
    named = [*names, *(f"{alias} of {name}" for alias, name in sorted(aliases.items()))]
    return digest([code_version("messages"), *(make_pseudonym(name, secret) for name in named)])


class MemberNames:
    """The real names of all members, as the exports write them, with the pseudonyms that the tables hold."""

    def __init__(self, workspace: Workspace) -> None:
        names, aliases = workspace.last_reading.read_people()
        self.finder = NameFinder(names, aliases=aliases)
        self._secret = workspace.load_secret()
        forgotten = Forgotten.read(workspace.forgotten)
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
        return find_surnames(text, surnames, self.finder.find(text, "message"))

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


def show_chunks(window_chunks: pl.DataFrame, windows: pl.DataFrame, people: People) -> pl.Series:
    """Return the texts of query chunks as readers see them."""
    conversations = dict(windows.select("window_id", "conversation_id").iter_rows())
    names = {name: people.names_in(name) for name in set(conversations.values())}
    return pl.Series(
        "text",
        [
            name_people(text, names[conversations[window_id]])
            for window_id, text in window_chunks.select("window_id", "text").iter_rows()
        ],
        dtype=pl.String,
    )


def show_messages(windows: pl.DataFrame, messages: pl.DataFrame, people: People) -> pl.DataFrame:
    """Write the messages of windows as readers see them."""
    names = {conversation: people.names_in(conversation) for conversation in people.seen}
    is_said = (pl.col("kind") != "system") & (pl.col("text").str.strip_chars() != "")
    said = messages.filter(is_said).with_columns(sent_at=pl.col("local_time").dt.strftime("%Y-%m-%d %H:%M"))
    written = [
        format_message(name_people(author or _UNKNOWN, known), sent_at, name_people(text, known))
        for conversation, author, sent_at, text in said.select(
            "conversation_id", "author", "sent_at", "text"
        ).iter_rows()
        for known in [names.get(conversation, {})]
    ]
    lines = said.select("message_id", line=pl.Series(written, dtype=pl.String))
    places = pl.int_ranges(1, pl.col("message_ids").list.len() + 1)
    listed = pl.format("- ({}) {}\n", "place", "line")
    return (
        windows.select("window_id", message_id="message_ids", place=places)
        .explode("message_id", "place")
        .join(messages.select("message_id", "local_time"), on="message_id", maintain_order="left")
        .join(lines, on="message_id", how="left", maintain_order="left")
        .group_by("window_id", maintain_order=True)
        .agg(
            messages=listed.str.join(),
            said_count=pl.col("line").count(),
            local_started_at=pl.col("local_time").first(),
            local_ended_at=pl.col("local_time").last(),
        )
    )


def _find_agreed(workspace: Workspace, read: ExportRead) -> dict[str, str]:
    """Find the people of ``privacy.names``, and return what they are called by pseudonym."""
    entries = workspace.settings.privacy.names
    if not entries:
        return {}
    secret = workspace.load_secret()
    finder = make_finder(read.messages, read.aliases, read.unread_authors)

    def identify(written: str) -> str:
        return make_pseudonym(finder.person(written), secret)

    known = set(map(identify, read.names))
    agreed: dict[str, str] = {}
    for number, (written, name) in enumerate(entries.items(), start=1):
        person = written if written.startswith(PSEUDONYM_PREFIX) else identify(written)
        owner = identify(name.shown)
        if owner in known and owner != person:
            raise SettingsError(
                f"privacy.names: entry {number} shows a person by the name of another member; choose another name",
                code="name_of_another",
            )
        if person not in known:
            logger.warning(
                "privacy.names: nobody wrote under the name of entry %d in the exports, so it names nobody. Write the "
                "name as the exports do, or the pseudonym as the tables do",
                number,
            )
        agreed[person] = name.shown
    return agreed


def _choose_languages(messages: pl.DataFrame) -> dict[str, str]:
    """Choose the language of the names by conversation: that of its earliest messages, if there are words in it."""
    written = pl.col("text").filter(pl.col("kind") != "system").drop_nulls().head(_READ_FOR_LANGUAGE)
    texts = messages.sort("timestamp", maintain_order=True).group_by("conversation_id").agg(written)
    found = {name: detect_language(read) for name, read in texts.iter_rows()}
    return {
        name: language if language and language in load_words() else DEFAULT_LANGUAGE
        for name, language in found.items()
    }


def _find_first_messages(messages: pl.DataFrame, grain: Grain) -> dict[str, list[tuple[str, str]]]:
    """Return by conversation who writes or is mentioned, in the order of the first message, with its partition."""
    place = ("conversation_id", "timestamp", "local_time")
    mentioned = messages.select(*place, person=pl.col("text").str.extract_all(PSEUDONYM)).explode("person")
    seen = (
        pl.concat([messages.select(*place, person="author"), mentioned])
        .filter(pl.col("person").str.contains(f"^{PSEUDONYM}$"))
        .sort("timestamp", maintain_order=True)
        .group_by("conversation_id", "person")
        .agg(pl.col("timestamp", "local_time").first())
        .sort("conversation_id", "timestamp", "person")
    )
    rows = seen.select("conversation_id", "person", partition_keys(seen, grain))
    return rows.rows_by_key("conversation_id")
