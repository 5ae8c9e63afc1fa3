"""The shell of every page: one file that asks the network for nothing and runs no script."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from backstory.atomic_files import exclusive_temporary, publish, temporary_path
from backstory.report.palette import HUES, INK_ON_HUE


def render_page(template: str, *, title: str, **values: Any) -> str:
    """Render a page around a template.

    Values are text: they are escaped wherever they stand. The only style that a browser applies is the page's own,
    which is named by its hash in the page's Content-Security-Policy; no script, image, font, frame, form or
    connection is allowed at all.

    Args:
        template: Name of the template of the page's body.
        title: Title of the page.
        **values: What the template shows.

    Returns:
        The HTML document.
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
    """Render a template that stands alone, such as an SVG file, escaped like a page."""
    return _environment().get_template(template).render(hues=HUES, inks=INK_ON_HUE, **values)


def write_page(path: Path, html: str) -> Path:
    """Put a page into a file, at once: a reader sees the old page or the new one.

    Args:
        path: The file; its folder is made if absent.
        html: The page.

    Returns:
        The file.
    """
    with exclusive_temporary(path) as file:
        # Texts of chats may hold halves of surrogate pairs, which no file can.
        file.write(html.encode("utf-8", "replace"))
        file.flush()
        publish(temporary_path(path), path)
    return path


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("backstory.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
