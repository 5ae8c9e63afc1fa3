"""Documents over the wire: uploads with all their tricks, states, texts, pictures of pages, and removal."""

import hashlib
import http.client
import json
import os
import shutil
import socket
import threading
import unicodedata
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.service import ServiceLimits
from tests.ingest.documents.pdf_files import make_pdf, write_lines
from tests.interfaces.service.running import Running, running, write_service

TRAIN = b"# Night ferry\n\nThe night ferry to Turku needs a cabin reservation.\n"
LIMITS = ServiceLimits(requests_per_minute=100_000, requests_at_once=10_000, upload_bytes=3_000_000)


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    with running(service, tokens) as started:
        yield started


@pytest.fixture
def editor(served: Running) -> Iterator[httpx2.Client]:
    with served.client("dora", "garden") as client:
        yield client


@pytest.fixture
def folder(served: Running) -> Path:
    return served.service.tenants.folder("garden")


def send(client: httpx2.Client, files: list[tuple[str, bytes]], **parameters: Any) -> httpx2.Response:
    form = [("files", (name, content)) for name, content in files]
    return client.post("/api/documents", files=form, params=parameters)


def error_of(response: httpx2.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def wait(served: Running, tenant: str = "garden") -> None:
    served.service.jobs.wait(tenant)


def list_files(folder: Path) -> dict[str, bytes]:
    """Give every file below a folder, but the databases that change by themselves."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in (folder / "posts").rglob("*")
        if path.is_file()
    }


def find(client: httpx2.Client, name: str) -> dict[str, Any]:
    [found] = [
        file
        for file in client.get("/api/documents", params={"name": name}).json()["documents"]
        if file["name"].endswith(f"/{name}")
    ]
    return dict(found)


def test_an_uploaded_file_is_stored_indexed_and_read(
    served: Running, editor: httpx2.Client, folder: Path
) -> None:
    answer = send(editor, [("ferry.md", TRAIN), ("other.txt", b"An umbrella in the hall.")])
    assert answer.status_code == 202
    [ferry, other] = answer.json()["files"]
    assert (ferry["name"], ferry["outcome"], ferry["size"]) == ("ferry.md", "added", len(TRAIN))
    wait(served)
    job = editor.get(f"/api/jobs/{answer.json()['job']['job_id']}").json()
    assert (job["state"], job["counts"]["indexed"]) == ("COMPLETED", 2)
    assert (folder / "posts" / "uploads" / "ferry.md").read_bytes() == TRAIN
    state = editor.get(f"/api/documents/{ferry['document_id']}").json()
    assert (state["state"], state["title"], state["reason"]) == ("read", "Night ferry", None)
    assert state["revision"] == hashlib.sha256(TRAIN).hexdigest()[:12]
    text = editor.get(f"/api/documents/{ferry['document_id']}/text").json()
    assert "cabin reservation" in text["text"]
    assert text["revision"] == state["revision"]
    found = editor.post("/api/search", json={"query": "night ferry to Turku"}).json()
    assert "cabin" in json.dumps(found)
    assert other["document_id"] != ferry["document_id"]
    again = send(editor, [("ferry.md", TRAIN)]).json()
    assert again["files"][0]["outcome"] == "unchanged"


def test_a_file_of_the_same_name_is_replaced_only_where_that_is_wanted(
    served: Running, editor: httpx2.Client, folder: Path
) -> None:
    assert send(editor, [("ferry.md", TRAIN)]).status_code == 202
    refused = send(editor, [("new.md", b"# New\n"), ("ferry.md", b"# Another\n")])
    assert error_of(refused) == (409, "existing_document")
    assert not (folder / "posts" / "uploads" / "new.md").exists()
    replaced = send(editor, [("ferry.md", b"# Another\n")], replace=True)
    assert replaced.json()["files"][0]["outcome"] == "replaced"
    wait(served)
    assert find(editor, "ferry.md")["title"] == "Another"


TRICKS = (
    "../../backstory.yaml", "..\\evil.md", "/tmp/evil.md", "a/b.md", "evil.md%00.pdf\0", ".backstoryignore", "NUL.md",
    "x" * 300 + ".md", "..", "C:evil.md",
)  # fmt: skip


def test_a_name_with_a_trick_writes_nothing(editor: httpx2.Client, folder: Path) -> None:
    before = list_files(folder)
    settings = (folder / "backstory.yaml").read_bytes()
    for name in TRICKS:
        # Clients escape some of these, so the body is written by hand.
        body = (
            b'--edge\r\nContent-Disposition: form-data; name="files"; filename="'
            + name.encode().replace(b"\\", b"\\\\")
            + b'"\r\nContent-Type: text/markdown\r\n\r\n# Evil\n\r\n--edge--\r\n'
        )
        refused = editor.post(
            "/api/documents", content=body, headers={"Content-Type": "multipart/form-data; boundary=edge"}
        )
        assert refused.status_code == 400, (name, refused.text)
        assert str(folder) not in refused.text, name
        assert list_files(folder) == before, name
        assert (folder / "backstory.yaml").read_bytes() == settings, name
        assert not Path("/tmp/evil.md").exists(), name


def test_files_that_would_not_be_read_are_refused(editor: httpx2.Client) -> None:
    assert error_of(send(editor, [("program.exe", b"MZ")])) == (400, "unsupported_format")
    assert error_of(send(editor, [("id_rsa.txt.pem", b"x")]))[0] == 400
    assert error_of(send(editor, [])) in ((400, "no_file"), (400, "no_form"), (400, "bad_form"))
    assert error_of(editor.post("/api/documents", json={"files": []})) == (400, "no_form")
    broken = {"Content-Type": "multipart/form-data; boundary=edge"}
    assert error_of(editor.post("/api/documents", content=b"--other\r\n", headers=broken)) == (
        400,
        "bad_form",
    )


def test_a_form_in_any_encoding_is_no_fault(editor: httpx2.Client, folder: Path) -> None:
    before = list_files(folder)
    head = b'--xx\r\nContent-Disposition: form-data; name="files"; filename="+2AA-.exe"\r\n\r\n'
    for charset in ("punycode", "idna", "zlib", "utf-16", "absent"):
        form = {"Content-Type": f"multipart/form-data; boundary=xx; charset={charset}"}
        refused = editor.post("/api/documents", content=head + b"x\r\n--xx--\r\n", headers=form)
        assert refused.status_code == 400, charset
        assert list_files(folder) == before, charset


def test_names_that_look_the_same_do_not_stand_side_by_side(editor: httpx2.Client, folder: Path) -> None:
    composed = "r\u00e9sum\u00e9.md"
    decomposed = unicodedata.normalize("NFD", composed)
    assert send(editor, [(composed, b"# First\n")]).status_code == 202
    assert error_of(send(editor, [(decomposed, b"# Second\n")])) == (409, "existing_document")
    assert send(editor, [(decomposed, b"# First\n")]).json()["files"][0]["outcome"] == "unchanged"
    assert error_of(send(editor, [("R\u00c9SUM\u00c9.md", b"# Third\n")])) == (409, "colliding_name")
    assert error_of(send(editor, [("a.md", b"# A\n"), ("A.md", b"# B\n")])) == (409, "colliding_name")
    assert error_of(send(editor, [("b.md", b"# A\n"), ("b.md", b"# B\n")])) == (409, "colliding_name")
    assert [path.name for path in (folder / "posts" / "uploads").iterdir()] == [composed]


def test_two_uploads_of_one_name_at_once_leave_one_whole_file(served: Running, folder: Path) -> None:
    contents = [f"# File {number}\n\n{'word ' * 40_000}{number}\n".encode() for number in range(8)]
    barrier = threading.Barrier(len(contents))

    def upload(content: bytes) -> int:
        with served.client("dora", "garden") as client:
            barrier.wait()
            return send(client, [("same.md", content)]).status_code

    with ThreadPoolExecutor(len(contents)) as threads:
        statuses = list(threads.map(upload, contents))
    assert sorted(statuses) == [202, *[409] * (len(contents) - 1)]
    stored = (folder / "posts" / "uploads" / "same.md").read_bytes()
    assert stored == contents[statuses.index(202)]


def test_a_body_that_stops_in_the_middle_leaves_nothing(
    served: Running, editor: httpx2.Client, folder: Path
) -> None:
    before = list_files(folder)
    head = b'--edge\r\nContent-Disposition: form-data; name="files"; filename="half.md"\r\n\r\n# Half\n'
    with socket.create_connection(("127.0.0.1", served.port), timeout=600) as client:
        request = (
            f"POST /api/documents HTTP/1.1\r\nHost: {served.host}\r\n"
            f"Authorization: Bearer {served.tokens['dora']}\r\nX-Backstory-Tenant: garden\r\n"
            "Content-Type: multipart/form-data; boundary=edge\r\nContent-Length: 2000000\r\n\r\n"
        )
        client.sendall(request.encode() + head + b"word " * 300_000)
    assert send(editor, [("after.md", b"# After\n")]).status_code == 202
    wait(served)
    assert list_files(folder).keys() - before.keys() == {"posts/uploads/after.md"}
    assert editor.get("/api/documents", params={"name": "half"}).json()["count"] == 0
    assert [path.name for path in (folder / ".backstory").iterdir() if path.name.endswith(".tmp")] == []


def test_a_body_that_is_too_large_is_refused(served: Running, editor: httpx2.Client, folder: Path) -> None:
    before = list_files(folder)
    assert error_of(send(editor, [("large.md", b"x" * 3_100_000)])) == (413, "too_large")

    def parts() -> Iterator[bytes]:
        yield b'--edge\r\nContent-Disposition: form-data; name="files"; filename="large.md"\r\n\r\n'
        for _ in range(40):
            yield b"x" * 100_000
        yield b"\r\n--edge--\r\n"

    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=600)
    headers = {
        "Authorization": f"Bearer {served.tokens['dora']}",
        "X-Backstory-Tenant": "garden",
        "Content-Type": "multipart/form-data; boundary=edge",
    }
    try:
        connection.request("POST", "/api/documents", body=parts(), headers=headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):  # it was answered before everything was sent
        pass
    finally:
        connection.close()
    assert list_files(folder) == before


def test_an_archive_writes_none_of_its_members_anywhere(
    served: Running, editor: httpx2.Client, folder: Path
) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inside.md", "# Inside\n\nA lantern in the archive.\n")
        archive.writestr("../../../escaped.md", "# Escaped\n")
        archive.writestr("/tmp/absolute.md", "# Absolute\n")
    before = sorted(path for path in folder.parent.rglob("*.md"))
    assert send(editor, [("pack.zip", packed.getvalue())]).status_code == 202
    wait(served)
    assert sorted(path for path in folder.parent.rglob("*.md")) == before
    states = {
        file["name"]: file["state"]
        for file in editor.get("/api/documents", params={"name": "pack.zip"}).json()["documents"]
    }
    assert states["posts/uploads/pack.zip/inside.md"] == "read"
    assert set(states.values()) == {"read", "failed"}
    inside = find(editor, "inside.md")
    removed = editor.delete(f"/api/documents/{inside['document_id']}")
    assert (removed.status_code, removed.json()["outcome"]) == (202, "excluded")
    wait(served)
    assert find(editor, "inside.md")["state"] == "skipped"
    assert (folder / "posts" / "uploads" / "pack.zip").exists()


def test_a_link_in_the_place_of_the_uploads_is_not_followed(
    editor: httpx2.Client, folder: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (folder / "posts" / "uploads").symlink_to(outside)
    assert error_of(send(editor, [("ferry.md", TRAIN)])) == (400, "linked_folder")
    assert list(outside.iterdir()) == []


def test_a_link_to_a_file_is_neither_read_nor_written(
    served: Running, editor: httpx2.Client, folder: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("# A secret outside\n")
    uploads = folder / "posts" / "uploads"
    uploads.mkdir()
    (uploads / "link.md").symlink_to(secret)
    assert error_of(send(editor, [("link.md", TRAIN)], replace=True)) == (409, "colliding_name")
    editor.post("/api/index")
    wait(served)
    link = find(editor, "link.md")
    assert link["state"] == "failed"
    assert editor.get(f"/api/documents/{link['document_id']}/text").status_code in (400, 404)
    assert editor.delete(f"/api/documents/{link['document_id']}").json()["outcome"] == "deleted"
    assert secret.read_text() == "# A secret outside\n"
    assert not os.path.lexists(uploads / "link.md")


def test_an_uploaded_file_is_deleted_and_any_other_stays_and_is_excluded(
    served: Running, editor: httpx2.Client, folder: Path
) -> None:
    send(editor, [("ferry.md", TRAIN)])
    wait(served)
    ferry, moths = find(editor, "ferry.md"), find(editor, "unrelated.md")
    deleted = editor.delete(f"/api/documents/{ferry['document_id']}").json()
    excluded = editor.delete(f"/api/documents/{moths['document_id']}").json()
    assert (deleted["outcome"], excluded["outcome"]) == ("deleted", "excluded")
    assert str(folder) not in json.dumps(excluded)
    wait(served)
    assert not (folder / "posts" / "uploads" / "ferry.md").exists()
    assert (folder / "posts" / "unrelated.md").exists()
    assert error_of(editor.get(f"/api/documents/{ferry['document_id']}")) == (404, "unknown_document")
    assert find(editor, "unrelated.md")["state"] == "skipped"
    assert "cabin" not in editor.post("/api/search", json={"query": "ferry to Turku"}).text
    assert error_of(editor.delete(f"/api/documents/{ferry['document_id']}")) == (404, "unknown_document")


def test_the_last_document_can_be_removed(served: Running, editor: httpx2.Client, folder: Path) -> None:
    shutil.rmtree(folder / "posts")
    send(editor, [("only.md", TRAIN)])
    wait(served)
    only = find(editor, "only.md")
    job = editor.delete(f"/api/documents/{only['document_id']}").json()["job"]
    wait(served)
    assert editor.get(f"/api/jobs/{job['job_id']}").json()["state"] == "COMPLETED"
    assert editor.get("/api/documents").json()["count"] == 0


def test_the_states_of_files_follow_the_disk(served: Running, editor: httpx2.Client, folder: Path) -> None:
    (folder / "posts" / "added.md").write_text("# Added\n\nA later file.\n")
    (folder / "posts" / "sourdough.md").write_text("# Changed\n\nRye.\n")
    (folder / "posts" / "night-train.md").unlink()
    (folder / "posts" / "broken.pdf").write_bytes(b"no pdf at all")
    page = editor.get("/api/documents").json()
    states = {file["name"]: file["state"] for file in page["documents"]}
    assert states["posts/added.md"] == states["posts/sourdough.md"] == states["posts/broken.pdf"] == "pending"
    assert states["posts/night-train.md"] == "removed"
    assert page["states"] == {"read": 4, "pending": 3, "failed": 0, "skipped": 0, "removed": 1}
    assert all(file["reason"] for file in page["documents"] if file["state"] != "read")
    editor.post("/api/index")
    wait(served)
    page = editor.get("/api/documents").json()
    assert page["states"] == {"read": 6, "pending": 0, "failed": 1, "skipped": 0, "removed": 0}
    [broken] = editor.get("/api/documents", params={"state": "failed"}).json()["documents"]
    assert broken["reason"]
    assert str(folder) not in json.dumps(page)
    [second] = editor.get("/api/documents", params={"limit": 1, "offset": 1}).json()["documents"]
    assert second == page["documents"][1]


def test_a_page_of_a_pdf_is_drawn_as_it_was_indexed(
    served: Running, editor: httpx2.Client, folder: Path
) -> None:
    content = make_pdf([write_lines("The first page"), write_lines("The second page")])
    send(editor, [("paper.pdf", content), ("ferry.md", TRAIN)])
    wait(served)
    paper, ferry = find(editor, "paper.pdf"), find(editor, "ferry.md")
    assert paper["pages"] == 2
    address = f"/api/documents/{paper['document_id']}/pages"
    picture = editor.get(f"{address}/2.png")
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert picture.content.startswith(b"\x89PNG")
    assert picture.content != editor.get(f"{address}/1.png").content
    tag = picture.headers["etag"]
    assert editor.get(f"{address}/2.png", headers={"If-None-Match": tag}).status_code == 304
    for page in ("0", "3", "-1"):
        assert error_of(editor.get(f"{address}/{page}.png")) == (404, "unknown_page")
    assert error_of(editor.get(f"/api/documents/{ferry['document_id']}/pages/1.png")) == (404, "unknown_page")
    text = editor.get(f"/api/documents/{paper['document_id']}/text", params={"first_page": 2}).json()
    assert (text["page_start"], text["page_end"], text["pages"]) == (2, 2, 2)
    assert "second" in text["text"]
    assert "first" not in text["text"]
    (folder / "posts" / "uploads" / "paper.pdf").write_bytes(make_pdf([write_lines("Another file")]))
    assert error_of(editor.get(f"{address}/1.png")) == (409, "changed_document")


def test_the_sources_are_listed_with_what_became_of_their_files(
    served: Running, editor: httpx2.Client, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.md").write_text("# One\n\nA note from elsewhere.\n")
    with served.service.tenants.entering("garden") as library:
        library.index(notes)
    listed = editor.get("/api/sources")
    [own, other] = listed.json()["sources"]
    assert (own["name"], own["kind"], own["states"], own["is_reached"]) == (
        "",
        "documents",
        {"read": 6},
        True,
    )
    assert (other["name"], other["kind"], other["files"]) == ("notes", "folder", 1)
    assert str(tmp_path) not in listed.text
    one = find(editor, "one.md")
    assert editor.delete(f"/api/documents/{one['document_id']}").json()["outcome"] == "excluded"
    assert (notes / "one.md").exists()
    shutil.rmtree(notes)
    [_, gone] = editor.get("/api/sources").json()["sources"]
    assert (gone["is_reached"], bool(gone["problem"])) == (False, True)


def test_a_document_is_named_by_its_whole_id_alone(editor: httpx2.Client) -> None:
    document = find(editor, "sourdough.md")
    for name in (document["document_id"][:8], document["title"], "posts%2Fsourdough.md", "..", "*", "%"):
        for end in ("", "/text", "/pages/1.png"):
            assert editor.get(f"/api/documents/{name}{end}").status_code == 404


def test_a_reader_changes_nothing_and_nobody_enters_another_tenant(served: Running) -> None:
    with served.client("ben") as reader, served.client("dora", "workshop") as other:
        for client in (reader, other):
            document = find(client, "sourdough.md")
            assert send(client, [("a.md", b"# A\n")]).status_code == 403
            assert client.post("/api/index").status_code == 403
            assert client.delete(f"/api/documents/{document['document_id']}").status_code == 403
    with served.client("ben", "workshop") as stranger, served.client() as nobody:
        for path in ("/api/documents", "/api/sources", "/api/jobs"):
            assert stranger.get(path).status_code == 404
            assert nobody.get(path).status_code == 401
        assert send(stranger, [("a.md", b"# A\n")]).status_code == 404
        assert send(nobody, [("a.md", b"# A\n")]).status_code == 401
