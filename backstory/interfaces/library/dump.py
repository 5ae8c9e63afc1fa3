"""Write the text of a document into a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from backstory.base.errors import InputError
from backstory.base.files.atomic import write_file
from backstory.interfaces.library.names import resolve_path
from backstory.interfaces.library.results import DocumentText, Dump


def dump_text(
    document: DocumentText, path: Path, *, roots: Sequence[Path] = (), replace: bool = False
) -> Dump:
    """Write the text of a document into a file.

    Args:
        document: The document.
        path: The file.
        roots: Folders, in one of which the file must lie after links are resolved; empty for anywhere.
        replace: Whether a file that is there is replaced. The document's own file never is.

    Returns:
        What was written.

    Raises:
        InputError: The file lies outside of the roots, or already exists, or cannot be written.
    """
    target = resolve_path(path)
    if roots and not any(target.is_relative_to(root.resolve()) for root in roots):
        raise InputError(
            f"{target} lies outside of {', '.join(str(root.resolve()) for root in roots)}; name a file inside of it"
        )
    if target == Path(document.document.path).resolve():
        raise InputError(f"{target} is the document itself; name another file")
    if target.exists() and (not replace or not target.is_file()):
        raise InputError(f"{target} already exists; name another file, or allow it to be replaced")
    try:
        write_file(target, document.text.encode())
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror}); name another file") from error
    return Dump(
        document=document.document,
        output_path=str(target),
        characters=len(document.text),
        pages=document.document.pages,
    )
