"""The page of the service over the wire: signing in, asking, citations, history and feedback, without scripts."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.pages.passages import ShownPassage
from backstory.interfaces.service.pages.rendering import HTMX, make_excerpt, render, render_prose
from backstory.interfaces.service.service import ServiceLimits
from backstory.retrieval.found import DocumentEntry
from backstory.writing.answers.forms import make_forms
from tests.injections import HTML, LINKS
from tests.interfaces.service.page_reading import Browser, Page, browsing
from tests.interfaces.service.running import QUESTION, Running, read_events, running, write_service
from tests.models.services.chat_server import ChatReply, ChatRequest, ChatServer, complete

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
    page = ask(ben, "What does the night train to Lisbon cost per person and year?")
    assert page.one("div", class_="refusal").text.strip()
    assert page.all("div", class_="claim") == []
    # What comes nearest is no claim, and is read where it stands.
    nearest = page.one("ol", class_="places")
    assert nearest["aria-label"] == "Nearest passages"
    [first, *_] = [link for link in page.all("a", class_="title") if "/citations/" in link["href"]]
    assert " ".join(ben.get(first["href"]).one("mark").text.split()) == page.texts("blockquote")[0]
    assert ask(ben, "What is the weather today?").one("div", class_="refusal").text.strip()


def test_the_words_around_an_answer_are_those_of_its_language(ben: Browser) -> None:
    german = make_forms("de")
    [refusal] = ask(ben, "Was kostet der Nachtzug nach Lissabon für eine Person im Jahr?").all(
        "div", class_="refusal"
    )
    assert refusal["lang"] == "de"
    assert refusal.text.strip().startswith(german.write("not_in_documents"))
    english = make_forms("en")
    [told, *_] = [each for each in ask(ben).all("p", class_="about") if "lang" in each.attributes]
    assert (told["lang"], told.text) == ("en", english.count("may_answer", 1))


def test_a_part_that_is_not_found_is_named_apart_from_what_is_cited(ben: Browser) -> None:
    page = ask(ben, f"{QUESTION[:-1]}, and who painted the harbour mural of Zanzibar?")
    assert page.all("div", class_="refusal") == []
    assert "who painted the harbour mural of Zanzibar" in page.one("div", class_="not-found").text
    cited, nearest = page.all("ol", class_="places")
    assert (cited["aria-label"], nearest["aria-label"]) == ("Passages that say it", "Nearest passages")
    badges = [link["href"] for link in page.all("a", class_="badge")]
    linked = [link["href"] for link in page.all("a", class_="title") if "/citations/" in link["href"]]
    # Those that come nearest are numbered further, and no claim cites them.
    assert linked[0] in badges
    assert len(linked) > len(set(badges))
    for address in linked:
        assert ben.get(address).one("mark").text


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


# ----- Models


@pytest.fixture
def modelled(indexed_once: Library, service_root: Path, chat: ChatServer) -> Iterator[Running]:
    """A service whose tenant garden is answered by the server of the fixture ``chat``."""
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    settings = service.tenants.folder("garden") / "backstory.yaml"
    served = (
        f"services: {{mine: {{kind: openai, base_url: '{chat.url}', max_attempts: 1, requests_per_minute: 1000}}}}\n"
        "answers: {provider: mine, model: tiny, unsupported: mark}\n"
        "costs: {prices: {tiny: {input: 100, output: 1000}}}\n"
    )
    settings.write_text(settings.read_text("utf-8") + served, "utf-8")
    with running(service, tokens) as started:
        yield started


def test_a_model_that_gives_no_answer_leaves_the_passages_that_were_found(
    modelled: Running, chat: ChatServer
) -> None:
    chat.always = complete("no JSON at all")
    with browsing(modelled, "ben") as browser:
        page = browser.post("/tenants/garden/ask", 503, question=QUESTION)
        headers = {"Accept": "text/event-stream", "Origin": modelled.url}
        with browser.client.stream(
            "POST", "/tenants/garden/ask", data={"question": QUESTION}, headers=headers
        ) as response:
            events = list(read_events(response))
        assert events[-1][0] == "error"
        for shown in (page, Page(events[-1][1]["html"])):
            assert shown.one("p", class_="notice").text
            found = [link["href"] for link in shown.all("a", class_="title")]
            assert found
            assert browser.get(found[0]).all("mark")


def test_what_a_model_writes_is_shown_as_text(modelled: Running, chat: ChatServer) -> None:
    quote = "A seat reservation on the night train to Lisbon."
    written = f"The night train to Lisbon needs a seat reservation. {HOSTILE} [w](https://example.org/a) [r](/sign-out)"

    def answer(request: ChatRequest) -> ChatReply | None:
        found = re.search(r'<passage id="(p\d+)">\nTitle: Night train', request.user)
        cited = [{"id": found[1] if found else "p1", "quote": quote}]
        texts = ("The night train to Lisbon needs a seat reservation.", written)
        claims = [{"text": text, "citations": cited, "parts": [1]} for text in texts]
        return complete(json.dumps({"claims": claims}))(request)

    chat.always = answer
    with browsing(modelled, "ben") as browser:
        claim = ask(browser).document
    page = Page(claim[claim.index('<div class="claim') : claim.index('<ol class="cards places"')])
    assert [link for link in page.all("a") if "badge" not in link["class"].split()] == []
    # What the documents do not support is marked.
    assert len(page.all("div", class_="claim")) == 2
    assert len(page.all("div", class_="unsupported")) == 1
    assert page.all("script") == []
    assert page.all("img") == []
    assert page.all("a", class_="badge")


def test_links_of_an_answer_lead_to_the_web_alone() -> None:
    page = Page(
        render_prose(
            "[a](https://example.org/a) [b](/sign-out) [c](javascript:alert(1)) [d](data:x) [e](//example.org) "
            "<https://example.org/f> ![g](https://example.org/g.png) <a href='https://example.org/h'>h</a>"
        )
    )
    links = [(link["href"], link["rel"]) for link in page.all("a")]
    assert links == [(f"https://example.org/{name}", "noreferrer noopener") for name in "af"]
    assert page.all("img") == []


# ----- Passages


def show_passage(document: DocumentEntry, before: str, marked: str) -> Page:
    after = " at the end"
    length = len(before) + len(marked) + len(after)
    shown = ShownPassage(document, before, marked, after, 0, length, length, None, False, None)
    return Page(render("passage.html", tenant="garden", passage=shown))


def test_a_passage_of_markdown_is_shown_as_a_browser_shows_it_and_no_other_text_is(
    indexed_once: Library,
) -> None:
    document = indexed_once.documents().documents[0]
    page = show_passage(document, "# Fares\n\nA **bed** costs ", "40 *euros*")
    assert page.texts("strong") == ["bed"]
    assert page.texts("mark") == ["40 euros"]
    assert page.one("div", class_="body").text.strip() == "Fares\nA bed costs 40 euros at the end"
    for uri in ("fares.txt", "fares.py", "fares.csv"):
        page = show_passage(document.model_copy(update={"uri": uri}), "# Fares **", "**40")
        assert page.one("div", class_="body").text == "# Fares ****40 at the end"
        assert page.texts("mark") == ["**40"]
    # The title, which the page tells above, stays where it is marked alone.
    title = f"# {document.title}"
    for before, marked, repeated in ((f"{title}\n\n", "A bed.", 0), ("# ", document.title, 1)):
        page = show_passage(document, before, marked)
        assert page.one("div", class_="body").text.count(document.title) == repeated
        assert page.texts("mark") == [marked]
    # A mark as long as its document is shown as it is written, whatever an address asks for.
    for marked, strong in (("**b** " * 3_000, 3_000), ("**b** " * 5_000, 0)):
        page = show_passage(document, "", marked)
        assert (len(page.all("strong")), len(page.all("mark"))) == (strong, 1)
    # The address of a link is marked where it is written out.
    page = show_passage(document, "[a](", "https://example.org")
    assert page.texts("mark") == ["https://example.org"]


def test_a_passage_holds_no_html_of_its_document_no_image_and_no_link_that_runs_code(
    indexed_once: Library,
) -> None:
    document = indexed_once.documents().documents[0]
    for text in (HOSTILE, *HTML, *LINKS):
        for page in (show_passage(document, text, "x"), show_passage(document, "x ", text)):
            tags = {element.tag for element in page.elements}
            assert not tags & {"script", "img", "iframe", "svg", "style", "details", "table"}, text
            assert not [
                name for element in page.elements for name in element.attributes if name.startswith("on")
            ]
            links = [link["href"] for link in page.all("a") if not link["href"].startswith("/tenants/")]
            assert all(link.startswith(("https://", "http://")) for link in links), text


def test_an_excerpt_has_the_words_of_markdown_alone() -> None:
    text = "- A **bed** of the [sleeper](s.md), `a < b`"
    assert make_excerpt(text, "fares.md") == "A bed of the sleeper, a < b"
    assert make_excerpt(text, "fares.py") == text
    # What Markdown shows nothing of is quoted as it is written.
    for text in ("---", "[ref]: https://example.org"):
        assert make_excerpt(text, "fares.md") == text


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
