"""Locations of rendered pages that show texts of a workspace; they are removed when such a text must go."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from backstory.base.files.atomic import temporary_path

EXPORTS_FOLDER: Final = "export"
REPORTS_FOLDER: Final = "reports"
SITE_FOLDER: Final = "site"

SITE_MARK: Final = ".backstory-site"
"""File in the folder of a site. It says that every page in the folder is Backstory's to replace and to remove."""

EXPORT_MARK: Final = ".backstory-export"
"""File in the folder of an export. It lists the exported files, which are Backstory's to replace and to remove."""

# A killed process may leave the hidden file that would have become a page.
_PAGES: Final = ("*.html", "feed.xml", "feed.json", "sitemap.xml", "pictures/*.png", ".*.tmp")


def list_site_pages(folder: Path) -> list[Path]:
    """List the files of a site or an export; none if the folder is neither."""
    if (folder / SITE_MARK).is_file():
        return sorted({path for pattern in _PAGES for path in folder.rglob(pattern) if path.is_file()})
    listed = [folder / name for name in read_export_mark(folder)]
    return [path for page in listed for path in (page, temporary_path(page)) if path.is_file()]


def read_export_mark(folder: Path) -> list[str]:
    """Return the paths of the exported files in a folder, relative to it; none if nothing was exported there."""
    mark = folder / EXPORT_MARK
    named = mark.read_text(encoding="utf-8").splitlines()[1:] if mark.is_file() else []
    # A file that anyone may edit must not name what lies elsewhere.
    return sorted(name for name in named if name and not name.startswith("/") and ".." not in name.split("/"))


def remove_pages(root: Path) -> tuple[str, ...]:
    """Remove the reports, the site and the exports of a workspace.

    It names what was removed, relative to the workspace: each report, and the folders of the site and the exports.
    """
    paths = sorted((root / REPORTS_FOLDER).glob("*.html"))
    removed = [path.relative_to(root).as_posix() for path in paths]
    for folder in (root / SITE_FOLDER, *sorted((root / EXPORTS_FOLDER).glob("*/"))):
        if pages := list_site_pages(folder):
            removed.append(f"the {len(pages)} pages in {folder.relative_to(root).as_posix()}/")
            paths += pages
    for path in paths:
        path.unlink()
    return tuple(removed)
