"""Members of a group, as the app's own lines name them: who added whom, who left, who changed what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_SUBJECT_AND_OBJECTS: Final = (
    r"(?P<subject>.+?) (?:added|removed) (?P<objects>.+)",
    r"(?P<subject>.+?) hat (?P<objects>.+?) (?:hinzugefügt|entfernt)",
    r"(?P<subject>.+?) (?:adicionou|removeu) (?P<objects>.+)",
    r"(?P<subject>.+?) (?:añadió|agregó|eliminó) a (?P<objects>.+)",
    r"(?P<subject>.+?) a (?:ajouté|retiré|supprimé) (?P<objects>.+)",
    r"(?P<subject>.+?) ha (?:aggiunto|rimosso) (?P<objects>.+)",
)
_SUBJECT_ALONE: Final = (
    r"(?P<subject>.+?) (?:left|was added|was removed|joined using .+|is now an admin|pinned a message)",
    r"(?P<subject>.+?) (?:created (?:this )?group.*|changed (?:the|this|their|to) .+|turned (?:on|off) .+)",
    r"(?P<subject>.+?) (?:hat die Gruppe .+|hat den .+ geändert|ist .+ beigetreten)",
    r"(?P<subject>.+?) (?:wurde hinzugefügt|wurde entfernt)",
    r"(?P<subject>.+?) (?:saiu|criou (?:o|este) grupo.*|mudou .+|alterou .+|entrou usando .+)",
    r"(?P<subject>.+?) (?:salió|creó (?:el|este) grupo.*|cambió .+|se unió .+|fue añadid[oa])",
    r"(?P<subject>.+?) (?:est partie?|a quitté .+|a créé .+|a changé .+|a rejoint .+|a été ajoutée?)",
    r"(?P<subject>.+?) (?:ha abbandonato.*|ha creato .+|ha cambiato .+|è stat[oa] aggiunt[oa])",
)
_PATTERNS: Final = tuple(re.compile(rf"{pattern}\.?") for pattern in (*_SUBJECT_AND_OBJECTS, *_SUBJECT_ALONE))
_BETWEEN_NAMES: Final = re.compile(r",\s+|\s+(?:and|und|e|y|et)\s+")
_NO_NAMES: Final = frozenset(
    ["you", "your", "du", "dich", "sie", "você", "tú", "tu", "te", "ti", "vous", "hai", "someone", "admin"]
)
_NO_NAME_BEGINNINGS: Final = tuple(
    f"{word} " for word in ["this", "the", "your", "diese", "die", "este", "esta", "ce", "questo", "an"]
)


def find_members(app_lines: Iterable[str]) -> list[str]:
    """Find names of people in the lines that the app writes into a group.

    Args:
        app_lines: Texts of system messages, in English, German, Portuguese, Spanish, French or Italian.

    Returns:
        The names, sorted.
    """
    members: set[str] = set()
    for line in app_lines:
        for pattern in _PATTERNS:
            match = pattern.fullmatch(line.strip())
            if match:
                members.update(_names_in(match))
                break
    return sorted(members)


def _names_in(match: re.Match[str]) -> list[str]:
    parts = match.groupdict()
    if parts["subject"].casefold().startswith(_NO_NAME_BEGINNINGS):
        return []
    names = [parts["subject"], *_BETWEEN_NAMES.split(parts.get("objects") or "")]
    return [name.strip() for name in names if name.strip() and name.strip().casefold() not in _NO_NAMES]
