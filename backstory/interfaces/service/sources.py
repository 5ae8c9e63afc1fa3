"""The endpoint of sources: where the documents of a tenant come from, and what became of their files."""

# Without the future import: FastAPI must see the annotations of functions inside functions as objects.
from collections import Counter
from typing import Final, Literal, TypeAlias

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from backstory.ingest.documents.files import SOURCE_MARK
from backstory.ingest.sources.listing import Source, list_sources
from backstory.ingest.sources.remotes import read_state
from backstory.interfaces.library.job_store import Job
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import FileState
from backstory.interfaces.mcp.http_serving import is_own_host
from backstory.interfaces.service.accounts import Caller
from backstory.interfaces.service.authentication import DESCRIBED, Owner, Reader, Served
from backstory.interfaces.service.service import Service
from backstory.retrieval.found import Result

_MOST_CHARACTERS: Final = 4_000

Kind: TypeAlias = Literal["documents", "folder", "file", "drive", "address", "pages"]


class SourceState(Result):
    """One source of documents. Its address stays in the settings, which people of the tenant need not see."""

    name: str = Field(description="Name of the source; empty for the folder of documents, with all uploads.")
    kind: Kind = Field(
        description="documents: the folder of documents; folder and file: elsewhere on the machine of the service; "
        "drive: Google Drive; address: such as a bucket; pages: single pages of the web."
    )
    is_reached: bool = Field(description="Whether the source is there, and the last indexing reached it.")
    problem: str | None = Field(description="Why it is not reached, and what to do; null if it is.")
    files: int = Field(description="Number of its files.")
    states: dict[str, int] = Field(description="Number of its files by state, as the documents have them.")


class SourceList(Result):
    """The sources of a tenant."""

    sources: tuple[SourceState, ...] = Field(description="The folder of documents, then the others by name.")


class PermissionToGive(Result):
    """A permission that was begun."""

    address: str = Field(description="Where the person goes, within ten minutes, to permit reading.")


class GivenPermission(BaseModel):
    """What Google added to the address to which it sent the person back."""

    model_config = ConfigDict(extra="forbid")

    state: str = Field(max_length=_MOST_CHARACTERS, description="Its `state`.")
    code: str = Field(max_length=_MOST_CHARACTERS, description="Its `code`.")


def make_sources_router() -> APIRouter:
    """Make the endpoint of sources."""
    router = APIRouter(prefix="/api", tags=["sources"], dependencies=list(DESCRIBED))

    @router.get("/sources")
    def list_all(access: Reader, service: Served) -> SourceList:
        """List where the documents come from, with the number of files in each state."""
        with service.tenants.entering(access.tenant) as library:
            return SourceList(sources=tuple(_describe_all(library)))

    @router.post("/sources/drive/permission")
    def ask_for_drive(access: Owner, service: Served, request: Request) -> PermissionToGive:
        """Begin to ask for the permission to read a Google Drive, by an address at which a person gives it."""
        address = service.permissions.begin(access.caller, access.tenant, name_service(request))
        return PermissionToGive(address=address)

    @router.post("/sources/drive/permission/finish", status_code=202)
    def finish_drive(given: GivenPermission, access: Owner, service: Served) -> Job:
        """Store the permission that a person gave, as whoever has begun it, and index what it lets read."""
        return keep_permission(service, access.caller, given.state, given.code, access.tenant)

    return router


def name_service(request: Request) -> str:
    """Name the service as a client does, whose host was checked; only this machine is called without encryption."""
    host = request.headers.get("host", "")
    return f"{'http' if is_own_host(host) else 'https'}://{host}"


def keep_permission(
    service: Service, caller: Caller, state: str, code: str, tenant: str | None = None
) -> Job:
    """Store the permission that a person gave, and index what it lets read."""
    return service.jobs.submit(service.permissions.finish(caller, state, code, tenant), caller.user_id)


def _describe_all(library: Library) -> list[SourceState]:
    workspace = library.workspace
    by_source: dict[str, list[FileState]] = {}
    for file in library.files():
        name, mark, _ = file.uri.partition(SOURCE_MARK)
        by_source.setdefault(name if mark else "", []).append(file)
    own = _describe("", "documents", None, by_source.get("", []))
    others = sorted(list_sources(workspace), key=lambda source: source.name)
    return [
        own,
        *(
            _describe(source.name, _name_kind(source), find_problem(source), by_source.get(source.name, []))
            for source in others
        ),
    ]


def _describe(name: str, kind: Kind, problem: str | None, files: list[FileState]) -> SourceState:
    states = Counter(file.state for file in files)
    return SourceState(
        name=name,
        kind=kind,
        is_reached=problem is None,
        problem=problem,
        files=len(files),
        states=dict(sorted(states.items())),
    )


def _name_kind(source: Source) -> Kind:
    settings = source.settings
    if settings.drive is not None:
        return "drive"
    if settings.url is not None:
        return "address"
    if settings.is_remote:
        return "pages"
    return "file" if source.root.is_file() else "folder"


def find_problem(source: Source) -> str | None:
    """Tell why a source is not reached, and what to do; None if it is."""
    if source.settings.is_remote:
        return read_state(source.root).problem or None
    return (
        None
        if source.root.exists()
        else "its file or folder is not there; make it available, or remove the source"
    )
