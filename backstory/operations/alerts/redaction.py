"""Redact what must not leave the machine: names of chat files, quotes of chats, and keys."""

from __future__ import annotations

import re

from backstory.base.errors import WorkspaceError
from backstory.ingest.chats.export_files import list_files
from backstory.models.services.failures import hide_quotes, redact
from backstory.pipeline.workspace import Workspace

_SHORTEST = 3
"""Length of the shortest name that is redacted; a shorter one would hide parts of other words."""


def hide_chats(workspace: Workspace, sentence: str) -> str:
    """Leave out quotes, and replace names of exports and their folders by ``[chat]``: they may be names of people.

    Names in the table ``sources`` need none of this: they are pseudonyms already.

    Args:
        workspace: An open workspace; without pseudonyms its file names stay.
        sentence: A sentence that is about to leave the machine.

    Returns:
        The sentence, also without anything that looks like a key.
    """
    sentence = hide_quotes(redact(sentence, None))
    if not workspace.settings.privacy.pseudonyms or not workspace.chats_dir.is_dir():
        return sentence
    try:
        paths = [listed.path.relative_to(workspace.chats_dir) for listed in list_files(workspace.chats_dir)]
    except WorkspaceError:
        return "the run failed, and the folder of chats cannot be listed; see the output of the run"
    names = {name for path in paths for name in (str(path), *path.parts, path.stem)}
    for name in sorted(names, key=len, reverse=True):
        if len(name) >= _SHORTEST:
            sentence = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "[chat]", sentence)
    return sentence
