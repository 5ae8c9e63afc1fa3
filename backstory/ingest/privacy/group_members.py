"""Finds members of a group in the lines that the app writes: who added whom, who left, who changed something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple


class Phrase(NamedTuple):
    """Text that the app writes after a person's name.

    Attributes:
        verbs: Alternatives for the text directly after the first name.
        endings: Alternatives for the end of the line; empty for any end.
        has_objects: Whether names stand between the verb and the ending.
    """

    verbs: tuple[str, ...]
    endings: tuple[str, ...] = ("",)
    has_objects: bool = False


# Matched with find and endswith: regular expressions with two open parts take quadratic time on a long line.
_PHRASES: Final = (
    Phrase((" added ", " removed "), has_objects=True),
    Phrase((" hat ",), (" hinzugefügt", " entfernt"), has_objects=True),
    Phrase((" adicionou ", " removeu "), has_objects=True),
    Phrase((" añadió a ", " agregó a ", " eliminó a "), has_objects=True),
    Phrase((" a ajouté ", " a retiré ", " a supprimé "), has_objects=True),
    Phrase((" ha aggiunto ", " ha rimosso "), has_objects=True),
    Phrase((), (" left", " was added", " was removed", " is now an admin", " pinned a message")),
    Phrase((" joined using ", " created this group", " created group")),
    Phrase(
        (" changed the ", " changed this ", " changed their ", " changed to ", " turned on ", " turned off ")
    ),
    Phrase((" hat die Gruppe ",)),
    Phrase((" hat den ",), (" geändert",)),
    Phrase((" ist ",), (" beigetreten",)),
    Phrase((), (" wurde hinzugefügt", " wurde entfernt")),
    Phrase((), (" saiu",)),
    Phrase((" criou o grupo", " criou este grupo", " mudou ", " alterou ", " entrou usando ")),
    Phrase((), (" salió", " fue añadido", " fue añadida")),
    Phrase((" creó el grupo", " creó este grupo", " cambió ", " se unió ")),
    Phrase((), (" est parti", " est partie", " a été ajouté", " a été ajoutée")),
    Phrase((" a quitté ", " a créé ", " a changé ", " a rejoint ")),
    Phrase((), (" è stato aggiunto", " è stata aggiunta", " è stato aggiunta", " è stata aggiunto")),
    Phrase((" ha abbandonato", " ha creato ", " ha cambiato ")),
)
_BETWEEN_NAMES: Final = re.compile(r",\s+|\s(?:and|und|e|y|et)\s")
_NO_NAMES: Final = frozenset(
    ["you", "your", "du", "dich", "sie", "você", "tú", "tu", "te", "ti", "vous", "hai", "someone", "admin"]
)
_NO_NAME_BEGINNINGS: Final = tuple(
    f"{word} " for word in ["this", "the", "your", "diese", "die", "este", "esta", "ce", "questo", "an"]
)


def find_members(app_lines: Iterable[str]) -> list[str]:
    """Find names of people in the lines that the app writes into a group."""
    members: set[str] = set()
    for text in app_lines:
        line = text.strip().partition("\n")[0].removesuffix(".")
        for phrase in _PHRASES:
            named = _match(line, phrase)
            if named is not None:
                members.update(_names_in(*named))
                break
    return sorted(members)


def _match(line: str, phrase: Phrase) -> tuple[str, str] | None:
    """Return the name before the phrase and the text between verb and ending, or None if the line has another form."""
    ending = next((ending for ending in phrase.endings if line.endswith(ending)), None)
    if ending is None:
        return None
    rest = line.removesuffix(ending)
    if not phrase.verbs:
        return (rest, "") if rest else None
    places = [(place, verb) for verb in phrase.verbs if (place := rest.find(verb, 1)) > 0]
    if not places:
        return None
    place, verb = min(places)
    objects = rest[place + len(verb) :]
    return (rest[:place], objects if phrase.has_objects else "")


def _names_in(subject: str, objects: str) -> list[str]:
    if subject.casefold().startswith(_NO_NAME_BEGINNINGS):
        return []
    names = [subject, *_BETWEEN_NAMES.split(objects)]
    return [name.strip() for name in names if name.strip() and name.strip().casefold() not in _NO_NAMES]
