"""The files of a form as a browser sends it, while its body comes."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from backstory.base.errors import InputError
from backstory.interfaces.service.uploads import Upload

MOST_FILES: Final = 100
"""Files of one form."""

_MOST_FIELDS: Final = 20
_MULTIPART: Final = "multipart/form-data"


async def read_form(request: Request) -> FormData:
    """Read the form of a request, which the caller closes.

    Its files are stored without a name where the system keeps temporary files.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _MULTIPART:
        raise InputError(f"send the files as a form ({_MULTIPART}), each in a field `files`", code="no_form")
    parser = MultiPartParser(
        request.headers,
        request.stream(),
        max_files=MOST_FILES,
        max_fields=_MOST_FIELDS,
    )
    try:
        return await parser.parse()
    except (MultiPartException, UnicodeError) as error:
        # A form may name its encoding, and what its names hold may be none of it.
        reason = error.message if isinstance(error, MultiPartException) else "its names are no text"
        raise InputError(
            f"the form cannot be read ({reason}); at most {MOST_FILES} files are sent at once",
            code="bad_form",
        ) from error


def list_uploads(form: FormData) -> list[Upload]:
    """List the files of a form, whatever their fields are called."""
    files = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
    if not files:
        raise InputError("the form has no file; send each in a field `files`", code="no_file")
    return [Upload(file.filename or "", file.file, file.size or 0) for file in files]
