"""Finds members of a group in the lines that the app writes: who added whom, who left, who changed something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

# `…` stands for further names, `*` for any text. Searched as plain texts, since regular expressions with two open parts
# take quadratic time on a long line.
_PHRASES: Final = tuple(
    f" {phrase.strip()}"
    for phrase in """
    added … | removed … | left | was added | was removed | is now an admin | pinned a message | joined using *
    created this group* | created group* | changed the * | changed this * | changed their * | changed to *
    turned on * | turned off * | hat … hinzugefügt | hat … entfernt | hat die Gruppe * | hat den * geändert
    ist * beigetreten | wurde hinzugefügt | wurde entfernt | adicionou … | removeu … | saiu | criou o grupo*
    criou este grupo* | mudou * | alterou * | entrou usando * | añadió a … | agregó a … | eliminó a … | salió
    fue añadido | fue añadida | creó el grupo* | creó este grupo* | cambió * | se unió * | a ajouté … | a retiré …
    a supprimé … | est parti | est partie | a été ajouté | a été ajoutée | a quitté * | a créé * | a changé *
    a rejoint * | ha aggiunto … | ha rimosso … | è stato aggiunto | è stata aggiunta | è stato aggiunta
    è stata aggiunto | ha abbandonato* | ha creato * | ha cambiato *
    """.replace("\n", "|").split("|")
    if phrase.strip()
)
"""What the app writes after the name of a person."""
_OPEN: Final = re.compile("([…*])")
_BETWEEN_NAMES: Final = re.compile(r",\s+|\s(?:and|und|e|y|et)\s")
_NO_NAMES: Final = frozenset(
    [
        "",
        "you",
        "your",
        "du",
        "dich",
        "sie",
        "você",
        "tú",
        "tu",
        "te",
        "ti",
        "vous",
        "hai",
        "someone",
        "admin",
    ]
)
_NO_NAME_BEGINNINGS: Final = (
    "this ",
    "the ",
    "your ",
    "diese ",
    "die ",
    "este ",
    "esta ",
    "ce ",
    "questo ",
    "an ",
)


def find_members(app_lines: Iterable[str]) -> list[str]:
    """Find names of people in the lines that the app writes into a group."""
    members = set[str]()
    for text in app_lines:
        line = text.strip().partition("\n")[0].removesuffix(".")
        if not line.casefold().startswith(_NO_NAME_BEGINNINGS):
            names = min(
                filter(None, (_match(line, phrase) for phrase in _PHRASES)), default=[], key=_length_of_first
            )
            members.update(name.strip() for name in names if name.strip().casefold() not in _NO_NAMES)
    return sorted(members)


def _match(line: str, phrase: str) -> list[str]:
    """Return the names of a line of the form of a phrase; none if it has another form."""
    verb, *open_end = _OPEN.split(phrase)
    ending = open_end[-1] if open_end else verb
    if not line.endswith(ending):
        return []
    rest = line.removesuffix(ending)
    place = rest.find(verb, 1) if open_end else len(rest)
    if place < 1:
        return []
    return [rest[:place], *(_BETWEEN_NAMES.split(rest[place + len(verb) :]) if "…" in open_end else [])]


def _length_of_first(names: list[str]) -> int:
    return len(names[0])
