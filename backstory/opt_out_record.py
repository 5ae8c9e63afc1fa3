"""The list of people who opted out by a command in a chat, which counts on when no export holds the command."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from backstory.atomic_files import exclusive_temporary, publish, temporary_path
from backstory.errors import WorkspaceError
from backstory.ids import digest, digest_json
from backstory.messages import Command

_SALT_BYTES = 16


@dataclass(frozen=True)
class OptOutRecord:
    """Who is out of which chat, as hashes, so that the list itself reveals no name.

    Attributes:
        salt: Random bytes that make the hashes differ between workspaces.
        moments: When each person wrote the command, by the hash of chat and person.
    """

    salt: str = ""
    moments: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Hash of the list; empty if nobody is out of a chat by a command."""
        return digest_json([self.salt, _write_moments(self.moments)], length=16) if self.moments else ""

    def find(self, chat: str, person: str) -> datetime | None:
        """Return when a person opted out of a chat; None if the list does not say that they did."""
        return self.moments.get(self.hash(chat, person))

    def update(self, commands: Iterable[Command]) -> OptOutRecord:
        """Return the list after further commands: one to be out adds its author, one to be in removes them."""
        known = self if self.salt else OptOutRecord(secrets.token_hex(_SALT_BYTES))
        moments = dict(known.moments)
        for command in commands:
            key = known.hash(command.chat, command.person)
            if command.is_out:
                moments[key] = command.moment
            else:
                moments.pop(key, None)
        return OptOutRecord(known.salt, moments)

    def hash(self, chat: str, person: str) -> str:
        """Hash one entry as the list holds it."""
        return digest([self.salt, chat, person])


def read_opt_outs(path: Path) -> OptOutRecord:
    """Read the list of a workspace; empty if nobody ever opted out in a chat.

    Raises:
        WorkspaceError: The file is not such a list.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        moments = {str(key): datetime.fromisoformat(moment) for key, moment in record["moments"].items()}
        return OptOutRecord(str(record["salt"]), moments)
    except FileNotFoundError:
        return OptOutRecord()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorkspaceError(
            f"{path} is damaged, so that it is not known who opted out in a chat; restore it from a backup, or delete "
            "it, which lets those opt-outs end whose command `#backstory off` no export holds any more"
        ) from error


def write_opt_outs(path: Path, record: OptOutRecord) -> None:
    """Replace the list of a workspace, and flush it to disk."""
    content = {"salt": record.salt, "moments": _write_moments(record.moments)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_temporary(path) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(f"{json.dumps(content, indent=1)}\n".encode())
        file.flush()
        publish(temporary_path(path), path)


def _write_moments(moments: Mapping[str, datetime]) -> dict[str, str]:
    return {key: moment.isoformat() for key, moment in sorted(moments.items())}
