"""The real names of the members of all chats, which only the exports hold, and the pseudonyms of the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from backstory.ingest.privacy.erasure_list import list_forgotten_members, read_forgotten
from backstory.ingest.privacy.folding import fold
from backstory.ingest.privacy.names import Found, NameFinder, replace_found, write_possessive
from backstory.ingest.privacy.pseudonyms import make_pseudonym
from backstory.ingest.privacy.surnames import (
    SurnameFinder,
    find_surname,
    list_clear_surnames,
    spell_surname,
)
from backstory.pipeline.workspace import Workspace
from backstory.text.languages import detect_language
from backstory.text.stemmers import find_stemmer, list_stop_words


class MemberNames:
    """The real names of all members, as the exports write them, with the pseudonyms that the tables hold."""

    def __init__(self, workspace: Workspace) -> None:
        settings = workspace.settings.conversations
        names = workspace.last_reading.read_names(workspace.chats_dir, settings)
        aliases = workspace.last_reading.read_aliases(workspace.chats_dir, settings)
        self.finder = NameFinder(names, aliases=aliases)
        self._secret = workspace.load_secret()
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

    def replace(self, text: str, by_surname: Iterable[str], shown: Mapping[str, str]) -> str:
        """Write other names in place of those of members."""

        def write(found: Found, written: str) -> str:
            pseudonym = self.identify(found.person)
            return write_possessive(shown.get(pseudonym, pseudonym), written)

        return replace_found(text, lambda part: self.find(part, by_surname), write)

    def _make_pseudonym(self, person: str) -> str:
        return make_pseudonym(self.finder.resolve(person), self._secret)
