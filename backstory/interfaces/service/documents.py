"""The endpoints of documents: their list with states, texts and pictures of pages, uploads, and removal."""

# Without the future import: FastAPI must see the annotations of functions inside functions as objects.
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import Field

from backstory.base.errors import InputError
from backstory.ingest.sources.listing import make_locator
from backstory.interfaces.library.added_texts import inspect_text
from backstory.interfaces.library.indexing import exclude_document
from backstory.interfaces.library.job_store import Job
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.names import ADDED_FOLDER
from backstory.interfaces.library.results import FileState, State
from backstory.interfaces.service.authentication import DESCRIBED, Access, Editor, Reader, Served
from backstory.interfaces.service.multipart import list_uploads, read_form
from backstory.interfaces.service.refusals import hide_paths, list_places
from backstory.interfaces.service.service import Service
from backstory.interfaces.service.uploads import StoredUpload, Upload, delete_upload, is_upload, store_uploads
from backstory.retrieval.found import DocumentEntry, NamedDocument, PagedSpan, Result

_MOST_DOCUMENTS: Final = 1000
_PICTURE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"image/png": {}}, "description": "The page as a picture."}
}
_FORM: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {"type": "array", "items": {"type": "string", "format": "binary"}}
                    },
                    "required": ["files"],
                }
            }
        },
    }
}
_CACHED: Final = "private, no-cache"
_ID: Final = re.compile(r"[0-9a-f]{16}")


class DocumentPage(Result):
    """Some of the documents of a tenant, by path."""

    documents: tuple[FileState, ...] = Field(description="The documents and other files, by path.")
    count: int = Field(description="Number of all that fit the question.")
    states: dict[str, int] = Field(description="Number of files of the tenant by state.")
    job: Job | None = Field(description="The index job that is pending or under way; null without one.")


class PageText(NamedDocument, PagedSpan):
    """The text of a document, or of some of its pages."""

    revision: str = Field(description="Revision of the text.")
    text: str = Field(description="The text.")
    pages: int | None = Field(description="Number of pages of the document; null without pages.")
    char_end: int = Field(description="Character after the last one.")


class UploadAnswer(Result):
    """What became of uploaded files."""

    files: tuple[StoredUpload, ...] = Field(description="The files, in the order in which they came.")
    job: Job = Field(description="The job that indexes them.")


class RemovalAnswer(Result):
    """What became of a document that was to be removed."""

    document_id: str = Field(description="Its id.")
    outcome: Literal["deleted", "excluded", "gone"] = Field(
        description="deleted: its uploaded file is deleted; excluded: its file stays, and is no longer read; gone: its "
        "file was gone already."
    )
    reason: str | None = Field(description="How to revert an exclusion; null otherwise.")
    job: Job = Field(description="The job that takes its text out of the index.")


def make_documents_router() -> APIRouter:
    """Make the endpoints of documents."""
    router = APIRouter(prefix="/api/documents", tags=["documents"], dependencies=list(DESCRIBED))

    @router.get("")
    def list_documents(
        access: Reader,
        service: Served,
        state: Annotated[State | None, Query(description="Only files in this state.")] = None,
        name: Annotated[str, Query(description="Only files with this text in their path or title.")] = "",
        limit: Annotated[int, Query(ge=1, le=_MOST_DOCUMENTS)] = 100,
        offset: Annotated[int, Query(ge=0)] = 0,
    ) -> DocumentPage:
        """List the documents and all other files, each with its state and the reason."""
        return list_files(service, access.tenant, state=state, name=name, limit=limit, offset=offset)

    @router.get("/{document_id}")
    def read_document(access: Reader, service: Served, document_id: str) -> FileState:
        """Read the state of one document."""
        with service.tenants.entering(access.tenant) as library:
            return find_file(library, document_id)

    @router.get("/{document_id}/text")
    def read_text(
        access: Reader,
        service: Served,
        document_id: str,
        first_page: Annotated[int | None, Query(ge=1)] = None,
        last_page: Annotated[int | None, Query(ge=1)] = None,
    ) -> PageText:
        """Read the text of a document, or of some of its pages."""
        first, last = first_page or last_page, last_page or first_page
        span = None if first is None or last is None else (first, last)
        with service.tenants.entering(access.tenant) as library:
            text = library.text(find_read(library, document_id).document_id, span)
        document = text.document
        return PageText.of(
            text,
            **{
                name: getattr(document, name) for name in ("document_id", "title", "uri", "revision", "pages")
            },
        )

    @router.get("/{document_id}/pages/{page}.png", response_class=Response, responses=_PICTURE)
    def draw_page(access: Reader, service: Served, request: Request, document_id: str, page: int) -> Response:
        """Draw a page of a PDF as a picture."""
        return answer_with_picture(service, access, request, document_id, page)

    @router.post("", status_code=202, openapi_extra=dict(_FORM))
    async def upload(
        access: Editor,
        service: Served,
        request: Request,
        replace: Annotated[bool, Query(description="Whether files of the same names are replaced.")] = False,
    ) -> UploadAnswer:
        """Upload files, which are all checked first, and index them. The same name and content is no error."""
        form = await read_form(request)
        try:
            return await run_in_threadpool(store_files, service, access, list_uploads(form), replaces=replace)
        finally:
            await form.close()

    @router.delete("/{document_id}", status_code=202)
    def remove_document(access: Editor, service: Served, document_id: str) -> RemovalAnswer:
        """Delete an uploaded file, or exclude any other from reading, and take its text out of the index."""
        return take_out_document(service, access, document_id)

    return router


