"""Who is let in: tokens, tenants and roles at every route, and what the refused learn."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from backstory.interfaces.service.app import make_app
from tests.interfaces.service.running import QUESTION, Running

OPEN = {"/healthz", "/readyz", "/docs", "/openapi.json"}
PLACES = {"{turn}": "1", "{page}": "1"}
DESCRIBED = Path(__file__).parents[3] / "docs" / "reference" / "assistant.md"


def list_routes(served: Running) -> list[tuple[str, str]]:
    """List the method and a path of every route that needs a token."""
    described = make_app(served.service, hosts=[]).openapi()["paths"]
    found = []
    for path, operations in described.items():
        for method in operations:
            named = re.sub(r"{\w+}", lambda place: PLACES.get(place[0], "absent"), path)
            if path not in OPEN:
                found.append((method.upper(), named))
    return [*found, ("POST", "/mcp/garden")]


def call(client: httpx2.Client, method: str, path: str, headers: Any = None) -> httpx2.Response:
    body = {"question": QUESTION, "query": QUESTION, "thumb": "up"}
    return client.request(method, path, json=body if method == "POST" else None, headers=headers)


def test_every_route_needs_a_token(served_once: Running) -> None:
    routes = list_routes(served_once)
    assert len(routes) > 8
    token = served_once.tokens["ben"]
    wrong = ["", f"Bearer {token}x", f"Bearer {token[:-1]}", f"Basic {token}", "Bearer", "Bearer é", token]
    with served_once.client() as client:
        for method, path in routes:
            for authorization in wrong:
                refused = call(client, method, path, {b"Authorization": authorization.encode()})
                assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized"), path
                assert refused.headers["WWW-Authenticate"] == "Bearer"
                assert token not in refused.text


def test_a_token_that_ended_or_was_revoked_opens_nothing(served_once: Running) -> None:
    accounts = served_once.service.accounts
    ended = accounts.make_token("ben", days=1, now=datetime.now(UTC) - timedelta(days=9))
    revoked = accounts.make_token("ben")
    with served_once.client() as client:
        client.headers["Authorization"] = f"Bearer {revoked}"
        assert client.get("/api/conversations").status_code == 200
        caller = accounts.authenticate(revoked)
        assert caller is not None
        accounts.revoke_token(caller.token_id)
        assert client.get("/api/conversations").status_code == 401
        client.headers["Authorization"] = f"Bearer {ended}"
        assert client.get("/api/conversations").status_code == 401


def test_a_role_that_was_revoked_ends_at_once(served_once: Running) -> None:
    accounts = served_once.service.accounts
    accounts.add_user("finn")
    accounts.grant("finn", "garden", "reader")
    served_once.tokens["finn"] = accounts.make_token("finn")
    with served_once.client("finn", "garden") as client:
        assert client.get("/api/conversations").status_code == 200
        accounts.revoke("finn", "garden")
        assert client.get("/api/conversations").status_code == 404
        accounts.remove_user("finn")
        assert client.get("/api/conversations").status_code == 401


def test_an_absent_tenant_and_one_of_others_look_the_same(served_once: Running) -> None:
    with served_once.client("ben") as client:
        for method, path in list_routes(served_once):
            if not path.startswith(("/mcp", "/metrics")):
                absent, foreign = (
                    call(client, method, path, {"X-Backstory-Tenant": name})
                    for name in ("absent", "workshop")
                )
                assert absent.text == foreign.text, path
                assert (absent.status_code, absent.json()["error"]["code"]) == (404, "unknown_tenant"), path
        for name in ("../garden", "garden/../workshop", "%", "Garden", "a" * 100):
            asked = client.get("/api/conversations", params={"tenant": name})
            assert (asked.status_code, asked.json()["error"]["code"]) == (404, "unknown_tenant")
        for name in ("absent", "workshop", "", "garden/../workshop", "%2e%2e/workshop", "garden/x"):
            asked = client.post(f"/mcp/{name}", json={})
            assert (asked.status_code, asked.json()["error"]["code"]) == (404, "unknown_tenant"), name


def test_the_only_tenant_of_a_user_need_not_be_named(served_once: Running) -> None:
    with served_once.client("dora") as several, served_once.client("eli") as none:
        for client in (several, none):
            asked = client.get("/api/conversations")
            assert (asked.status_code, asked.json()["error"]["code"]) == (400, "tenant_needed")
        named = several.get("/api/conversations", headers={"X-Backstory-Tenant": "workshop"})
        assert named.status_code == 200
        assert several.get("/api/conversations", params={"tenant": "garden"}).status_code == 200


def test_a_request_that_names_two_tenants_is_refused(served_once: Running) -> None:
    with served_once.client("dora") as client:
        for headers, query in (
            ([("X-Backstory-Tenant", "garden")], {"tenant": "workshop"}),
            ([("X-Backstory-Tenant", "garden"), ("X-Backstory-Tenant", "workshop")], {}),
            ([], {"tenant": ["garden", "workshop"]}),
        ):
            asked = client.get("/api/conversations", headers=headers, params=query)
            assert (asked.status_code, asked.json()["error"]["code"]) == (400, "several_tenants")
        both = client.get(
            "/api/conversations", headers={"X-Backstory-Tenant": "garden"}, params={"tenant": "garden"}
        )
        assert both.status_code == 200


def test_roles_that_are_too_low_are_told_so(served_once: Running) -> None:
    for user, tenant, status in (("ada", None, 200), ("ben", None, 403), ("dora", "garden", 403)):
        with served_once.client(user, tenant) as client:
            assert client.get("/api/feedback/export").status_code == status


def test_each_route_needs_the_role_that_its_page_names(served_once: Running) -> None:
    rows = re.findall(r"^\| `([A-Z]+) (/api/\S+)` \| (\w+) \|", DESCRIBED.read_text("utf-8"), re.MULTILINE)
    assert {role for _, _, role in rows} == {"reader", "editor", "owner"}
    users = {"reader": "ben", "editor": "dora", "owner": "ada"}
    wrong = []
    for method, path, needed in rows:
        filled = re.sub(r"{\w+}", lambda place: PLACES.get(place[0], "absent"), path)
        for role, user in users.items():
            is_lower = list(users).index(role) < list(users).index(needed)
            if not is_lower and method != "GET":
                continue  # what those may change is tested elsewhere
            with served_once.client(user, "garden") as client:
                if (call(client, method, filled).status_code == 403) != is_lower:
                    wrong.append((method, path, role))
    assert wrong == []


def test_every_route_names_its_form_and_an_error(served_once: Running) -> None:
    described = make_app(served_once.service, hosts=[]).openapi()
    told = DESCRIBED.read_text("utf-8")
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], path
            assert "422" not in operation["responses"], path
            assert "default" in operation["responses"], path
            assert f"{method.upper()} {path}" in told, path
            assert bool(operation.get("security")) == (path not in OPEN), path
            right = {status: each for status, each in operation["responses"].items() if status < "300"}
            assert right, path
            assert all(each.get("content") or status == "204" for status, each in right.items()), (
                method,
                path,
            )
    with served_once.client() as client:
        page = client.get("/docs")
        assert page.status_code == 200
        assert "script" not in page.text
        assert "/api/chat/message" in page.text
        assert client.get("/openapi.json").json()["info"]["title"] == "Backstory"


@pytest.mark.parametrize("path", ["/api/absent", "/absent", "/api/chat", "/..%2f..%2fetc%2fpasswd"])
def test_what_is_not_there_is_told_in_the_one_form(served_once: Running, path: str) -> None:
    with served_once.client("ben") as client:
        absent = client.get(path)
        assert (absent.status_code, absent.json()["error"]["code"]) == (404, "not_found")
        wrong = client.get("/api/chat/message")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
