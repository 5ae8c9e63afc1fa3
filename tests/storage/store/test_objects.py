"""The objects of a store: one contract over S3 and a shared folder, and what happens when S3 fails."""

import errno
import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from backstory.base.errors import StoreError
from backstory.base.files.atomic import temporary_path
from backstory.storage.store.health import try_store
from backstory.storage.store.objects import ObjectStore, name_content
from tests.bucket import BUCKET, Bucket, Fault

PATIENCE = timedelta(minutes=1)
Open = Callable[[], ObjectStore]


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "s3":
        s3: ObjectStore = request.getfixturevalue("s3")
        return s3
    return ObjectStore(f"file://{tmp_path}/store", patience=PATIENCE)


@pytest.fixture
def s3(bucket: Bucket, tmp_path: Path) -> ObjectStore:
    return ObjectStore(f"{bucket.root}/{tmp_path.name}", patience=PATIENCE)


def put(store: ObjectStore, folder: Path, content: bytes) -> str:
    path = folder / "content"
    path.write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    store.upload(path, sha256)
    return sha256


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as error:
        call()
    return error.value.code


def test_an_object_is_replaced_only_by_who_has_read_it(store: ObjectStore) -> None:
    assert store.read("name") is None
    assert store.find("name") is None
    first = store.replace("name", b"one", None)
    assert first is not None
    assert store.replace("name", b"other", None) is None
    second = store.replace("name", b"two", first)
    assert second not in (None, first)
    assert store.replace("name", b"other", first) is None
    assert store.read("name") == (b"two", second)
    store.delete(["name", "absent"])
    assert store.replace("name", b"other", second) is None
    assert store.find("name") is None


def test_a_content_travels_whole_or_not(store: ObjectStore, tmp_path: Path) -> None:
    sha256 = put(store, tmp_path, b"a table")
    now = datetime.now(UTC)
    assert store.has_content(sha256, 7)
    assert store.has_content(sha256, 7, since=now - timedelta(hours=1))
    assert not store.has_content(sha256, 7, since=now + timedelta(hours=1))
    assert not store.has_content(sha256, 8)
    store.download(sha256, tmp_path / "deep" / "copy")
    assert (tmp_path / "deep" / "copy").read_bytes() == b"a table"
    assert store.read_content(sha256) == b"a table"
    assert store.verify(sha256)
    assert [found for found, _ in store.list_contents()] == [sha256]


def test_an_object_that_holds_something_else_is_never_put_in_place(
    store: ObjectStore, tmp_path: Path
) -> None:
    sha256 = put(store, tmp_path, b"a table")
    other = hashlib.sha256(b"another").hexdigest()
    found = store.find(name_content(sha256))
    assert found is not None
    assert store.replace(name_content(sha256), b"a tablE", found.etag)
    assert not store.verify(sha256)
    assert code_of(lambda: store.download(sha256, tmp_path / "copy")) == "damaged_object"
    assert code_of(lambda: store.download(other, tmp_path / "copy")) == "missing_object"
    assert [path.name for path in tmp_path.iterdir() if "copy" in path.name] == []


def test_a_file_that_changes_while_it_is_uploaded_leaves_no_object(
    store: ObjectStore, tmp_path: Path
) -> None:
    (tmp_path / "chat.txt").write_bytes(b"later")
    before = hashlib.sha256(b"before").hexdigest()
    assert code_of(lambda: store.upload(tmp_path / "chat.txt", before)) == "changed_file"
    assert store.find(name_content(before)) is None
    assert code_of(lambda: store.upload(tmp_path / "gone.txt", before)) == "changed_file"


@pytest.mark.parametrize("size", [7, 6_000_000])
def test_an_upload_ends_where_its_hash_does_and_never_harms_what_another_wrote(
    store: ObjectStore, tmp_path: Path, size: int
) -> None:
    content, path = bytes(size), tmp_path / "chat.txt"
    sha256 = hashlib.sha256(content).hexdigest()
    path.write_bytes(content + b" and more")
    with path.open("rb", buffering=0) as file:
        store.upload_open(file, size, sha256, "chats/chat.txt")
        assert store.verify(sha256)
        path.write_bytes(b"!" + content[1:])
        assert code_of(lambda: store.upload_open(file, size, sha256, "chats/chat.txt")) == "changed_file"
        assert store.verify(sha256)
        path.write_bytes(content[1:])
        assert code_of(lambda: store.upload_open(file, size, sha256, "chats/chat.txt")) == "changed_file"
    assert store.verify(sha256)


@pytest.mark.parametrize("fault", ["busy", "cut"])
def test_a_call_is_tried_again(s3: ObjectStore, bucket: Bucket, tmp_path: Path, fault: str) -> None:
    bucket.fail_first("busy" if fault == "busy" else "cut", "PUT", "objects/", times=2)
    sha256 = put(s3, tmp_path, b"a table")
    assert bucket.count("PUT", sha256) == 3
    bucket.fail_first("busy" if fault == "busy" else "cut", "GET", sha256)
    assert s3.read_content(sha256) == b"a table"


