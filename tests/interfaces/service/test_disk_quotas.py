"""What a tenant may take on the disk: uploads, index jobs and agents stop there, and removals free it again."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.disk_quotas import bound_removal, count_bytes, forecast_growth
from backstory.interfaces.service.service import ServiceLimits
from backstory.interfaces.service.uploads import Upload, store_uploads
from backstory.pipeline.workspace import open_workspace
from tests.interfaces.library.conftest import write_documents
from tests.interfaces.service.running import Running, read_events, running, write_service
from tests.interfaces.service.tenant_folders import SETTINGS

MEGABYTE = 1 << 20


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    service, tokens = write_service(service_root, indexed_once.workspace.root, ServiceLimits())
    with running(service, tokens) as started:
        yield started


def leave(served: Running, room: int) -> None:
    """Leave a tenant some bytes of room."""
    tenants = served.service.tenants
    tenants.quotas.set("garden", count_bytes(tenants.folder("garden")) + room)


def upload(served: Running, size: int) -> tuple[int, str]:
    with served.client("ada") as client:
        files = {"files": ("lamps.md", b"# Lamps\n\n" + b"A lamp. " * (size // 8), "text/markdown")}
        answer = client.post("/api/documents", files=files)
    return answer.status_code, answer.json().get("error", {}).get("code", "")


def call_tool(client: httpx2.Client, name: str, **arguments: str) -> str | None:
    """Call a tool of an agent, and return the code of its failure; None if it answers."""
    call = {"name": name, "arguments": arguments}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    accepted = {"Accept": "application/json, text/event-stream"}
    answer = client.post("/mcp/garden", json=asked, headers=accepted)
    assert answer.status_code == 200
    [told] = [values for name, values in read_events(answer) if name == "message"]
    code: str | None = json.loads(told["result"]["content"][0]["text"]).get("code")
    return code


def test_an_upload_without_room_is_refused_and_nothing_is_written(served: Running) -> None:
    folder = served.service.tenants.folder("garden")
    leave(served, 16_384)
    before = count_bytes(folder / "posts")
    assert upload(served, 32_768) == (507, "disk_quota")
    assert count_bytes(folder / "posts") == before
    with served.client("cleo") as other:
        assert other.get("/api/documents").status_code == 200
    served.service.tenants.quotas.set("garden", 0)
    assert upload(served, 32_768)[0] == 202
    served.service.jobs.wait("garden")


def test_a_job_that_comes_to_the_quota_fails_and_goes_on_with_more_room(served: Running) -> None:
    posts = served.service.tenants.folder("garden") / "posts"
    for number in range(5):
        (posts / f"lamp-{number}.md").write_text(f"# Lamp {number}\n\nThe lamp {number} is old.\n")
    leave(served, -1)
    with served.client("ada") as client:
        job = client.post("/api/index").json()
        served.service.jobs.wait("garden")
        failed = client.get(f"/api/jobs/{job['job_id']}").json()
        assert (failed["state"], failed["failure_code"]) == ("FAILED", "disk_quota")
        assert str(served.service.root) not in failed["failure"]
        assert call_tool(client, "index_directory", directory_path="posts") == "disk_quota"
        assert call_tool(client, "answer_question", query="When does the night train leave?") is None
        listed = client.get("/api/documents").json()["documents"]
        moths = next(each for each in listed if each["title"] == "Moths")
        removal = client.delete(f"/api/documents/{moths['document_id']}").json()["job"]
        served.service.jobs.wait("garden")
        assert client.get(f"/api/jobs/{removal['job_id']}").json()["state"] == "COMPLETED"


def test_a_job_that_surely_would_not_fit_does_not_begin(served: Running) -> None:
    folder = served.service.tenants.folder("garden")
    workspace = open_workspace(folder)
    (folder / "posts" / "lamps.md").write_text("# Lamps\n\n" + "A lamp. " * 250_000)
    growth = forecast_growth(workspace)
    assert growth > MEGABYTE // 2
    made = {path: path.stat().st_mtime_ns for path in workspace.tables_dir.rglob("*") if path.is_file()}
    leave(served, growth - 1)
    with served.client("ada") as client:
        job = client.post("/api/index").json()
        served.service.jobs.wait("garden")
        failed = client.get(f"/api/jobs/{job['job_id']}").json()
    assert (failed["state"], failed["failure_code"], failed["total"]) == ("FAILED", "disk_quota", 0)
    assert {
        path: path.stat().st_mtime_ns for path in workspace.tables_dir.rglob("*") if path.is_file()
    } == made


def test_a_job_that_carries_out_a_removal_takes_no_more_than_what_is_there_once_more(served: Running) -> None:
    folder = served.service.tenants.folder("garden")
    leave(served, -1)
    later = folder / "posts" / "later.md"
    with later.open("wb") as file:
        file.truncate(bound_removal(open_workspace(folder), served.service.tenants.read_quota("garden")) or 0)
    with served.client("ada") as client:
        listed = client.get("/api/documents").json()["documents"]
        moths = next(each for each in listed if each["title"] == "Moths")
        refused = client.delete(f"/api/documents/{moths['document_id']}").json()["job"]
        served.service.jobs.wait("garden")
        failed = client.get(f"/api/jobs/{refused['job_id']}").json()
        assert (failed["state"], failed["failure_code"], failed["total"]) == ("FAILED", "disk_quota", 0)
        later.unlink()
        removal = client.post("/api/index").json()
        served.service.jobs.wait("garden")
        assert client.get(f"/api/jobs/{removal['job_id']}").json()["state"] == "COMPLETED"
        assert "Moths" not in {each["title"] for each in client.get("/api/documents").json()["documents"]}


def test_a_forecast_is_never_more_than_what_is_made(tmp_path: Path) -> None:
    # One sentence over and over gives the least for its size.
    with Library.open(write_documents(tmp_path / "made", SETTINGS)) as library:
        workspace = library.workspace
        (workspace.documents_dir / "lamps.md").write_text("# Lamps\n\n" + "A lamp. " * 60_000)
        before = count_bytes(workspace.tables_dir) + count_bytes(workspace.index)
        forecast = forecast_growth(workspace)
        assert forecast > 400_000
        library.index()
        made = count_bytes(workspace.tables_dir) + count_bytes(workspace.index) - before
        assert forecast < made
        assert forecast_growth(workspace) == 0


def test_the_quota_of_a_removed_tenant_is_not_that_of_a_later_one(served: Running) -> None:
    tenants = served.service.tenants
    leave(served, 0)
    assert tenants.remove("garden").is_complete
    tenants.create("garden")
    assert tenants.read_quota("garden") is None


def test_the_room_of_an_upload_is_that_which_no_other_one_takes_meanwhile(served: Running) -> None:
    asked: list[int] = []
    with served.service.tenants.entering("garden") as library:
        workspace = library.workspace

        def require_room(added: int) -> None:
            with workspace.state.lock("uploads", wait=False) as is_free:
                assert not is_free
            asked.append(added)

        for content in (b"# Ash", b"# Ash", b"# Ash tree"):
            upload = Upload("ash.md", io.BytesIO(content), len(content))
            store_uploads(workspace, [upload], replaces=True, require_room=require_room)
    assert asked == [5, 10]  # a file that is there already takes nothing
