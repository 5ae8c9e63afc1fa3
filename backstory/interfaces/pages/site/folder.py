"""The folder of a site: pages that changed are written, pages that are gone are removed, the others stay untouched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.errors import InputError
from backstory.interfaces.pages.report.page import write_page
from backstory.storage.rendered_pages import SITE_MARK, list_site_pages

_EXPLANATION: Final = "`backstory site` made this folder: it replaces and removes the pages in it.\n"


@dataclass(frozen=True)
class Written:
    """How many pages were written, were there already, and were removed."""

    written: int
    unchanged: int
    removed: int


def write_folder(folder: Path, pages: Mapping[str, str]) -> Written:
    """Update a folder to exactly these pages.

    Args:
        folder: The folder; made if absent.
        pages: HTML by path in the folder.

    Raises:
        InputError: The folder holds files, but not a site.
    """
    _claim(folder)
    changed = [name for name, html in pages.items() if not _holds(folder / name, html)]
    for name in changed:
        write_page(folder / name, pages[name])
    wanted = {folder / name for name in pages}
    stale = [path for path in list_site_pages(folder) if path not in wanted]
    for path in stale:
        path.unlink()
    return Written(len(changed), len(pages) - len(changed), len(stale))


def _claim(folder: Path) -> None:
    mark = folder / SITE_MARK
    if mark.is_file():
        return
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(
            f"{folder} is not the folder of a site, and not empty; name an empty or new folder with --output",
            code="foreign_folder",
            path=folder,
        )
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(_EXPLANATION, encoding="utf-8")


def _holds(path: Path, html: str) -> bool:
    return path.is_file() and path.read_bytes() == encode_page(html)


def encode_page(html: str) -> bytes:
    """Return the bytes of a page as :func:`backstory.interfaces.pages.report.page.write_page` writes them."""
    return html.encode("utf-8", "replace")
