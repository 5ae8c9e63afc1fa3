"""Opening a document, with an error that names it and says what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from backstory.base.errors import ReadError
from backstory.base.files.safe_open import NoFileError, OutsideError, open_contained


@contextmanager
def open_inside(
    root: Path, path: Path, uri: str, *, most_bytes: int | None = None
) -> Iterator[BufferedReader]:
    """Open a regular file in a folder by :func:`backstory.base.files.safe_open.open_contained`.

    It yields the open file. It raises ``ReadError`` if the file cannot or must not be read. It raises
    ``FileNotFoundError`` if there is no such file any more.
    """
    try:
        with open_contained(root, path) as file:
            if most_bytes is not None and os.fstat(file.fileno()).st_size > most_bytes:
                raise ReadError(
                    f"{uri}: the file has more than {most_bytes:,} bytes, too many to read within the limit of "
                    "memory (`documents.read_megabytes`); split it, or raise the setting",
                    code="too_large",
                )
            yield file
    except FileNotFoundError:
        raise
    except OutsideError as error:
        raise ReadError(
            f"{uri}: this is a link that leaves the folder of documents; copy the file into it",
            code="outside_link",
        ) from error
    except NoFileError as error:
        raise ReadError(
            f"{uri}: this is not a file, or it is a link to nothing; replace or remove it", code="no_file"
        ) from error
    except OSError as error:
        raise ReadError(
            f"{uri}: the file cannot be read ({error.strerror}); make it readable, or remove it",
            code="unreadable_file",
        ) from error
