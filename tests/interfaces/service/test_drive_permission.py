"""An owner lets a tenant read their Google Drive; a server of the loopback interface plays Google's part."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pydantic import SecretStr

from backstory.base.environment import DRIVE_CLIENT_VARIABLE, DRIVE_VARIABLE
from backstory.base.errors import ModelSetupError
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.accounts import Caller
from backstory.interfaces.service.drive_permission import DrivePermissions
from backstory.interfaces.service.refusals import RefusedError
from backstory.interfaces.service.service import ServiceLimits
from tests.errors import raises
from tests.ingest.sources.drive_server import Answer
from tests.interfaces.service.running import Running, running, write_service
from tests.loopback import Received, listen

SECRET = "secret-of-the-client"
TOKEN = "refresh-token-of-ada"


@dataclass
class Google:
    """Asks nobody: whoever comes has permitted. It gives a token for its code and the verifier of its challenge."""

    url: str = ""
    challenges: dict[str, tuple[str, str]] = field(default_factory=dict)
    refuses: bool = False

    def permit(self, address: str) -> tuple[str, str]:
        """Permit what an address asks for, and return the state and the code that Google sends back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["scope"] == "https://www.googleapis.com/auth/drive.readonly"
        assert (asked["code_challenge_method"], asked["access_type"]) == ("S256", "offline")
        code = f"code-{len(self.challenges)}"
        self.challenges[code] = asked["code_challenge"], asked["redirect_uri"]
        return asked["state"], code

    def answer(self, received: Received) -> Answer:
        form = {name: values[0] for name, values in parse_qs(received.body.decode()).items()}
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        known = self.challenges.pop(form["code"], None)
        proof = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode(), form["redirect_uri"]
        if self.refuses or known != proof or form["client_secret"] != SECRET:
            return Answer(json.dumps({"error": "invalid_grant", "quoted": form["code"]}).encode(), 400)
        return Answer(json.dumps({"access_token": "short", "refresh_token": TOKEN}).encode())


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    google = Google()
    with listen(google.answer) as google.url:
        yield google


@pytest.fixture
def served(indexed_once: Library, service_root: Path, google: Google) -> Iterator[Running]:
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    client = {"client_id": "app", "client_secret": SECRET}
    addresses = {"auth_uri": f"{google.url}/auth", "token_uri": f"{google.url}/token", "redirect_uris": []}
    told = json.dumps({"web": {**client, **addresses}})
    service.tenants.keys.seal("garden", DRIVE_CLIENT_VARIABLE, SecretStr(told))
    service.accounts.grant("dora", "garden", "owner")
    with running(service, tokens) as started:
        yield started


def test_an_owner_permits_by_the_api_and_the_token_is_sealed(
    served: Running, google: Google, caplog: pytest.LogCaptureFixture
) -> None:
    with served.client("ada") as ada, served.client("dora") as dora:
        begun = ada.post("/api/sources/drive/permission").json()
        assert begun["address"].startswith(f"{google.url}/auth?")
        state, code = google.permit(begun["address"])
        given = {"state": state, "code": code}
        # Another owner of the same tenant cannot finish it, so that nobody gives their Drive to others by a link.
        dora.headers["X-Backstory-Tenant"] = "garden"
        refused = dora.post("/api/sources/drive/permission/finish", json=given)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_permission")
        finished = ada.post("/api/sources/drive/permission/finish", json=given)
        assert finished.status_code == 202
        again = ada.post("/api/sources/drive/permission/finish", json=given)
        assert (again.status_code, again.json()["error"]["code"]) == (404, "unknown_permission")
    served.service.jobs.wait("garden")
    stored = json.loads(served.service.tenants.keys.open("garden")[DRIVE_VARIABLE].get_secret_value())
    assert stored == {
        "type": "authorized_user",
        "client_id": "app",
        "client_secret": SECRET,
        "refresh_token": TOKEN,
        "token_uri": f"{google.url}/token",
    }
    assert served.service.tenants.keys.names("workshop") == ()
    written = [path.read_bytes() for path in served.service.root.rglob("*") if path.is_file()]
    for secret in (TOKEN, SECRET, state, code):
        assert not any(secret.encode() in content for content in written)
        assert secret not in finished.text
    kept = [record for record in caplog.records if record.name.startswith("backstory")]
    assert TOKEN not in "\n".join(map(caplog.handler.format, kept))


