"""Sources that lie elsewhere are copied, read like a folder, and kept while they cannot be reached."""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pytest

from backstory.base.errors import ReadError, SettingsError, StoppedError
from backstory.base.progress import listening
from backstory.ingest.documents.files import FileRules, is_unlisted
from backstory.ingest.documents.reader import read_listed_documents
from backstory.ingest.sources.remotes import (
    MirrorState,
    RemoteFile,
    RemoteListing,
    describe_failure,
    list_mirror,
    name_page,
    read_state,
    update_mirror,
)
from backstory.ingest.walk import Listing
from backstory.pipeline.run.plan import is_fresh
from backstory.pipeline.workspace import Workspace
from backstory.settings.inputs import DocumentSettings, SourceSettings
from tests.ingest.sources.drive_server import Answer, copies
from tests.ingest.sources.source_tables import read_again, served, states
from tests.loopback import Received, listen

MOST = 1 << 20
TWO = {"a.md": b"# First\n", "b.md": b"# Second\n"}


@dataclass
class Web:
    """Pages by path, what was asked for, and statuses of paths that are refused."""

    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    address: str = ""

    def answer(self, received: Received) -> Answer:
        if received.method == "GET":
            self.asked.append(received.path)
        kind, content = self.pages.get(received.path, ("", b""))
        status = self.refused.get(received.path, 200 if received.path in self.pages else 404)
        return Answer(content, status, {"Content-Type": kind, "ETag": f'"{hash(content)}"'})


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    with listen(web.answer) as web.address:
        yield web


@pytest.fixture
def bucket() -> Iterator[fsspec.AbstractFileSystem]:
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pipe("/bucket/a.md", b"# A\n")
    memory.pipe("/bucket/in/b.md", b"# B\n")
    memory.pipe("/bucket/.env", b"hush")
    yield memory
    memory.store.clear()


Make = Callable[..., Workspace]
WIKI = "{url: 'memory://bucket', name: wiki}"


def test_a_bucket_is_read_and_followed(with_sources: Make, bucket: fsspec.AbstractFileSystem) -> None:
    workspace = with_sources(WIKI)
    assert served(read_again(workspace)) == {"wiki://a.md": "A", "wiki://in/b.md": "B"}
    assert states(workspace)["wiki://.env"][0] == "ignored"
    assert not any(path.name == ".env" for path in workspace.mirrors.rglob("*"))
    bucket.pipe("/bucket/a.md", b"# Another\n")
    bucket.pipe("/bucket/c.md", b"# C\n")
    bucket.rm("/bucket/in/b.md")
    assert served(read_again(workspace)) == {"wiki://a.md": "Another", "wiki://c.md": "C"}


def test_a_place_that_holds_nothing_any_more_keeps_its_documents(
    with_sources: Make, bucket: fsspec.AbstractFileSystem
) -> None:
    workspace = with_sources(WIKI)
    before = served(read_again(workspace))
    bucket.store.clear()
    assert served(read_again(workspace)) == before
    assert states(workspace)["wiki://"][0] == "failed"


def test_a_place_that_never_held_a_file_is_said(with_sources: Make, tmp_path: Path) -> None:
    workspace = with_sources(
        "{url: 'memory://bukket', name: wiki}", {"url": f"file://{tmp_path}/absent", "name": "gone"}
    )
    assert not served(read_again(workspace))
    assert {states(workspace)[f"{name}://"][0] for name in ("wiki", "gone")} == {"failed"}


