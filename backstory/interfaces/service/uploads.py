"""Uploaded files: checked, written whole or not at all, and deleted again. They lie in a folder of the documents."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from pydantic import Field

from backstory.base.errors import InputError
from backstory.base.files.atomic import exclusive_temporary, flush, publish, temporary_path
from backstory.base.ids import document_id_of
from backstory.ingest.documents.files import make_rules
from backstory.ingest.documents.reader import find_document_format, list_titles
from backstory.ingest.limited_calls import find_limits
from backstory.ingest.zips import is_archive
from backstory.interfaces.service.file_names import check_file_name, fold_file_name
from backstory.pipeline.workspace import Workspace
from backstory.retrieval.found import Result

UPLOADS_FOLDER: Final = "uploads"
"""Folder, in the folder of the documents, of uploaded files; every other file of a tenant is never deleted."""

_LOCK: Final = "uploads"
_BLOCK_BYTES: Final = 1 << 20


class StoredUpload(Result):
    """What became of one uploaded file."""

    name: str = Field(description="Its name.")
    document_id: str = Field(description="Id of its document.")
    size: int = Field(description="Its bytes.")
    outcome: Literal["added", "replaced", "unchanged"] = Field(
        description="added: no file had this name; replaced: the file of this name had another content; unchanged: it "
        "had this content already."
    )


@dataclass(frozen=True)
class Upload:
    """A file as it came.

    Attributes:
        name: Its name as the client sent it.
        content: Its bytes, from the present position on.
        size: Number of them.
    """

    name: str
    content: BinaryIO
    size: int


def store_uploads(
    workspace: Workspace,
    uploads: Sequence[Upload],
    *,
    replaces: bool = False,
    require_room: Callable[[int], None] | None = None,
) -> list[StoredUpload]:
    """Check all uploaded files, write them into the folder of the documents, and return what became of each.

    If a write fails, the files before it stay.

    A file of the same name and another content is replaced, or is an error (``existing_document``), as is a name that
    looks the same (``colliding_name``). ``require_room`` takes the bytes that will be written, and raises if there is
    too little room for them. No other upload of the tenant is written meanwhile.
    """
    names = [_check(workspace, upload) for upload in uploads]
    folder = workspace.documents_dir / UPLOADS_FOLDER
    with workspace.state.lock(_LOCK):
        _require_own_folder(workspace, folder)
        others = {fold_file_name(name): name for name in _list_names(folder)}
        outcomes: list[Literal["added", "replaced", "unchanged"]] = []
        for name, upload in zip(names, uploads, strict=True):
            known = others.setdefault(fold_file_name(name), name)
            if known != name or names.count(name) > 1:
                raise InputError(
                    f"{name!r} and {known!r} are two files that look the same, or are one to some machines; rename one",
                    code="colliding_name",
                )
            outcomes.append(_compare(folder / name, upload, replaces=replaces))
        wanted = [
            (folder / name, upload)
            for name, upload, outcome in zip(names, uploads, outcomes, strict=True)
            if outcome != "unchanged"
        ]
        if wanted and require_room is not None:
            require_room(sum(upload.size for _, upload in wanted))
        for path, upload in wanted:
            _write(path, upload)
    return [
        StoredUpload(
            name=name,
            document_id=document_id_of(f"{UPLOADS_FOLDER}/{name}"),
            size=upload.size,
            outcome=outcome,
        )
        for name, upload, outcome in zip(names, uploads, outcomes, strict=True)
    ]


def is_upload(uri: str) -> bool:
    """Return whether the file of a document was uploaded as such; a member of an uploaded archive was not."""
    return uri.startswith(f"{UPLOADS_FOLDER}/") and uri.count("/") == 1


def delete_upload(workspace: Workspace, uri: str) -> None:
    """Delete an uploaded file. It is no error if it is gone already."""
    if not is_upload(uri):
        raise ValueError("only uploaded files are deleted")
    folder = workspace.documents_dir / UPLOADS_FOLDER
    with workspace.state.lock(_LOCK):
        _require_own_folder(workspace, folder)
        (folder / uri.removeprefix(f"{UPLOADS_FOLDER}/")).unlink(missing_ok=True)
        flush(folder)


def _check(workspace: Workspace, upload: Upload) -> str:
    """Return the name under which a file is stored, if it would be read there."""
    name = check_file_name(upload.name)
    settings = workspace.settings.documents
    most = find_limits(settings).most_bytes
    if upload.size > most:
        raise InputError(
            f"{name} has {upload.size:,} bytes, and at most {most:,} can be read; split it", code="too_large"
        )
    if find_document_format(name) is None and not is_archive(name):
        raise InputError(
            f"{name} is of no format that is read; save its text as one of these: {list_titles()}",
            code="unsupported_format",
        )
    reason = make_rules(settings).explain_with_folders(f"{UPLOADS_FOLDER}/{name}")
    if reason is not None:
        raise InputError(f"{name} would not be read: {reason}", code="bad_file_name")
    return name


def _require_own_folder(workspace: Workspace, folder: Path) -> None:
    """Make the folder of uploads; raise if it leads anywhere else."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink() or folder.resolve() != workspace.documents_dir.resolve() / UPLOADS_FOLDER:
        raise InputError(
            f"{workspace.settings.documents.folder}/{UPLOADS_FOLDER} is a link, so nothing is written or deleted "
            "there; whoever runs this service can replace it by a folder",
            code="linked_folder",
        )


def _list_names(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _compare(path: Path, upload: Upload, *, replaces: bool) -> Literal["added", "replaced", "unchanged"]:
    if not os.path.lexists(path):
        return "added"
    if path.is_symlink() or not path.is_file():
        raise InputError(
            f"{path.name} is the name of something else than an uploaded file; rename yours",
            code="colliding_name",
        )
    if path.stat().st_size == upload.size and _is_same(path, upload):
        return "unchanged"
    if replaces:
        return "replaced"
    raise InputError(
        f"there is a file {path.name} with another content; choose to replace it (`replace=true`), or rename yours",
        code="existing_document",
    )


def _write(path: Path, upload: Upload) -> None:
    """Write a hidden file first, which no run reads, and rename it once it is whole."""
    with exclusive_temporary(path) as file:
        shutil.copyfileobj(upload.content, file, _BLOCK_BYTES)
        file.flush()
        publish(temporary_path(path), path)


def _is_same(path: Path, upload: Upload) -> bool:
    """Return whether a file has the content of an upload, whose position stays as it is."""
    place = upload.content.tell()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                if block != upload.content.read(len(block)):
                    return False
        return not upload.content.read(1)
    finally:
        upload.content.seek(place)