def test_an_owner_permits_by_the_pages(served: Running, google: Google) -> None:
    origin = {"Origin": served.url}
    with served.client() as browser:
        token = {"token": served.tokens["ada"], "to": "/"}
        signed = browser.post("/sign-in", data=token, headers=origin)
        browser.cookies.update(signed.cookies)
        assert "/tenants/garden/drive" in browser.get("/tenants/garden/documents").text
        begun = browser.post("/tenants/garden/drive", headers=origin)
        found = re.search(r'href="([^"]+/auth[^"]+)"', begun.text)
        assert found is not None
        state, code = google.permit(unescape(found[1]))
        with served.client() as without_cookie:
            back = without_cookie.get("/drive/permitted", params={"state": state, "code": code})
        assert (back.status_code, state in back.text, code in back.text) == (200, True, True)
        stored = browser.post("/drive/permitted", data={"state": state, "code": code}, headers=origin)
        assert stored.status_code == 303
        denied = browser.get("/drive/permitted", params={"state": state, "error": "access_denied"})
        assert denied.status_code == 400
    served.service.jobs.wait("garden")
    assert DRIVE_VARIABLE in served.service.tenants.keys.names("garden")


def test_what_google_refuses_is_said_and_stores_nothing(served: Running, google: Google) -> None:
    with served.client("ada") as ada:
        for refuses, wanted in ((True, None), (False, "code-of-another")):
            google.refuses = refuses
            state, code = google.permit(ada.post("/api/sources/drive/permission").json()["address"])
            given = {"state": state, "code": wanted or code}
            refused = ada.post("/api/sources/drive/permission/finish", json=given)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "permission_refused")
            assert given["code"] not in refused.text
    assert DRIVE_VARIABLE not in served.service.tenants.keys.names("garden")
    with served.client("cleo") as reader, served.client("dora", "workshop") as other:
        for client in (reader, other):
            assert client.post("/api/sources/drive/permission").status_code == 403


def test_a_permission_ends_after_ten_minutes_and_with_the_role(served: Running, google: Google) -> None:
    now = 0.0
    permissions = DrivePermissions(served.service.tenants.keys, lambda: now)
    owner = Caller("user-1", "ada", "token-1", {"garden": "owner", "workshop": "owner"})
    state, code = google.permit(permissions.begin(owner, "garden", served.url))
    with raises(RefusedError, "unknown_permission"):
        permissions.finish(Caller("user-1", "ada", "token-1", {"garden": "editor"}), state, code)
    now = 601.0
    with raises(RefusedError, "unknown_permission"):
        permissions.finish(owner, state, code)
    with raises(RefusedError, "no_drive_client"):
        permissions.begin(owner, "workshop", served.url)


def test_nobody_ends_what_others_have_begun_by_beginning_often(served: Running, google: Google) -> None:
    permissions = DrivePermissions(served.service.tenants.keys)
    ada, dora = (Caller(f"user-{name}", name, "token", {"garden": "owner"}) for name in ("ada", "dora"))
    state, code = google.permit(permissions.begin(ada, "garden", served.url))
    [former, *_, last] = [google.permit(permissions.begin(dora, "garden", served.url)) for _ in range(3)]
    with raises(RefusedError, "unknown_permission"):
        permissions.finish(dora, *former)
    assert permissions.finish(ada, state, code) == permissions.finish(dora, *last) == "garden"


@pytest.mark.parametrize(
    "told",
    [
        "[]",
        "{}",
        '{"web": {"client_id": "a"}}',
        '{"client_id": "a", "client_secret": "b", "token_uri": "http://x.example"}',
    ],
)
def test_what_is_no_client_is_refused(served: Running, told: str) -> None:
    with raises(ModelSetupError, "unusable_key", DRIVE_CLIENT_VARIABLE):
        served.service.tenants.keys.seal("workshop", DRIVE_CLIENT_VARIABLE, SecretStr(told))
