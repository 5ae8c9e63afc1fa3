"""The page of the service over the wire: signing in, asking, citations, history and feedback, without scripts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.pages.rendering import HTMX
from backstory.interfaces.service.pages.visits import SESSION_COOKIE
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.service.page_reading import Browser, Page, browsing
from tests.interfaces.service.running import QUESTION, Running, read_events, running, write_service

HOSTILE = (
    "</p><script>alert(1)</script><img src=x onerror=alert(2)> “{{ 7331*7 }}” & [x](javascript:alert(3))"
)


@pytest.fixture
def ben(served_once: Running) -> Iterator[Browser]:
    """A browser of a reader of one tenant."""
    with browsing(served_once, "ben") as browser:
        yield browser


def ask(browser: Browser, question: str = QUESTION, conversation: str = "") -> Page:
    return browser.post("/tenants/garden/ask", question=question, conversation=conversation)


# ----- Signing in


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
            assert sent.headers["location"] == "/"
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


# ----- What pages may do


def test_a_page_runs_and_loads_nothing_but_the_services_own_files(ben: Browser) -> None:
    response = ben.client.get("/tenants/garden")
    policy = dict(
        part.strip().split(" ", 1) for part in response.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert {
        policy[name] for name in ("script-src", "style-src", "img-src", "connect-src", "form-action")
    } == {"'self'"}
    assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
    assert response.headers["cache-control"] == "no-store"
    page = Page(response.text)
    loaded = [script["src"] for script in page.all("script")] + [link["href"] for link in page.all("link")]
    assert len(loaded) == 4
    for address in loaded:
        file = ben.client.get(address)
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["x-content-type-options"] == "nosniff"
    assert not [element for element in page.elements if "style" in element.attributes]
    assert not [name for element in page.elements for name in element.attributes if name.startswith("on")]
    settings = json.loads(page.one("meta", name="htmx-config")["content"])
    assert (settings["allowEval"], settings["selfRequestsOnly"]) == (False, True)
    # Nothing of a page stays in the storage of the browser.
    assert settings["historyCacheSize"] == 0
    wrong = loaded[0].replace("/static/", "/static/0")
    assert ben.client.get(wrong).status_code == 404
    assert ben.client.get("/static/x/..%2f..%2frendering.py").status_code == 404


def test_htmx_is_the_version_that_the_notice_names(ben: Browser) -> None:
    [address] = [
        script["src"] for script in ben.get("/tenants/garden").all("script") if HTMX in script["src"]
    ]
    version = HTMX.removeprefix("htmx-").removesuffix(".min.js")
    assert f'version:"{version}"' in ben.client.get(address).text
    notice = (Path(__file__).parents[3] / "NOTICE").read_text(encoding="utf-8")
    assert f"htmx {version}" in notice


# ----- Asking


def test_an_answer_cites_places_whose_passage_is_marked_in_its_document(ben: Browser) -> None:
    page = ask(ben)
    assert page.texts("h2", class_="question") == [QUESTION]
    [claim, *_] = page.all("div", class_="claim")
    badge = next(link for link in page.all("a", class_="badge"))
    assert badge.text == "1"
    assert badge["aria-label"].startswith("Citation 1: ")
    quote = page.texts("blockquote")[0]
    passage = ben.get(badge["href"])
    assert " ".join(passage.one("mark").text.split()) == quote
    assert passage.texts("h1") == [badge["aria-label"].removeprefix("Citation 1: ").rpartition(", ")[0]]
    assert passage.one("mark").text in passage.one("div", class_="body").text
    assert claim.text.strip()
    # Back to where it is cited.
    assert "#turn-1" in {
        link["href"][link["href"].find("#") :] for link in passage.all("a") if "#" in link["href"]
    }


def test_a_follow_up_goes_on_in_the_same_conversation_which_the_history_lists(ben: Browser) -> None:
    first = ask(ben, "What does the night train to Lisbon need?")
    conversation = first.one("input", name="conversation")["value"]
    second = ask(ben, "and to Vienna?", conversation)
    assert second.one("input", name="conversation")["value"] == conversation
    assert len(second.all("article")) == 2
    address = f"/tenants/garden/conversations/{conversation}"
    current = [link["href"] for link in second.all("a") if link.attributes.get("aria-current") == "page"]
    assert current == [address]
    assert address in {link["href"] for link in ben.get("/tenants/garden").all("a")}
    exported = ben.client.get(f"{address}/export")
    assert exported.headers["content-type"].startswith("text/markdown")
    assert QUESTION in exported.text
    ben.post(f"{address}/delete")
    ben.get(address, 404)


def test_a_refusal_says_why_and_what_was_not_found_is_named(ben: Browser) -> None:
    page = ask(ben, "What is the boiling point of tungsten hexafluoride?")
    assert page.one("div", class_="refusal").text.strip()
    assert page.all("div", class_="claim") == []
    assert ask(ben, "What is the weather today?").one("div", class_="refusal").text.strip()


def test_an_empty_question_asks_nothing(ben: Browser) -> None:
    assert ask(ben, "  \n ").one("form", id="ask")["action"] == "/tenants/garden/ask"
    assert ask(ben, "  ").all("article") == []


def test_a_question_that_is_too_long_is_refused_as_a_page(ben: Browser) -> None:
    page = ben.post("/tenants/garden/ask", 400, question="x" * 9_000)
    assert page.one("p", class_="notice").text
    # A body beyond the limit of bytes is refused before it is a form.
    headers = {"Origin": str(ben.client.base_url).rstrip("/")}
    sent = ben.client.post("/tenants/garden/ask", data={"question": "x" * 200_000}, headers=headers)
    assert sent.status_code == 413


def test_a_script_gets_the_steps_and_then_the_same_turn_as_a_part_of_the_page(ben: Browser) -> None:
    headers = {"Accept": "text/event-stream", "Origin": str(ben.client.base_url).rstrip("/")}
    with ben.client.stream(
        "POST", "/tenants/garden/ask", data={"question": QUESTION}, headers=headers
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        events = list(read_events(response))
    names = [name for name, _ in events]
    assert names[0] == "step"
    assert names[-1] == "done"
    assert set(names) == {"step", "tokens", "done"}
    done = events[-1][1]
    part = Page(done["html"])
    whole = ben.get(done["address"])
    assert part.one("article")["id"] == "turn-1"
    cited = [link["href"] for link in part.all("a", class_="badge")]
    assert cited
    assert cited == [link["href"] for link in whole.all("a", class_="badge")]
    assert part.texts("div", class_="claim") == whole.texts("div", class_="claim")
    assert Page(done["head"]).one("h1").text == whole.one("h1").text
    assert "<html" not in done["html"]


def test_scripts_are_told_of_errors_by_a_part_and_of_the_end_of_a_session_by_an_address(
    served_once: Running, ben: Browser
) -> None:
    origin = {"Origin": served_once.url}
    for headers in ({"HX-Request": "true"}, {"Accept": "text/event-stream"}):
        sent = ben.client.post(
            "/tenants/garden/ask", data={"question": "x" * 9_000}, headers={**headers, **origin}
        )
        assert (sent.status_code, sent.headers["hx-retarget"]) == (400, "#notice")
        assert "<html" not in sent.text
        with served_once.client() as nobody:
            sent = nobody.post("/tenants/garden/ask", data={"question": "x"}, headers={**headers, **origin})
            assert (sent.status_code, sent.headers["hx-redirect"]) == (401, "/sign-in")


def test_a_citation_is_of_its_own_person_alone(served_once: Running, ben: Browser) -> None:
    page = ask(ben)
    address = page.all("a", class_="badge")[0]["href"]
    conversation = page.one("input", name="conversation")["value"]
    with browsing(served_once, "ada") as ada:
        for path in (address, f"/tenants/garden/conversations/{conversation}"):
            ada.get(path, 404)
        ada.post(f"/tenants/garden/conversations/{conversation}/delete", 404)
        ada.post(f"/tenants/garden/conversations/{conversation}/turns/1/feedback", 404, thumb="up")
        ada.post("/tenants/garden/ask", 404, question=QUESTION, conversation=conversation)
    ben.get(f"{address}9", 404)
    ben.get(address)


def test_feedback_is_kept_and_can_be_changed(ben: Browser) -> None:
    page = ask(ben)
    form = page.one("form", class_="feedback")
    assert [one for one in page.all("input", name="thumb") if "checked" in one.attributes] == []
    page = ben.post(form["action"], thumb="down", text=HOSTILE)
    [chosen] = [one for one in page.all("input", name="thumb") if "checked" in one.attributes]
    assert chosen["value"] == "down"
    assert page.one("input", name="text")["value"] == HOSTILE
    page = ben.post(form["action"], thumb="up", text="")
    assert [one["value"] for one in page.all("input", name="thumb") if "checked" in one.attributes] == ["up"]
    ben.post(form["action"], 400, thumb="sideways")
    headers = {"HX-Request": "true", "Origin": str(ben.client.base_url).rstrip("/")}
    part = ben.client.post(form["action"], data={"thumb": "up"}, headers=headers)
    assert Page(part.text).elements[0].tag == "form"


# ----- Hostile text


def test_hostile_text_of_documents_and_people_is_shown_as_text(
    indexed_once: Library, service_root: Path
) -> None:
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    sentence = f"The zeppelin of Overijssel costs 4711 guilders {HOSTILE}."
    with service.tenants.entering("garden") as library:
        (library.workspace.root / "posts" / "zeppelin.md").write_text(
            f"---\ntitle: 'Zeppelin <script>alert(9)</script>'\ndate: 2024-01-01\n---\n\n{sentence}\n",
            "utf-8",
        )
        assert library.index().success
    with running(service, tokens) as served, browsing(served, "ada") as browser:
        question = f"What does the zeppelin of Overijssel cost? {HOSTILE}"
        pages = [ask(browser, question), ask(browser, "What does the zeppelin of Overijssel cost?")]
        badges = [link for page in pages for link in page.all("a", class_="badge")]
        assert badges
        pages += [browser.get(link["href"]) for link in badges]
        pages += [browser.get("/tenants/garden/documents", 200)]
        pages += [
            browser.get(link["href"]) for link in pages[-1].all("a", class_="title") if "eppelin" in link.text
        ]
        assert any("alert(1)" in page.one("mark").text for page in pages if page.all("mark"))
    for page in pages:
        assert [script["src"].startswith("/static/") for script in page.all("script")] == [True, True]
        assert [image for image in page.all("img") if not image["src"].startswith("/tenants/")] == []
        assert not [name for element in page.elements for name in element.attributes if name.startswith("on")]
        for link in page.all("a"):
            assert link["href"].startswith(("/", "#", "?", "https://", "http://")), link
        assert "51317" not in page.document
