"""The page of the service in a real browser: its own policy blocks nothing, and the keyboard suffices."""

import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.service import ServiceLimits
from tests.browser_session import BrowserPage, open_browser
from tests.interfaces.service.running import QUESTION, Running, running, write_service

ASK = "document.getElementById('ask')"
VIOLATIONS = "axe.run().then(found => found.violations.map(each => [each.id, each.nodes[0].html]))"


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    limits = ServiceLimits(requests_per_minute=100_000, requests_at_once=10_000)
    service, tokens = write_service(service_root, indexed_once.workspace.root, limits)
    with running(service, tokens) as started:
        yield started


def sign_in(page: BrowserPage, served: Running, user: str, path: str) -> None:
    """Sign in with the keyboard alone."""
    page.load(f"{served.url}{path}")
    page.wait("document.activeElement.id === 'token'")
    page.type(served.tokens[user])
    page.press("Enter")
    page.wait(f"location.pathname === {json.dumps(path)} && document.readyState === 'complete'")


def test_a_question_is_answered_and_its_passage_shown_without_a_mouse(
    served: Running, tmp_path: Path
) -> None:
    with open_browser(tmp_path / "profile") as page:
        sign_in(page, served, "ben", "/tenants/garden")
        # The first stop of the keyboard leads past the heading of the page.
        page.press("Tab")
        assert page.evaluate("document.activeElement.getAttribute('href')") == "#content"
        page.evaluate(f"{ASK}.elements.question.focus()")
        page.evaluate(
            "window.steps = []; new MutationObserver(() => steps.push(document.getElementById('progress').textContent))"
            ".observe(document.getElementById('progress'), {childList: true, characterData: true, subtree: true})"
        )
        page.type(QUESTION)
        page.press("Enter")
        page.wait("document.querySelector('.claim .badge')")
        steps = page.evaluate("steps.filter(text => text)")
        assert any("Searching" in step for step in steps)
        # Whoever listens stands at the answer now, and the address is that of the conversation.
        assert page.evaluate("document.activeElement.id") == "turn-1"
        assert page.evaluate("location.pathname").startswith("/tenants/garden/conversations/")
        page.wait("document.querySelectorAll('#history [aria-current]').length === 1")
        page.evaluate("document.querySelector('.claim .badge').focus()")
        page.press("Enter")
        marked = page.wait("document.querySelector('#passage mark')?.textContent")
        assert marked == page.evaluate("document.querySelector('.places blockquote').textContent")
        assert page.evaluate("document.activeElement.closest('#passage') !== null")
        # Nothing lies below the passage, which stays in view.
        assert page.evaluate("getComputedStyle(document.getElementById('history')).display") == "none"
        page.press("Escape")
        assert page.evaluate("document.getElementById('passage').hidden")
        assert page.evaluate("document.activeElement.className").startswith("badge")
        page.evaluate("document.querySelector('.feedback input[value=up]').click()")
        page.evaluate("document.querySelector('.feedback button').click()")
        page.wait("document.querySelector('.feedback [role=status]').textContent")
        # A second question goes on in the same conversation, and a reload shows both.
        page.evaluate(f"{ASK}.elements.question.focus()")
        page.type("and to Vienna?")
        page.press("Enter")
        page.wait("document.querySelectorAll('.turn').length === 2")
        page.load(page.evaluate("location.href"))
        assert page.evaluate("document.querySelectorAll('.turn').length") == 2
        # No script reads the cookie, and nothing that was read or typed stays but the path of the page.
        assert page.evaluate("document.cookie + localStorage.length") == "0"
        stored = page.evaluate("Object.values(sessionStorage)")
        assert [text for text in stored if not text.startswith("/tenants/garden")] == []
        assert page.complaints == []


def test_files_are_dropped_and_listed_when_the_job_has_read_them(served: Running, tmp_path: Path) -> None:
    with open_browser(tmp_path / "profile", width=360, height=740) as page:
        sign_in(page, served, "dora", "/tenants/garden/documents")
        page.evaluate(
            "(() => { const moved = new DataTransfer();"
            "moved.items.add(new File(['# Night ferry\\n\\nIt sails.\\n'], 'ferry.md'));"
            "document.querySelector('.drop').dispatchEvent("
            "new DragEvent('drop', {dataTransfer: moved, bubbles: true, cancelable: true})); })()"
        )
        assert page.wait("document.querySelector('#uploaded li')?.textContent") == "ferry.md: added"
        served.service.jobs.wait("garden")
        page.wait("document.getElementById('job').textContent.includes('Up to date')")
        page.wait(
            "[...document.querySelectorAll('#file-list .title')].some(link => link.textContent === 'Night ferry')"
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.complaints == []
        # A refusal is told where the page tells all: at its top.
        page.evaluate(
            "(() => { const moved = new DataTransfer(); moved.items.add(new File(['# Other\\n'], 'ferry.md'));"
            "document.getElementById('files').files = moved.files;"
            "document.getElementById('upload').requestSubmit(); })()"
        )
        assert "ferry.md" in page.wait("document.getElementById('notice').textContent.trim()")


def test_the_end_of_a_session_leads_to_the_page_for_signing_in(served: Running, tmp_path: Path) -> None:
    with open_browser(tmp_path / "profile") as page:
        sign_in(page, served, "ben", "/tenants/garden")
        [token] = [each for each in served.service.accounts.list_tokens() if each.user == "ben"]
        served.service.accounts.revoke_token(token.token_id)
        page.evaluate(f"{ASK}.elements.question.focus()")
        page.type(QUESTION)
        page.press("Enter")
        page.wait("location.pathname === '/sign-in'")


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 850, "light"), (360, 740, "dark")])
def test_pages_have_no_violation_that_axe_finds(
    served: Running, tmp_path: Path, width: int, height: int, scheme: str
) -> None:
    axe = resources.files("axe_core_python") / "axe.min.js"
    found = {}

    def look(page: BrowserPage, name: str) -> None:
        page.evaluate(f"{axe.read_text(encoding='utf-8')};0")
        found[name] = page.evaluate(VIOLATIONS)

    with open_browser(tmp_path / "profile", width=width, height=height) as page:
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        page.load(f"{served.url}/tenants/garden")
        look(page, "sign in")
        sign_in(page, served, "dora", "/tenants/garden")
        page.evaluate(f"{ASK}.elements.question.focus()")
        page.type(f"{QUESTION[:-1]}, and who paints the moths?")
        page.press("Enter")
        page.wait("document.querySelector('.claim .badge')")
        look(page, "answer")
        page.evaluate("document.querySelector('.claim .badge').click()")
        page.wait("document.querySelector('#passage mark')")
        look(page, "passage")
        page.load(f"{served.url}/tenants/garden/documents")
        look(page, "documents")
    assert found == {"sign in": [], "answer": [], "passage": [], "documents": []}