def test_an_address_can_name_a_local_folder_or_an_archive(with_sources: Make, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.md").write_text("# A\n", encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "far.zip", "w") as archive:
        archive.writestr("in/b.md", "# B\n")
    places = [
        f"{{url: 'file://{tmp_path}/far', name: far}}",
        f"{{url: 'zip://::file://{tmp_path}/far.zip', name: packed}}",
    ]
    workspace = with_sources(*places)
    assert served(read_again(workspace)) == {"far://a.md": "A", "packed://in/b.md": "B"}


def test_pages_of_the_web_are_read_and_only_changed_ones_fetched(with_sources: Make, web: Web) -> None:
    web.pages = {
        "/list": ("text/plain", f"# mine\n{web.address}/b.md\n".encode()),
        "/a.md": ("text/markdown", b"# A\n"),
        "/b.md": ("text/markdown", b"# B\n"),
    }
    source = f"{{urls: ['{web.address}/a.md'], url_list: '{web.address}/list', name: web}}"
    workspace = with_sources(source)
    host = web.address.removeprefix("http://").replace(":", "-")
    assert served(read_again(workspace)) == {f"web://{host}/a.md": "A", f"web://{host}/b.md": "B"}
    web.asked.clear()
    web.pages["/b.md"] = ("text/markdown", b"# Beta\n")
    assert served(read_again(workspace))[f"web://{host}/b.md"] == "Beta"
    assert web.asked == ["/list", "/b.md"]


def test_two_addresses_of_one_name_are_said(with_sources: Make, web: Web) -> None:
    web.pages = {"/in/": ("text/html", b"<p>First</p>"), "/in/index": ("text/html", b"<p>Second</p>")}
    urls = [f"{web.address}/in/", f"{web.address}/in/index"]
    workspace = with_sources({"urls": urls, "name": "web"})
    assert len(served(read_again(workspace))) == 1
    [reason] = [reason for status, reason in states(workspace).values() if status == "failed"]
    assert reason == "another address of the source is kept under the same name; name one of the two"


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_page_that_is_refused_is_said_and_its_document_kept(
    with_sources: Make, web: Web, status: int
) -> None:
    web.pages = {"/a": ("text/markdown", b"# A\n"), "/b.md": ("text/markdown", b"# B\n")}
    workspace = with_sources({"urls": [f"{web.address}{path}" for path in web.pages], "name": "web"})
    before = served(read_again(workspace))
    web.refused["/a"] = status
    assert served(read_again(workspace)) == before
    failed = [state for state in states(workspace).values() if state[0] == "failed"]
    assert failed == [("failed", f"the service answered with status {status}")]


def test_a_service_that_is_gone_is_said_and_its_documents_kept(
    with_sources: Make,
) -> None:
    web = Web(pages={"/list": ("text/plain", b""), "/a.md": ("text/markdown", b"# A\n")})
    with listen(web.answer) as address:
        source = f"{{urls: ['{address}/a.md'], url_list: '{address}/list', name: web}}"
        workspace = with_sources(source)
        before = served(read_again(workspace))
    assert served(read_again(workspace)) == before
    status, reason = states(workspace)["web://"]
    assert status == "failed"
    assert reason.startswith("the source web cannot be reached: the list of")


def test_a_source_that_was_never_fetched_says_so_and_a_run_is_not_spared(
    with_sources: Make, bucket: fsspec.AbstractFileSystem
) -> None:
    del bucket
    workspace = with_sources(WIKI)
    [entry] = list_mirror(workspace.mirrors / "wiki", "wiki", FileRules()).skipped
    assert "the next run fetches it" in str(entry.reason)
    assert not is_fresh(workspace, ["2025-03-13"])


@dataclass
class Scripted:
    """A place whose downloads are cut off after some bytes, or fail."""

    contents: dict[str, bytes]
    broken: set[str] = field(default_factory=set)
    downloads: list[str] = field(default_factory=list)

    def list_files(self) -> RemoteListing:
        files = {
            path: RemoteFile(key=path, stamp=f"{hash(content)}") for path, content in self.contents.items()
        }
        return RemoteListing(files=files)

    def read(self, file: RemoteFile) -> Iterator[bytes]:
        self.downloads.append(file.key)
        content = self.contents[file.key]
        yield content[: len(content) // 2]
        if file.key in self.broken:
            raise ReadError("the connection was lost")
        yield content[len(content) // 2 :]


def update(folder: Path, remote: Scripted) -> MirrorState:
    update_mirror(folder, remote, FileRules(), MOST)
    return read_state(folder)


def listed(folder: Path) -> Listing:
    return list_mirror(folder, "x", FileRules())


def test_nothing_partial_is_kept_and_a_fetch_goes_on_where_it_stopped(tmp_path: Path) -> None:
    remote = Scripted(dict(TWO), broken={"b.md"})
    update(tmp_path, remote)
    assert copies(tmp_path) == {"a.md": b"# First\n"}
    assert read_state(tmp_path).failed == {"b.md": "the connection was lost"}
    remote.broken.clear()
    remote.downloads.clear()
    update(tmp_path, remote)
    assert remote.downloads == ["b.md"]
    assert copies(tmp_path) == remote.contents


def test_a_key_with_an_empty_part_is_fetched_once(tmp_path: Path) -> None:
    remote = Scripted({"a//b.md": b"# First\n"})
    for _ in range(2):
        update(tmp_path, remote)
    assert remote.downloads == ["a//b.md"]
    assert copies(tmp_path) == {"a/b.md": b"# First\n"}


def test_a_folder_that_becomes_a_file_and_a_file_that_becomes_a_folder_are_fetched(tmp_path: Path) -> None:
    for contents in ({"a/b.md": b"1", "c": b"2"}, {"a": b"3", "c/d.md": b"4"}):
        state = update(tmp_path, Scripted(contents))
        assert (copies(tmp_path), state.failed) == (contents, {})


def test_a_fetch_that_was_killed_leaves_whole_files_only(tmp_path: Path) -> None:
    class Killed(Scripted):
        def read(self, file: RemoteFile) -> Iterator[bytes]:
            for part in super().read(file):
                yield part
                if file.key == "b.md":
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(tmp_path, Killed(TWO))
    assert copies(tmp_path) == {"a.md": b"# First\n"}
    update(tmp_path, Scripted(TWO))
    assert copies(tmp_path) == TWO


def test_a_fetch_can_be_stopped_before_any_file(tmp_path: Path) -> None:
    names: list[str] = []

    def stop(step: str, done: int, total: int) -> None:
        assert (step, total) == ("fetching files", 2)
        if done == 1:
            raise StoppedError("enough; go on later")

    remote = Scripted(dict(TWO))
    with pytest.raises(StoppedError), listening(stop, names=names.append):
        update(tmp_path, remote)
    assert names == ["a.md", "b.md"]
    assert copies(tmp_path) == {"a.md": b"# First\n"}
    update(tmp_path, remote)
    assert copies(tmp_path) == remote.contents


def test_a_failed_file_keeps_its_document_and_another_place_begins_anew(tmp_path: Path) -> None:
    remote = Scripted(dict(TWO))
    update(tmp_path, remote)
    remote.contents["a.md"] = b"# Third\n"
    remote.broken.add("a.md")
    update(tmp_path, remote)
    listing = listed(tmp_path)
    assert [file.uri for file in listing.files] == ["b.md"]
    assert [(entry.uri, entry.status, entry.hides_files) for entry in listing.skipped] == [
        ("a.md", "failed", True)
    ]
    update(tmp_path, Scripted({"c.md": b"# C\n"}))
    assert copies(tmp_path) == {"c.md": b"# C\n"}


def test_a_failed_file_keeps_no_other_document_whose_name_begins_alike(tmp_path: Path) -> None:
    remote = Scripted(dict.fromkeys(("a.md", "a.md.md", "a.mdown/b.md", "c.md"), b"# Text\n"))
    update(tmp_path, remote)
    before = read_listed_documents(listed(tmp_path), DocumentSettings())
    remote.contents = {"a.md": b"# Changed\n", "c.md": b"# Text\n"}
    remote.broken.add("a.md")
    update(tmp_path, remote)
    after = read_listed_documents(listed(tmp_path), DocumentSettings(), before.documents)
    states = dict(after.documents.select("uri", "status").rows())
    assert states == {"a.md": "ok", "a.md.md": "deleted", "a.mdown/b.md": "deleted", "c.md": "ok"}


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("", {"a.md", "n/b.md"}),
        ("n/", {"n/b.md"}),
        ("n", {"n/b.md"}),
        ("s://", {"s://a.md", "s://n/b.md"}),
        ("s://n/", {"s://n/b.md"}),
        ("../written/", {"../written/p.md"}),
    ],
)
def test_what_could_not_be_looked_into_holds_what_lies_in_it(place: str, kept: set[str]) -> None:
    uris = ["a.md", "n/b.md", "s://a.md", "s://n/b.md", "sn://a.md", "../written/p.md"]
    assert {uri for uri in uris if is_unlisted(uri, {place})} == kept


def test_a_damaged_record_is_fetched_again(tmp_path: Path) -> None:
    update(tmp_path, Scripted({"a.md": b"# First\n", "in/gone.md": b"# Gone\n"}))
    remote = Scripted({"a.md": b"# First\n"})
    (tmp_path / "state.json").write_text("{", encoding="utf-8")
    [entry] = listed(tmp_path).skipped
    assert "the next run fetches it" in str(entry.reason)
    update(tmp_path, remote)
    assert remote.downloads == ["a.md"]
    assert copies(tmp_path) == remote.contents
    assert not listed(tmp_path).skipped


@pytest.mark.parametrize(
    "source",
    [
        {"url": "s3://user:pass@bucket/a"},
        {"urls": ["https://me:hush@example.org/a.md"]},
        {"urls": ["https://example.org/a.md?X-Amz-Signature=abc"]},
        {"url_list": "https://example.org/list?access_token=abc"},
        {"url": "https://example.org/a.md"},
        {"urls": ["ftp://example.org/a.md"]},
        {"path": "notes", "url": "s3://bucket/a"},
        {},
    ],
)
def test_addresses_with_keys_and_other_than_one_place_are_refused_without_showing_them(
    with_sources: Make, source: dict[str, object]
) -> None:
    with pytest.raises(SettingsError) as caught:
        with_sources(source)
    assert not any(secret in str(caught.value) for secret in ("hush", "abc", "pass@"))


@pytest.mark.parametrize(
    ("address", "kind", "path"),
    [
        ("https://a.org/x/post", "text/html", "a.org/x/post.html"),
        ("https://a.org/x/post.md", "text/html", "a.org/x/post.md"),
        ("https://a.org/", "text/html", "a.org/index.html"),
        ("https://a.org:8080", "", "a.org-8080/index"),
        ("https://a.org/../../etc/.env", "", "a.org/etc/env"),
        ("https://a.org/%2e%2e/%2Fx.md", "", "a.org/x.md"),
    ],
)
def test_a_page_is_kept_below_its_host(address: str, kind: str, path: str) -> None:
    assert name_page(address, kind) == path


def test_pages_that_differ_in_their_query_are_kept_apart() -> None:
    names = {name_page(f"https://a.org/x.html?page={page}", "text/html") for page in range(3)}
    assert len(names) == 3
    assert all(name.startswith("a.org/x-") and name.endswith(".html") for name in names)


def test_a_reason_holds_no_address() -> None:
    assert "secret" not in describe_failure(OSError("https://x/secret"))
    assert SourceSettings(url="s3://bucket/wiki").label == "wiki"
