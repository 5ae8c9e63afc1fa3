"""Renders the pages of the service, and names the files that they load: a style, scripts and an icon."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup
from starlette.responses import HTMLResponse

from backstory.base.wording import count
from backstory.ingest.documents.reader import gives_markdown
from backstory.interfaces.pages.report.page import encode_page, open_templates
from backstory.interfaces.pages.report.palette import HUES, INK_ON_HUE, name_paint
from backstory.interfaces.pages.site.markdown import Target, render_markdown
from backstory.interfaces.service.conversations import REMOVED_ANSWER, REMOVED_QUESTION
from backstory.interfaces.service.pages.passages import SHOWN_CHARACTERS, ShownPassage

ROOM: Final = "backstory.interfaces.service.pages"
STYLE: Final = "service.css"
SCRIPT: Final = "service.js"
HTMX: Final = "htmx-2.0.11.min.js"
ICON: Final = "icon.svg"

HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # Under `no-referrer`, browsers would not tell from which page a form was sent.
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie, HX-Request, Accept",
}
"""Headers of every page."""

_MOST_RENDERED: Final = 2 * SHOWN_CHARACTERS
"""Characters of a passage that is rendered as Markdown: an address may ask for a mark as long as its document."""
_HTMX_SETTINGS: Final = {
    "allowEval": False,
    "includeIndicatorStyles": False,
    "historyCacheSize": 0,  # it would keep pages in the storage of the browser
    "selfRequestsOnly": True,
    "responseHandling": [{"code": "204", "swap": False}, {"code": "...", "swap": True}],
}
_STATIC: Final = Path(__file__).with_name("static")
_MEDIA: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Asset:
    """A file that pages load.

    Attributes:
        content: Its bytes.
        media: Its type.
        mark: A part of its address that changes with its content, so that browsers may keep it.
    """

    content: bytes
    media: str
    mark: str


def find_asset(name: str) -> Asset | None:
    """Find a file that pages load by its name; None if there is no such file."""
    # Anybody may ask for any name, and none of them may stay in memory.
    return _read_asset(name) if name in (STYLE, SCRIPT, HTMX, ICON) else None


@cache
def _read_asset(name: str) -> Asset:
    if name == STYLE:
        content = open_templates(ROOM).get_template(STYLE).render(hues=HUES, inks=INK_ON_HUE).encode()
    else:
        content = (_STATIC / name).read_bytes()
    return Asset(content, _MEDIA[Path(name).suffix], hashlib.sha256(content).hexdigest()[:16])


def render(template: str, **values: Any) -> str:
    """Render a template. All values are escaped."""
    return (
        open_templates(ROOM)
        .get_template(template)
        .render(
            asset=_address_asset,
            count=count,
            htmx_settings=json.dumps(_HTMX_SETTINGS),
            paint=name_paint,
            excerpt=make_excerpt,
            passage_prose=render_passage,
            prose=render_prose,
            removed_answer=REMOVED_ANSWER,
            removed_question=REMOVED_QUESTION,
            **values,
        )
    )


def show(
    template: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Answer with a page, or a part of one."""
    content = encode_page(render(template, **values))
    return HTMLResponse(content, status, headers={**HEADERS, **(headers or {})})


def render_prose(text: str) -> Markup:
    """Render Markdown of an answer: without HTML of its own, and with links to pages of the web alone."""
    return render_markdown(text, _resolve)


def render_passage(passage: ShownPassage) -> Markup | None:
    """Render a passage of a Markdown text with its mark as HTML, as answers are rendered.

    Returns None if the text is no Markdown or too long, or nothing of what is marked would be seen, such as the address
    of a link.
    """
    if not gives_markdown(passage.document.uri) or passage.end - passage.start > _MOST_RENDERED:
        return None
    first, last = len(passage.before), len(passage.before) + len(passage.marked)
    is_title_marked = first < last and "\n" not in passage.before.lstrip()
    shown = render_markdown(
        f"{passage.before}{passage.marked}{passage.after}",
        _resolve,
        title="" if is_title_marked else passage.document.title,
        marked=(first, last),
    )
    return shown if first == last or "<mark>" in shown else None


def make_excerpt(text: str, uri: str) -> str:
    """Return the words of a passage without the marks of Markdown, if its document is Markdown and they leave any."""
    return (gives_markdown(uri) and render_prose(text).striptags()) or text


def _resolve(address: str, _words: str) -> Target | None:
    return Target(address) if address.lower().startswith(("http://", "https://")) else None


def _address_asset(name: str) -> str:
    asset = find_asset(name)
    if asset is None:
        raise ValueError(f"pages load no file {name!r}")
    return f"/static/{asset.mark}/{name}"
