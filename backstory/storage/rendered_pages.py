"""Locations of rendered pages that show texts of a workspace; they are removed when such a text must go."""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPORTS_FOLDER: Final = "reports"
SITE_FOLDER: Final = "site"

SITE_MARK: Final = ".backstory-site"
"""File in the folder of a site. It says that every page in the folder is Backstory's to replace and to remove."""

# A killed process may leave the hidden file that would have become a page.
_PAGES: Final = ("*.html", ".*.html.tmp")


def list_site_pages(folder: Path) -> list[Path]:
    """List the pages of a site; none if the folder is not one of a site."""
    if not (folder / SITE_MARK).is_file():
        return []
    return sorted({path for pattern in _PAGES for path in folder.rglob(pattern) if path.is_file()})


def remove_pages(root: Path) -> tuple[str, ...]:
    """Remove the reports and the site of a workspace.

    Args:
        root: Folder of the workspace.

    Returns:
        What was removed, relative to the workspace: each report, and the folder of the site.
    """
    reports = sorted((root / REPORTS_FOLDER).glob("*.html"))
    pages = list_site_pages(root / SITE_FOLDER)
    for path in [*reports, *pages]:
        path.unlink()
    removed = [path.relative_to(root).as_posix() for path in reports]
    return (*removed, f"the {len(pages)} pages in {SITE_FOLDER}/") if pages else tuple(removed)
