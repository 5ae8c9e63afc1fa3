"""The folder of a site: pages that changed are written, pages that are gone are removed, the others stay untouched."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from backstory.base.errors import InputError
from backstory.base.files.atomic import write_file
from backstory.interfaces.pages.site.page import Page
from backstory.pipeline.rendered_pages import SITE_MARK, list_site_pages
from backstory.storage.tables.catalog import Entry

_EXPLANATION: Final = "`backstory site` made this folder: it replaces and removes the pages in it.\n"


@dataclass(frozen=True)
class Written:
    """How many pages were written, were there already, and were removed."""

    written: int
    unchanged: int
    removed: int


def write_folder(
    folder: Path, pages: Mapping[str, Page], known: Mapping[str, Entry]
) -> tuple[Written, dict[str, Entry]]:
    """Update a folder to exactly these pages.

    Args:
        folder: The folder; made if absent.
        pages: The pages by path in the folder.
        known: Inputs and hash of each page when it was written last. A page with these inputs and this content is
            not made.

    Returns:
        What was done, and inputs and hash of each page.

    Raises:
        InputError: The folder holds files, but not a site.
    """
    claim_folder(folder, SITE_MARK, _EXPLANATION, "site")
    entries = {}
    changed = 0
    for name, page in pages.items():
        path = folder / name
        present = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        before = known.get(name)
        if before is not None and (before.inputs, before.content) == (page.inputs, present):
            entries[name] = before
            continue
        content = page.make()
        entries[name] = Entry(page.inputs, hashlib.sha256(content).hexdigest(), 0)
        if entries[name].content != present:
            write_file(path, content)
            changed += 1
    stale = [path for path in list_site_pages(folder) if path.relative_to(folder).as_posix() not in pages]
    for path in stale:
        path.unlink()
    return Written(changed, len(pages) - changed, len(stale)), entries


def claim_folder(folder: Path, mark_name: str, explanation: str, kind: str) -> None:
    """Mark a new or empty folder as one whose files are Backstory's; a marked one stays as it is.

    Args:
        folder: The folder; made if absent.
        mark_name: Name of the file that marks it.
        explanation: Content of that file.
        kind: What the folder holds, for the error.

    Raises:
        InputError: The folder is not marked, and holds files.
    """
    mark = folder / mark_name
    if mark.is_file():
        return
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(
            f"{folder} is not the folder of {'an' if kind[0] in 'aeiou' else 'a'} {kind}, and not empty; name an "
            "empty or new folder with --output",
            code="foreign_folder",
        )
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(explanation, encoding="utf-8")
