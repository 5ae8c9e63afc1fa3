"""Pages as a browser without scripts uses them: signing in, elements, and forms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx2

from tests.interfaces.service.running import Running

_VOID = {"input", "meta", "link", "img", "br", "hr"}


@dataclass
class Element:
    """An element of a page.

    Attributes:
        tag: Its name.
        attributes: Its attributes.
        text: All text in it.
    """

    tag: str
    attributes: dict[str, str]
    text: str = ""

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]


@dataclass
class Page(HTMLParser):
    """The elements of a page, in order."""

    document: str
    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[Element] = []
        self.feed(self.document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(made)
        if tag not in _VOID:
            self._open.append(made)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop().tag != tag:
            pass

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Find elements by attributes; ``class_`` names one of the classes."""
        wanted = attributes.pop("class_", None)
        return [
            element
            for element in self.elements
            if element.tag == tag
            and all(element.attributes.get(name) == value for name, value in attributes.items())
            and (wanted is None or wanted in element.attributes.get("class", "").split())
        ]

    def one(self, tag: str, **attributes: str) -> Element:
        """Find the one element of these attributes."""
        [found] = self.all(tag, **attributes)
        return found

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """Give the texts of elements, with blanks joined."""
        return [" ".join(element.text.split()) for element in self.all(tag, **attributes)]


class Browser:
    """A browser that runs no scripts: it keeps cookies, and tells which page a form was sent from."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client

    def get(self, path: str, status: int = 200) -> Page:
        """Load a page, and follow redirections."""
        return self._read(self.client.get(path, follow_redirects=True), status)

    def post(self, path: str, status: int = 200, **fields: str) -> Page:
        """Send a form of a page of the service, and follow redirections."""
        headers = {"Origin": str(self.client.base_url).rstrip("/")}
        response = self.client.post(path, data=fields, headers=headers, follow_redirects=True)
        return self._read(response, status)

    @staticmethod
    def _read(response: httpx2.Response, status: int) -> Page:
        assert response.status_code == status, response.text
        assert response.headers["content-type"].startswith("text/html")
        return Page(response.text)


@contextmanager
def browsing(served: Running, user: str | None = None) -> Iterator[Browser]:
    """Open a browser, in which a user has signed in; None for nobody."""
    with served.client() as client:
        browser = Browser(client)
        if user is not None:
            browser.post("/sign-in", token=served.tokens[user])
        yield browser
