"""A server on this machine that answers the calls of version 3 of Google Drive that are used.

It is as strict as Google documents: the folders of a shared drive are listed only to those who name the drive.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pydantic import SecretStr

from backstory.base.environment import DRIVE_VARIABLE
from backstory.ingest.documents.files import FileRules
from backstory.ingest.sources import drive as google_drive
from backstory.ingest.sources.drive import DriveRemote
from backstory.ingest.sources.remotes import MirrorState, read_state, update_mirror
from tests.loopback import Received, listen

GOOGLE = "application/vnd.google-apps"
FOLDER = f"{GOOGLE}.folder"
SHORTCUT = f"{GOOGLE}.shortcut"
MARKDOWN = "text/markdown"
NOT_FOUND = b'{"error": {"errors": [{"reason": "notFound"}]}}'


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Node:
    name: str
    kind: str
    content: bytes = b""
    day: int = 1
    parent: str = "root"
    drive: str = ""
    target: str = ""
    is_trashed: bool = False
    is_shared: bool = True


@dataclass
class Drive:
    """Files by id, what was asked for, answers given first, and a call that fails."""

    nodes: dict[str, Node] = field(default_factory=lambda: {"root": Node("Root", FOLDER, parent="")})
    page_size: int = 2
    asked: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    refusals: list[Answer] = field(default_factory=list)
    outage: str | None = None
    address: str = ""

    def put(
        self, key: str, name: str, kind: str = MARKDOWN, content: bytes = b"", *, day: int = 1, below: str = "root",
        drive: str = "", target: str = "",
    ) -> None:  # fmt: skip
        self.nodes[key] = Node(name, kind, content, day, below, drive, target)

    def change(self, key: str, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self.nodes[key], name, value)

    def delete(self, key: str) -> None:
        del self.nodes[key]

    def above(self, key: str) -> list[Node]:
        """Return a node and the folders above it."""
        found = []
        while node := self.nodes.get(key):
            found.append(node)
            key = node.parent
        return found

    def is_visible(self, key: str) -> bool:
        return key in self.nodes and all(node.is_shared for node in self.above(key))

    def describe(self, key: str) -> dict[str, Any]:
        node = self.nodes[key]
        return {
            "id": key, "name": node.name, "mimeType": node.kind,
            "modifiedTime": f"2025-03-{node.day:02}T10:00:00.000Z",
            "trashed": any(each.is_trashed for each in self.above(key)),
            **({"parents": [node.parent]} if self.is_visible(node.parent) else {}),
            **({"driveId": node.drive} if node.drive else {}),
            **({"shortcutDetails": {"targetId": node.target}} if node.kind == SHORTCUT else {}),
            **({} if node.kind.startswith(GOOGLE)
               else {"size": str(len(node.content)), "md5Checksum": node.content.hex()}),
        }  # fmt: skip

    def answer(self, received: Received) -> Answer:
        parts = urlsplit(received.path)
        if parts.path == "/token":
            return self.give_token(received)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = parts.path.removeprefix("/")
        self.asked.append(f"{path} media" if asked.get("alt") == "media" else path)
        self.authorizations.append(received.headers.get("authorization", ""))
        assert asked["supportsAllDrives"] == "true"
        if self.refusals:
            return self.refusals.pop(0)
        if path == self.outage:
            return Answer(b"{}", 503, {"Retry-After": "0.01"})
        if path == "files":
            return self.list(asked)
        key = path.split("/")[1]
        if not self.is_visible(key):
            return Answer(NOT_FOUND, 404)
        if path.endswith("/export"):
            return Answer(f"{asked['mimeType']}\n".encode() + self.nodes[key].content)
        if asked.get("alt") == "media":
            return Answer(self.nodes[key].content)
        return _answer(self.describe(key))

    def give_token(self, received: Received) -> Answer:
        """Give an access token that names who signed in: a service account, or the holder of a refresh token."""
        form = {name: values[0] for name, values in parse_qs(received.body.decode()).items()}
        if "assertion" in form:
            payload = form["assertion"].split(".")[1]
            who = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["iss"]
        else:
            who = form["refresh_token"]
        if who in self.refused:
            return Answer(b'{"error": "invalid_grant"}', 400)
        return _answer({"access_token": f"token-of-{who}", "expires_in": 3600, "token_type": "Bearer"})

    def list(self, asked: dict[str, str]) -> Answer:
        found = re.fullmatch(r"'([\w-]+)' in parents and trashed = false", asked["q"])
        assert found is not None
        assert asked["includeItemsFromAllDrives"] == "true"
        if not self.is_visible(found[1]):
            return Answer(NOT_FOUND, 404)
        drive = self.nodes[found[1]].drive
        is_named = asked.get("driveId", "") == drive and (not drive or asked.get("corpora") == "drive")
        inside = [
            self.describe(key)
            for key, node in self.nodes.items()
            if is_named and node.parent == found[1] and self.is_visible(key)
        ]
        inside = [entry for entry in inside if not entry["trashed"]]
        start = int(asked.get("pageToken", "0"))
        page: dict[str, Any] = {"files": inside[start : start + self.page_size]}
        if start + self.page_size < len(inside):
            page["nextPageToken"] = str(start + self.page_size)
        return _answer(page)

    def count(self) -> Counter[str]:
        """Count the calls since the last count."""
        counted = Counter(self.asked)
        self.asked.clear()
        return counted


def _answer(value: dict[str, Any]) -> Answer:
    return Answer(json.dumps(value).encode())


@contextmanager
def serve_drive() -> Iterator[Drive]:
    drive = Drive()
    with listen(drive.answer) as address:
        drive.address = address
        yield drive


@contextmanager
def open_remote(drive: Drive, *files: str, folder: str | None = "root") -> Iterator[DriveRemote]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(google_drive, "ADDRESS", drive.address)
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield DriveRemote(files, folder, {DRIVE_VARIABLE: SecretStr(make_user(drive, "reader"))})


def fetch(drive: Drive, mirror: Path, *files: str, folder: str | None = "root") -> MirrorState:
    """Bring the mirror of picked files up to date, or else that of a folder."""
    with open_remote(drive, *files, folder=None if files else folder) as remote:
        update_mirror(mirror, remote, FileRules(), 1 << 20)
    return read_state(mirror)


def copies(mirror: Path) -> dict[str, bytes]:
    files = mirror / "files"
    return {
        path.relative_to(files).as_posix(): path.read_bytes() for path in files.rglob("*") if path.is_file()
    }


def make_service_account(drive: Drive, who: str) -> str:
    """Write the JSON of a service account's key, as Google gives it out, whose tokens the server gives."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    uri = f"{drive.address}/token"
    account = {"type": "service_account", "client_email": who, "private_key": pem, "token_uri": uri}
    return json.dumps(account, indent=2)


def make_user(drive: Drive, refresh_token: str) -> str:
    """Write the JSON of a user who has permitted an application to read."""
    uri = f"{drive.address}/token"
    user = {
        "type": "authorized_user",
        "client_id": "app",
        "client_secret": "s",
        "refresh_token": refresh_token,
    }
    return json.dumps({**user, "token_uri": uri})
