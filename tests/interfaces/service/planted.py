"""A service of three tenants in which everything bears a marker, and users of every mix of roles.

A marker is a word that stands in one place alone, so that a test finds it in whatever a caller gets.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from pydantic import SecretStr

from backstory.base.environment import ANSWER_KEY_VARIABLE
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.accounts import Accounts
from backstory.interfaces.service.index_jobs import IndexJobs
from backstory.interfaces.service.keys import KeyRing
from backstory.interfaces.service.names import ROLES, Role, includes
from backstory.interfaces.service.service import Service, ServiceLimits
from backstory.interfaces.service.tenants import Tenants
from tests.caches import open_accounts
from tests.interfaces.library.conftest import write_documents
from tests.interfaces.service.running import QUESTION, Running, running

TENANTS: Final = ("garden", "workshop", "harbour")
MARKER: Final = re.compile(rb"zq[0-9a-f]{12}q", re.IGNORECASE)
Kind = Literal["text", "title", "tag", "file", "job", "question", "feedback", "key", "user"]
SETTINGS: Final = "embedding: {provider: hashing}\n"
PATIENT: Final = ServiceLimits(
    requests_per_minute=10_000_000, requests_at_once=1_000_000, failures_at_once=1_000_000
)


@dataclass(frozen=True)
class Marker:
    """What a marker stands in.

    Attributes:
        kind: What bears it.
        tenant: The tenant; empty for a user.
        user: The user whose it is; empty for all users of the tenant.
    """

    kind: Kind
    tenant: str
    user: str = ""


@dataclass
class Planted:
    """The service, and what stands where in it.

    Attributes:
        served: The service that runs.
        roles: The roles of each user.
        markers: What each marker stands in.
        sessions: The session of each user's browser.
        dead: A token of each user that has ended, and one that was revoked.
        ids: Ids by their kind and tenant.
        owners: The users of conversations.
        secrets: What no answer and no file of the service holds.
    """

    served: Running
    roles: dict[str, dict[str, Role]]
    markers: dict[bytes, Marker] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    dead: list[str] = field(default_factory=list)
    ids: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)

    def plant(self, kind: Kind, tenant: str, user: str = "") -> str:
        """Make a marker."""
        marker = f"zq{secrets.token_hex(6)}q"
        self.markers[marker.encode()] = Marker(kind, tenant, user)
        return marker

    def open_session(self, user: str) -> None:
        """Let a user sign in."""
        opened = self.served.service.accounts.open_session(self.served.tokens[user])
        assert opened is not None
        self.sessions[user] = opened
        self.secrets.append(opened)

    def find_markers(self, content: bytes) -> dict[bytes, Marker]:
        """Find the markers in what a caller got."""
        return {
            found: self.markers[found]
            for found in {each.lower() for each in MARKER.findall(content)}
            if found in self.markers
        }

    def includes(self, user: str | None, tenant: str | None, role: Role) -> bool:
        """Return whether a user has a role, or a higher one, in a tenant."""
        return user is not None and tenant is not None and includes(self.roles[user].get(tenant), role)

    def may_see(self, marker: Marker, user: str | None, tenant: str | None) -> bool:
        """Return whether an answer to a user, about a tenant, may hold a marker."""
        if user is None or marker.kind == "key":
            return False
        if marker.kind == "user":
            return marker.user == user
        role = self.roles[user].get(marker.tenant)
        if role is None or marker.tenant != tenant:
            return False
        return not marker.user or marker.user == user or role == "owner"


@contextmanager
def planting(root: Path, storage: Mapping[str, str] | None = None) -> Iterator[Planted]:
    """Write the service and run it. No job is worked on, so that nothing is written but by a request.

    Args:
        root: Folder of the service.
        storage: Where each tenant keeps its state; None for its folder.
    """
    accounts = Accounts(open_accounts(root))
    tenants = Tenants(root, KeyRing(accounts.state, root.with_name("keys")), memory_bytes=1 << 30)
    service = Service(accounts, tenants, IndexJobs(tenants, threads=0), PATIENT)
    planted = Planted(None, {})  # type: ignore[arg-type]  # it runs below
    for tenant in TENANTS:
        said = "" if storage is None else f"storage: {{database: '{storage[tenant]}'}}\n"
        _write_documents(planted, root / "tenants" / tenant, tenant, said)
    tokens = _add_users(planted, accounts)
    with running(service, tokens) as served:
        planted.served = served
        for user in planted.roles:
            planted.open_session(user)
        planted.secrets += [*tokens.values(), *planted.dead]
        for tenant in TENANTS:
            _fill(planted, tenant)
        yield planted


def list_users(planted: Planted, tenant: str, role: Role) -> list[str]:
    """List the users that have a role in a tenant."""
    return [user for user, roles in planted.roles.items() if roles.get(tenant) == role]


def _write_documents(planted: Planted, folder: Path, tenant: str, storage: str) -> None:
    write_documents(folder, SETTINGS + storage)
    for place in ("", "uploads/"):
        (folder / "posts" / place).mkdir(exist_ok=True)
        name, title = planted.plant("file", tenant), f"The night train {planted.plant('title', tenant)}"
        tag, text = (
            planted.plant("tag", tenant),
            f"The night train to Lisbon needs {planted.plant('text', tenant)}.",
        )
        written = f"---\ntitle: {title}\ntags: [{tag}]\n---\n\n{text}\n"
        (folder / "posts" / place / f"{name}.md").write_text(written, "utf-8")
        planted.ids.setdefault(("name", tenant), []).extend([f"{place}{name}.md", title, tag])
    with Library.open(folder) as library:
        assert library.index().success
        hits = library.search("The night train to Lisbon").hits
        own = [hit for hit in hits if planted.find_markers(hit.text.encode())]
        planted.ids["document", tenant] = sorted({hit.document_id for hit in own})
        planted.ids["chunk", tenant] = [hit.chunk_id for hit in own]
    assert len(planted.ids["document", tenant]) == 2


def _add_users(planted: Planted, accounts: Accounts) -> dict[str, str]:
    """Add a user for every mix of roles, and tokens of some that count no more."""
    tokens = {}
    past = datetime.now(UTC) - timedelta(days=9)
    for mix in itertools.product((None, *ROLES), repeat=len(TENANTS)):
        letters = "".join("n" if role is None else role[0] for role in mix)
        marker = f"zq{secrets.token_hex(6)}q"
        user = f"{letters}-{marker}"
        planted.markers[marker.encode()] = Marker("user", "", user)
        planted.roles[user] = {tenant: role for tenant, role in zip(TENANTS, mix, strict=True) if role}
        accounts.add_user(user)
        for tenant, role in planted.roles[user].items():
            accounts.grant(user, tenant, role)
        tokens[user] = accounts.make_token(user)
        if len(planted.roles[user]) == 1:
            planted.dead.append(accounts.make_token(user, days=1, now=past))
            revoked = accounts.make_token(user)
            caller = accounts.authenticate(revoked)
            assert caller is not None
            accounts.revoke_token(caller.token_id)
            planted.dead.append(revoked)
    return tokens


def _fill(planted: Planted, tenant: str) -> None:
    """Plant a key, jobs, and the conversations of a reader and of an owner, with feedback."""
    service = planted.served.service
    key = planted.plant("key", tenant)
    planted.secrets.append(key)
    service.tenants.keys.seal(tenant, ANSWER_KEY_VARIABLE, SecretStr(key))
    for role in ("reader", "owner"):
        user = list_users(planted, tenant, role)[0]
        with planted.served.client(user, tenant) as client:
            asked = {"question": f"{QUESTION} {planted.plant('question', tenant, user)}"}
            kept = client.post("/api/chat/message", json=asked).raise_for_status().json()
            said = {"thumb": "up", "text": planted.plant("feedback", tenant, user)}
            address = f"/api/conversations/{kept['conversation_id']}/turns/{kept['turn']}/feedback"
            client.post(address, json=said).raise_for_status()
        planted.ids.setdefault(("conversation", tenant), []).append(kept["conversation_id"])
        planted.owners[kept["conversation_id"]] = user
    store = service.jobs.store(tenant)
    job = store.request("somebody")
    turn = store.take()
    assert turn is not None
    file = f"{planted.plant('job', tenant)}.md"
    store.advance(turn, percent=1, step="reading", done=0, total=1, file=file)
    failed = store.read(job.job_id)
    store.fail(turn, "failed_steps", f"{planted.plant('job', tenant)} cannot be read ({failed.file})")
    planted.ids["job", tenant] = [job.job_id]


def choose(random: Random, values: Mapping[Any, float]) -> Any:
    """Choose one of some values by their weights."""
    return random.choices(list(values), list(values.values()))[0]