def list_files(
    service: Service,
    tenant: str,
    *,
    state: State | None,
    name: str,
    limit: int,
    offset: int,
) -> DocumentPage:
    """List the documents of a tenant and all other files, each with its state and the reason.

    Some can be asked for by state, by a text in their path or title, and by number.
    """
    with service.tenants.entering(tenant) as library:
        files = _list_states(library)
    wanted = name.casefold()
    found = [
        file
        for file in files
        if (state is None or file.state == state)
        and (wanted in file.name.casefold() or wanted in (file.title or "").casefold())
    ]
    return DocumentPage(
        documents=tuple(found[offset : offset + limit]),
        count=len(found),
        states={each: sum(file.state == each for file in files) for each in get_args(State)},
        job=service.jobs.store(tenant).current(),
    )


def store_files(
    service: Service, access: Access, uploads: Sequence[Upload], *, replaces: bool
) -> UploadAnswer:
    """Store uploaded files, which are all checked first, and index them."""
    require_room = partial(service.tenants.require_room, access.tenant)
    with service.tenants.entering(access.tenant) as library:
        stored = store_uploads(library.workspace, uploads, replaces=replaces, require_room=require_room)
    return UploadAnswer(files=tuple(stored), job=service.jobs.submit(access.tenant, access.caller.user_id))


def take_out_document(service: Service, access: Access, document_id: str) -> RemovalAnswer:
    """Delete an uploaded file, or exclude any other from reading, and take its text out of the index."""
    with service.tenants.entering(access.tenant) as library:
        outcome, reason = _take_out(library, find_file(library, document_id))
    job = service.jobs.submit(access.tenant, access.caller.user_id, accepts_removals=True)
    return RemovalAnswer(document_id=document_id, outcome=outcome, reason=reason, job=job)


def answer_with_picture(
    service: Service, access: Access, request: Request, document_id: str, page: int
) -> Response:
    """Answer a request for the picture of a page of a PDF, which the client may have already."""
    with service.tenants.entering(access.tenant) as library:
        tag = f'"{find_read(library, document_id).revision}-{page}"'
        headers = {"Cache-Control": _CACHED, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        picture = library.page_picture(document_id, page)
    return Response(picture, media_type="image/png", headers=headers)


def find_file(library: Library, document_id: str) -> FileState:
    """Find a file by the id of its document alone: by no name, and by no part of an id."""
    found = next((file for file in _list_states(library) if file.document_id == document_id), None)
    if found is None or found.uri.endswith("/") or not found.uri:
        raise _unknown(document_id)
    return found


def _list_states(library: Library) -> list[FileState]:
    """List all files with their states, and with the names of sources in place of where they lie on this machine."""
    workspace = library.workspace
    places = list_places(workspace)
    return [
        file.model_copy(update={"reason": file.reason and hide_paths(file.reason, workspace.root, places)})
        for file in library.files()
    ]


def find_read(library: Library, document_id: str) -> DocumentEntry:
    """Find a document that was read, by its id alone, without a look at all files."""
    if not _ID.fullmatch(document_id):
        raise _unknown(document_id)
    found = library.document(document_id)
    if found.document_id != document_id:  # the whole id of one document can be the title of another
        raise _unknown(document_id)
    return found


def _unknown(document_id: str) -> InputError:
    return InputError(
        f"there is no document {document_id!r}; the list of documents (GET /api/documents) has all",
        code="unknown_document",
    )


def _take_out(library: Library, file: FileState) -> tuple[Literal["deleted", "excluded", "gone"], str | None]:
    """Delete a file that the service or the library wrote, and exclude any other."""
    workspace = library.workspace
    if file.state == "removed":
        return "gone", None
    if is_upload(file.uri):
        delete_upload(workspace, file.uri)
        return "deleted", None
    path = make_locator(workspace)(file.uri)
    if file.uri.startswith(f"{ADDED_FOLDER}/") and inspect_text(path) == "ours":
        path.unlink(missing_ok=True)
        return "deleted", None
    reason = exclude_document(workspace, file.uri, path)
    return "excluded", hide_paths(reason, workspace.root)
