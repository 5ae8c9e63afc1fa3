"""The frame of every page: one file that makes no request to the network and runs no script."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from backstory.atomic_files import exclusive_temporary, publish, temporary_path
from backstory.report.palette import HUES, INK_ON_HUE

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def render_page(template: str, *, title: str, **values: Any) -> str:
    """Render a page around a template.

    All values are escaped. The page's Content-Security-Policy allows only the page's own style, named by its hash. It
    allows no script, image, font, frame, form or connection.

    Args:
        template: File name of the template of the page's body.
        title: Title of the page.
        **values: The variables of the template.
    """
    style = _environment().get_template("style.css").render(hues=HUES, inks=INK_ON_HUE, **values)
    style_hash = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            style=style,
            style_hash=style_hash,
            **values,
        )
    )


def render_picture(template: str, **values: Any) -> str:
    """Render a template without the frame, such as an SVG file. All values are escaped."""
    return _environment().get_template(template).render(hues=HUES, inks=INK_ON_HUE, **values)


def write_page(path: Path, html: str) -> Path:
    """Write a page into a file atomically: a reader sees either the old page or the new one.

    Args:
        path: The file; its folder is created if absent.
        html: The page.

    Returns:
        ``path``.
    """
    with exclusive_temporary(path) as file:
        # Texts of chats may hold halves of surrogate pairs, which UTF-8 cannot encode.
        file.write(html.encode("utf-8", "replace"))
        file.flush()
        publish(temporary_path(path), path)
    return path


def _drop_controls(value: object) -> object:
    """Drop characters by which a text could command the terminal that shows the page, or turn its lines."""
    # Markup of the page's own is no plain string.
    return _CONTROLS.sub("", value) if type(value) is str else value


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("backstory.report"),
        autoescape=True,
        finalize=_drop_controls,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
