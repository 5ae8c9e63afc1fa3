"""Signing in to the page of the service: the cookie of a session, what it opens, and who may send forms."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.pages.visits import SESSION_COOKIE
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.service.page_reading import Browser, Page, browsing
from tests.interfaces.service.running import QUESTION, Running, running, write_service


@pytest.fixture
def ben(served_once: Running) -> Iterator[Browser]:
    """A browser of a reader of one tenant."""
    with browsing(served_once, "ben") as browser:
        yield browser


def test_a_person_signs_in_with_a_token_and_out_again(served_once: Running) -> None:
    with browsing(served_once) as browser:
        page = browser.get("/")
        form = page.one("form")
        assert (form["method"], form["action"]) == ("post", "/sign-in")
        assert page.one("input", name="token")["type"] == "password"
        page = browser.post("/sign-in", token=served_once.tokens["ben"], to="/")
        # The only tenant of this person.
        assert page.one("form", id="ask")["action"] == "/tenants/garden/ask"
        page = browser.post("/sign-out")
        assert page.one("form")["action"] == "/sign-in"
        assert browser.get("/tenants/garden").one("form")["action"] == "/sign-in"


def test_the_cookie_is_read_by_no_script_sent_by_no_other_site_and_is_no_token(served_once: Running) -> None:
    with served_once.client() as client:
        sent = client.post(
            "/sign-in", data={"token": served_once.tokens["ben"]}, headers={"Origin": served_once.url}
        )
        assert sent.status_code == 303
        assert served_once.tokens["ben"] not in str(sent.headers)
        parts = [part.strip().lower() for part in sent.headers["set-cookie"].split(";")]
        assert {"httponly", "samesite=strict", "path=/"} <= set(parts)
        # On this machine, there is no encryption; and the cookie goes when the browser does.
        assert not {part for part in parts if part == "secure" or part.startswith(("max-age", "expires"))}


def test_the_cookie_is_only_sent_encrypted_where_others_can_listen(
    indexed_once: Library, tmp_path: Path
) -> None:
    service, tokens = write_service(tmp_path / "service", indexed_once.workspace.root, ServiceLimits())
    with running(service, tokens, names=["docs.example.org"]) as served, served.client() as client:
        headers = {"Host": "docs.example.org", "Origin": "https://docs.example.org"}
        sent = client.post("/sign-in", data={"token": tokens["ben"]}, headers=headers)
        assert "secure" in [part.strip().lower() for part in sent.headers["set-cookie"].split(";")]


def test_a_browser_that_keeps_no_cookie_is_told_so(served_once: Running) -> None:
    with served_once.client() as client:
        headers = {"Origin": served_once.url}
        sent = client.post("/sign-in", data={"token": served_once.tokens["ben"]}, headers=headers)
    with served_once.client() as forgetful:
        page = Page(forgetful.get(sent.headers["location"]).text)
        assert page.one("p", id="sign-in-error").text


def test_signing_out_ends_the_session_for_whoever_has_copied_the_cookie(served_once: Running) -> None:
    with browsing(served_once, "ben") as browser, served_once.client() as thief:
        copied = {SESSION_COOKIE: browser.client.cookies[SESSION_COOKIE]}
        thief.cookies.update(copied)
        assert thief.get("/tenants/garden").status_code == 200
        browser.post("/sign-out")
        assert thief.get("/tenants/garden").status_code == 303


@pytest.mark.parametrize("token", ["", "bst_guessed", "x" * 200, "café"])
def test_a_wrong_token_is_told_and_opens_nothing(served_once: Running, token: str) -> None:
    with browsing(served_once) as browser:
        page = browser.post("/sign-in", 401, token=token)
        assert page.one("input", name="token")["aria-invalid"] == "true"
        assert page.one("p", id="sign-in-error").text
        assert token == "" or token not in page.document
        assert SESSION_COOKIE not in browser.client.cookies


def test_after_signing_in_one_comes_to_the_wanted_page_of_the_service_and_to_no_other(
    served_once: Running,
) -> None:
    with browsing(served_once) as browser:
        page = browser.get("/tenants/garden/documents?state=read")
        assert page.one("input", name="to")["value"] == "/tenants/garden/documents?state=read"
        for elsewhere in ("https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"):
            assert browser.client.get("/sign-in", params={"to": elsewhere}).status_code == 200
            [kept] = Page(browser.client.get("/sign-in", params={"to": elsewhere}).text).all(
                "input", name="to"
            )
            assert kept["value"] == "/"
            sent = browser.client.post(
                "/sign-in",
                data={"token": served_once.tokens["ben"], "to": elsewhere},
                headers={"Origin": served_once.url},
            )
            assert browser.client.get(sent.headers["location"]).headers["location"] == "/"
            browser.post("/sign-out")


@pytest.mark.parametrize(
    ("origin", "status"),
    [(None, 403), ("https://evil.example", 403), ("null", 403), ("http://127.0.0.1:1", 403)],
)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/tenants/garden/ask"])
def test_no_page_but_the_services_own_sends_a_form(
    ben: Browser, path: str, origin: str | None, status: int
) -> None:
    headers = {} if origin is None else {"Origin": origin}
    sent = ben.client.post(path, data={"question": QUESTION}, headers=headers)
    assert sent.status_code == status
    assert ben.client.get("/tenants/garden").status_code == 200


def test_a_cookie_opens_no_endpoint_for_programs(ben: Browser) -> None:
    for path in ("/api/conversations", "/api/documents", "/metrics"):
        headers = {"Via": "proxy"}  # the figures are open to this machine
        assert ben.client.get(path, headers=headers).status_code == 401
    headers = {"Origin": str(ben.client.base_url).rstrip("/")}
    assert ben.client.post("/api/search", json={"query": QUESTION}, headers=headers).status_code == 401


def test_whoever_may_enter_several_tenants_chooses_and_whoever_may_enter_none_is_told(
    served_once: Running,
) -> None:
    with browsing(served_once, "dora") as browser:
        page = browser.get("/")
        addresses = {link["href"] for link in page.all("a", class_="title")}
        assert addresses == {"/tenants/garden", "/tenants/workshop"}
        page = browser.get("/tenants/workshop")
        assert {"/tenants/garden", "/tenants/workshop"} <= {link["href"] for link in page.all("a")}
    with browsing(served_once, "eli") as browser:
        assert browser.get("/").all("a", class_="title") == []


def test_another_tenant_looks_like_one_that_is_not_there(ben: Browser) -> None:
    pages = []
    for tenant in ("workshop", "nowhere", "..", "garden%2f..%2fworkshop"):
        response = ben.client.get(f"/tenants/{tenant}/documents")
        assert response.status_code == 404
        pages.append(response.text.replace(tenant, "TENANT"))
    assert pages[0] == pages[1]


def test_a_revoked_role_ends_with_the_next_page(indexed_once: Library, service_root: Path) -> None:
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    with running(service, tokens) as served, browsing(served, "ben") as browser:
        browser.get("/tenants/garden")
        service.accounts.revoke("ben", "garden")
        browser.get("/tenants/garden", 404)


def test_too_many_pages_are_refused_as_too_many_requests_of_the_token_are(
    indexed_once: Library, service_root: Path
) -> None:
    limits = ServiceLimits(requests_per_minute=1, requests_at_once=3)
    service, tokens = write_service(service_root, indexed_once.workspace.root, limits)
    with running(service, tokens) as served, browsing(served, "ben") as browser:
        codes = [browser.client.get("/tenants/garden").status_code for _ in range(4)]
        assert codes[-1] == 429
        assert int(browser.client.get("/tenants/garden").headers["retry-after"]) >= 1
        # The style of the page that says so is there.
        assert (
            browser.client.get(browser.get("/sign-in", 429).one("link", rel="stylesheet")["href"]).status_code
            == 200
        )
