"""The pages of documents: their list with states, their texts, uploads with their index job, and removal."""

from __future__ import annotations

from typing import Annotated, Any, Final, get_args

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from backstory.ingest.sources.listing import list_sources
from backstory.interfaces.library.job_store import Job
from backstory.interfaces.library.results import State
from backstory.interfaces.service.authentication import Served
from backstory.interfaces.service.documents import (
    answer_with_picture,
    find_file,
    list_files,
    store_files,
    take_out_document,
)
from backstory.interfaces.service.multipart import list_uploads, read_form
from backstory.interfaces.service.pages.passages import Mark, read_passage
from backstory.interfaces.service.pages.rendering import show
from backstory.interfaces.service.pages.visits import EditingVisitor, PageRoute, ReadingVisitor, is_part
from backstory.interfaces.service.refusals import hide_paths
from backstory.interfaces.service.service import Service
from backstory.interfaces.service.sources import find_problem
from backstory.interfaces.service.uploads import is_upload

PAGE_SIZE: Final = 50
_MOST_OFFSET: Final = 10_000_000
_MOST_CHARACTERS: Final = 10**12
_CHANGED: Final = "documents-changed"

Id = Annotated[str, Path(max_length=64)]
Character = Annotated[int | None, Query(ge=0, le=_MOST_CHARACTERS)]


def make_files_router() -> APIRouter:
    """Make the routes of the pages of documents."""
    router = APIRouter(prefix="/tenants/{tenant}", route_class=PageRoute, include_in_schema=False)

    @router.get("/documents")
    def list_documents(
        request: Request,
        access: ReadingVisitor,
        service: Served,
        state: str = "",
        name: Annotated[str, Query(max_length=200)] = "",
        offset: Annotated[int, Query(ge=0, le=_MOST_OFFSET)] = 0,
    ) -> Response:
        wanted: State | None = next((each for each in get_args(State) if each == state), None)
        page = list_files(
            service,
            access.tenant,
            state=wanted,
            name=name,
            limit=PAGE_SIZE,
            offset=offset,
        )
        if is_part(request):
            template, problems = "file_list.html", []
        else:
            template, problems = "files.html", _list_problems(service, access.tenant)
        return show(
            template,
            problems=problems,
            may_permit=access.caller.may(access.tenant, "owner")
            and service.permissions.has_client(access.tenant),
            caller=access.caller,
            tenant=access.tenant,
            may_edit=access.caller.may(access.tenant, "editor"),
            page=page,
            state=wanted or "",
            name=name,
            offset=offset,
            page_size=PAGE_SIZE,
            job=page.job or _find_job(service, access.tenant),
        )

    @router.post("/documents")
    async def upload(request: Request, access: EditingVisitor, service: Served) -> Response:
        form = await read_form(request)
        try:
            answer = await run_in_threadpool(
                store_files,
                service,
                access,
                list_uploads(form),
                replaces=form.get("replace") == "on",
            )
        finally:
            await form.close()
        if is_part(request):
            changed = {"HX-Trigger": _CHANGED}
            values = {"files": answer.files, "job": answer.job, "tenant": access.tenant, "may_edit": True}
            return show("uploaded.html", 202, changed, **values)
        return RedirectResponse(f"/tenants/{access.tenant}/documents", 303)

    @router.post("/index")
    def index(request: Request, access: EditingVisitor, service: Served) -> Response:
        job = service.jobs.submit(access.tenant, access.caller.user_id)
        return _show_job(request, job, access.tenant, may_edit=True)

    @router.get("/job")
    def follow_job(request: Request, access: ReadingVisitor, service: Served) -> Response:
        job = _find_job(service, access.tenant)
        return _show_job(request, job, access.tenant, may_edit=access.caller.may(access.tenant, "editor"))

    @router.post("/jobs/{job_id}/cancel")
    def cancel_job(request: Request, job_id: Id, access: EditingVisitor, service: Served) -> Response:
        job = service.jobs.cancel(access.tenant, job_id)
        return _show_job(request, job, access.tenant, may_edit=True)

    @router.get("/documents/{document_id}")
    def read_document(
        request: Request,
        document_id: Id,
        access: ReadingVisitor,
        service: Served,
        start: Character = None,
        end: Character = None,
        page: Annotated[int | None, Query(ge=1, le=_MOST_OFFSET)] = None,
    ) -> Response:
        mark = None if start is None or end is None else Mark(start, end)
        values: dict[str, Any] = {
            "caller": access.caller,
            "tenant": access.tenant,
            "may_edit": access.caller.may(access.tenant, "editor"),
            "back": None,
        }
        with service.tenants.entering(access.tenant) as library:
            if is_part(request):
                passage = read_passage(library, document_id, mark=mark, page=page, start=start or 0)
                return show("passage.html", passage=passage, **values)
            file = find_file(library, document_id)
            if file.revision is None:
                return show("unread.html", file=file, **values)
            passage = read_passage(library, document_id, mark=mark, page=page, start=start or 0)
        return show("document.html", passage=passage, file=file, **values)

    @router.get("/documents/{document_id}/pages/{page}.png")
    def draw_page(
        request: Request, document_id: Id, page: int, access: ReadingVisitor, service: Served
    ) -> Response:
        return answer_with_picture(service, access, request, document_id, page)

    @router.get("/documents/{document_id}/remove")
    def confirm_removal(document_id: Id, access: EditingVisitor, service: Served) -> Response:
        with service.tenants.entering(access.tenant) as library:
            file = find_file(library, document_id)
        return show(
            "remove.html",
            file=file,
            is_deleted=is_upload(file.uri),
            caller=access.caller,
            tenant=access.tenant,
        )

    @router.post("/documents/{document_id}/remove")
    def remove(document_id: Id, access: EditingVisitor, service: Served) -> Response:
        take_out_document(service, access, document_id)
        return RedirectResponse(f"/tenants/{access.tenant}/documents", 303)

    return router


def _list_problems(service: Service, tenant: str) -> list[tuple[str, str]]:
    """List the sources of a tenant that are not reached, with the reasons."""
    with service.tenants.entering(tenant) as library:
        sources = list_sources(library.workspace)
    found = ((source.name, find_problem(source)) for source in sources)
    return [(name, hide_paths(problem, service.root)) for name, problem in found if problem is not None]


def _find_job(service: Service, tenant: str) -> Job | None:
    """Find the latest job of a tenant; None if it never had one."""
    found, _ = service.jobs.store(tenant).list_jobs(1)
    return found[0] if found else None


def _show_job(request: Request, job: Job | None, tenant: str, *, may_edit: bool) -> Response:
    if not is_part(request):
        return RedirectResponse(f"/tenants/{tenant}/documents", 303)
    has_ended = job is None or job.ended_at is not None
    headers = {"HX-Trigger": _CHANGED} if has_ended else {}
    return show("job.html", 200, headers, job=job, tenant=tenant, may_edit=may_edit)
