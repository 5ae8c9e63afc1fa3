"""The frame of every page: one file that makes no request to the network, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from backstory.base.files.atomic import write_file
from backstory.interfaces.pages.report.palette import HUES, INK_ON_HUE

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ROOM: Final = "backstory.interfaces.pages.report"


@dataclass(frozen=True)
class Preview:
    """What other programs show of a page.

    Attributes:
        description: A sentence or two; empty for none.
        kind: Type of the page for Open Graph, such as article.
        address: Its address in the web; None if the site has none.
        feed: Address of the feed in the web; None for none.
    """

    description: str
    kind: str = "website"
    address: str | None = None
    feed: str | None = None


@dataclass(frozen=True)
class TrailLink:
    """One link above the heading of a page."""

    address: str
    words: str


def render_page(
    template: str,
    *,
    title: str,
    trail: Sequence[TrailLink] = (),
    room: str = _ROOM,
    style: str = "style.css",
    script: str = "",
    preview: Preview | None = None,
    **values: Any,
) -> str:
    """Render a page around a template.

    All values are escaped. The page's Content-Security-Policy allows only the page's own style and script, named by
    their hashes. It allows no image, font, frame, form or connection.

    Args:
        template: File name of the template of the page's body.
        title: Title of the page.
        trail: Links above the heading.
        room: Package whose folder ``templates`` holds the templates; those of this package are found, too.
        style: File name of the template of the style.
        script: A script of the page's own, never text of a chat or a document; empty for none.
        preview: What other programs show of the page; None for its title alone.
        **values: The variables of the templates.
    """
    environment = open_templates(room)
    css = environment.get_template(style).render(hues=HUES, inks=INK_ON_HUE, **values)
    return environment.get_template(template).render(
        title=title,
        trail=trail,
        style=css,
        style_hash=_hash_source(css),
        script=script,
        preview=preview,
        script_hash=_hash_source(script) if script else "",
        **values,
    )


@cache
def open_templates(room: str) -> Environment:
    """Open the templates of a package, and those of this one. They escape all values, and drop controls.

    Args:
        room: Package whose folder ``templates`` holds the templates.
    """
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((room, _ROOM))]),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_page(path: Path, html: str) -> Path:
    """Write a page into a file, as :func:`backstory.base.files.atomic.write_file` does.

    Args:
        path: The file; its folder is created if absent.
        html: The page.

    Returns:
        ``path``.
    """
    write_file(path, encode_page(html))
    return path


def encode_page(text: str) -> bytes:
    """Return the bytes of a page. Texts of chats may hold halves of surrogate pairs, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace")


def drop_controls(text: str) -> str:
    """Drop characters by which a text could command the terminal that shows the page, or turn its lines."""
    return _CONTROLS.sub("", text)


def _finalize(value: object) -> object:
    # Markup of the page's own is no plain string.
    return drop_controls(value) if type(value) is str else value


def _hash_source(source: str) -> str:
    return base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