def test_a_conditional_call_is_tried_again_after_pauses(s3: ObjectStore, bucket: Bucket) -> None:
    bucket.fail_first("cut", "PUT", "name", times=4)
    assert s3.replace("name", b"", None) is not None
    assert bucket.count("PUT", "name") == 5


@pytest.mark.long
def test_a_call_is_tried_again_until_the_patience_ends(bucket: Bucket) -> None:
    store = ObjectStore(f"{bucket.root}/prefix", patience=timedelta(minutes=15))
    bucket.fail_first("cut", "HEAD", "name", times=60)
    assert store.find("name") is None
    assert bucket.count("HEAD", "name") == 61


def test_an_answer_that_is_cut_in_the_middle_is_read_again(
    s3: ObjectStore, bucket: Bucket, tmp_path: Path
) -> None:
    sha256 = put(s3, tmp_path, bytes(range(256)) * 100)
    bucket.fail_first("cut body", "GET", sha256)
    assert hashlib.sha256(s3.read_content(sha256)).hexdigest() == sha256


def test_a_store_is_tried_as_workers_use_it(store: ObjectStore) -> None:
    health = try_store(store)
    assert 0 < health.call_seconds < 60
    assert abs(health.clock_seconds) < 60
    assert not list(store.list_contents())


def test_a_store_that_ignores_conditions_or_is_of_another_time_is_refused(
    s3: ObjectStore, bucket: Bucket
) -> None:
    bucket.ignores_conditions = True
    assert code_of(lambda: try_store(s3)) == "no_conditions"
    bucket.ignores_conditions = False
    bucket.clock_ahead = timedelta(hours=1)
    assert code_of(lambda: try_store(s3)) == "clock_apart"


def test_what_is_wrong_is_told_by_its_code(
    bucket: Bucket, s3: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert code_of(lambda: ObjectStore("s3://absent/prefix", patience=PATIENCE).read("name")) == "no_bucket"
    assert (
        code_of(lambda: ObjectStore("s3://absent/prefix", patience=PATIENCE).replace("name", b"", None))
        == "no_bucket"
    )
    assert code_of(lambda: ObjectStore("https://host/prefix")) == "invalid_address"
    bucket.fail_first("refused", "GET", "name")
    assert code_of(lambda: s3.read("name")) == "refused_by_store"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    gone = ObjectStore(f"s3://{BUCKET}/prefix", patience=timedelta(seconds=0.2))
    assert code_of(lambda: gone.find("name")) == "unreachable_store"


def test_a_file_that_cannot_be_written_is_no_error_of_the_store(store: ObjectStore, tmp_path: Path) -> None:
    sha256 = put(store, tmp_path, b"a table")
    (tmp_path / "file").touch()
    for path in (tmp_path / ("long" * 70), tmp_path / "file" / "table"):
        assert code_of(partial(store.download, sha256, path)) == "unwritable_file"
    full = tmp_path / "full"
    temporary_path(full).symlink_to("/dev/full")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        store.download(sha256, full)


@pytest.mark.parametrize("fault", ["refused", "busy"])
def test_keys_that_are_not_set_are_named(
    bucket: Bucket, s3: ObjectStore, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", bucket.address)
    bucket.fault = lambda _method, _path: fault
    keyless = ObjectStore(s3.address, patience=timedelta(seconds=0.2))
    assert code_of(lambda: keyless.read("name")) == "missing_keys"
    assert code_of(lambda: keyless.replace("name", b"", None)) == "missing_keys"


@pytest.mark.parametrize("absent", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_half_of_the_keys_is_none(s3: ObjectStore, monkeypatch: pytest.MonkeyPatch, absent: str) -> None:
    monkeypatch.delenv(absent)
    half = ObjectStore(s3.address, patience=timedelta(seconds=0.2))
    assert code_of(lambda: half.read("name")) == "missing_keys"


@pytest.mark.usefixtures("bucket")
def test_what_the_client_says_of_its_attempts_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    gone = ObjectStore(f"s3://{BUCKET}/prefix", patience=timedelta(seconds=0.2))
    with pytest.raises(StoreError) as raised:
        gone.find("name")
    assert "http://127.0.0.1:9" in str(raised.value)
    assert "retries" not in str(raised.value)


def test_what_a_folder_was_given_is_on_the_disk_before_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, flushed = ObjectStore(f"file://{tmp_path}/store"), []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    written = tmp_path / "store" / name_content(put(store, tmp_path, b"a table"))
    assert flushed[0] == written
    assert set(flushed[1:]) >= {written.parent, written.parent.parent, tmp_path / "store"}
    flushed.clear()
    assert store.replace("manifest.json", b"{}", None)
    assert "manifest.json" not in [path.name for path in flushed]  # flushed before it has this name
    assert flushed[-1] == tmp_path / "store"
