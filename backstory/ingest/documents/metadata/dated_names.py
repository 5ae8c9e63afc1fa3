"""Dates in the names of files and folders."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date
from pathlib import PurePosixPath

_POST = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[-_ ]+(.*))?", re.DOTALL)
_YEAR = "(?:19|20)[0-9]{2}"
# The time in `202503041030 Title` is in the writer's unknown time zone.
_FIRST = re.compile(
    rf"({_YEAR})([._]?)([0-9]{{2}})\2([0-9]{{2}})(?:[0-9]{{4}}|[0-9]{{6}})?(?:[-_. ].*)?", re.DOTALL
)
_LAST = re.compile(rf".*[-_ (]({_YEAR})(-)([0-9]{{2}})-([0-9]{{2}})\)?", re.DOTALL)
_FOLDERS = re.compile(rf"(?:.*/)?({_YEAR})(/)([0-9]{{2}})/([0-9]{{2}})", re.DOTALL)
_FOLDER = re.compile(rf"(?:.*/)?({_YEAR})(-)([0-9]{{2}})-([0-9]{{2}})", re.DOTALL)


def split_dated_name(uri: str) -> tuple[str | None, str]:
    """Find the date in a path, and the slug.

    The file name has priority: first ``2025-03-04-my-post.md``, which always counts as a date, even if the day does
    not exist; then ``20250304 My post.md``, ``2025_03_04_my-post.md`` and ``My post 2025-03-04.md``. The folders
    follow, the innermost first: ``2025/03/04/my-post.md`` and ``2025-03-04/my-post.md``. A file called ``index`` gets
    the name of its folder.

    ``uri``: path of a file, with ``/``. It returns the date as ``YYYY-MM-DD``, or None, and the slug: the name without
    its suffix and without a leading date of the form ``2025-03-04``.
    """
    path = PurePosixPath(uri)
    name = path.parent.name if path.stem == "index" and path.parent.name else path.stem
    match = _POST.fullmatch(name)
    if match:
        return match[1], match[2] or name
    dated = _calendar_day(_FIRST.fullmatch(name)) or _calendar_day(_LAST.fullmatch(name))
    folders = (str(folder) for folder in path.parents)
    return dated or next(filter(None, map(_folder_day, folders)), None), name


def _folder_day(folder: str) -> str | None:
    return _calendar_day(_FOLDERS.fullmatch(folder)) or _calendar_day(_FOLDER.fullmatch(folder))


def _calendar_day(match: re.Match[str] | None) -> str | None:
    """Return the day if it exists in the calendar; other numbers may look like a date."""
    if match is not None:
        with suppress(ValueError):
            return date(int(match[1]), int(match[3]), int(match[4])).isoformat()
    return None
