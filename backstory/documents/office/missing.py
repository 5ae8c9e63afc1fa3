"""What is said where the packages of the extra ``office`` are absent."""

from __future__ import annotations

from backstory.errors import DocumentError, MissingExtraError
from backstory.extras import require_extra


def require_office(uri: str, kind: str) -> None:
    """Raise an error that says what to install if a file needs packages that are absent.

    Raises:
        DocumentError: They are absent.
    """
    try:
        require_extra("office", f"reading {kind}", "save its text as Markdown")
    except MissingExtraError as error:
        raise DocumentError(f"{uri}: {error}") from error
