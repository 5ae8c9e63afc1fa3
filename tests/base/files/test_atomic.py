"""Locks between holders of one file, and files that are built once. That others are replaced at once, tables test."""

import subprocess
import sys
from pathlib import Path

import pytest

from backstory.base.errors import ModelSetupError
from backstory.base.files.atomic import (
    exclusive_temporary,
    lock,
    publish,
    require_built_file,
    temporary_path,
)
from backstory.models.embeddings.local_embedder import open_pack
from backstory.models.embeddings.packs import read_e5_pack
from tests.errors import raises
from tests.models.embeddings.local.tiny_e5 import checksum_of, write_tiny_e5
from tests.started_python import StartedPython

HOLDER = """
import sys
from backstory.base.files.atomic import lock

with open(sys.argv[1]) as file:
    print(lock(file, shared=True), flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("length", [4, 250, 251, 255])
def test_a_file_of_any_name_is_replaced(tmp_path: Path, length: int) -> None:
    path = tmp_path / ("n" * length)
    with exclusive_temporary(path) as file:
        file.write(b"content")
        file.flush()
        publish(temporary_path(path), path)
    assert path.read_bytes() == b"content"
    assert [*tmp_path.iterdir()] == [path]


def test_a_shared_lock_of_another_process_ends_when_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    command = [sys.executable, "-c", HOLDER, str(path)]
    with (
        path.open() as file,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder,
    ):
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert not lock(file, wait=False)
        assert lock(file, shared=True, wait=False)
        holder.kill()
        assert lock(file)


def test_two_openings_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with path.open() as first, path.open() as second:
        assert lock(first)
        assert not lock(second, wait=False)
        assert not lock(second, shared=True, wait=False)
        first.close()
        assert lock(second, wait=False)


CONTENT = b"a graph" * 1000


class Builder:
    """Builds the same content and counts how often."""

    def __init__(self) -> None:
        self.builds = 0

    def __call__(self) -> bytes:
        self.builds += 1
        return CONTENT


@pytest.fixture
def build() -> Builder:
    return Builder()


def test_is_built_once(tmp_path: Path, build: Builder) -> None:
    path = tmp_path / "model" / "model.onnx"

    require_built_file(path, build)
    require_built_file(path, build)

    assert path.read_bytes() == CONTENT
    assert build.builds == 1
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]


def test_what_a_killed_writer_left_is_not_used(tmp_path: Path, build: Builder) -> None:
    path = tmp_path / "model.onnx"
    temporary_path(path).write_bytes(CONTENT + b" half of another one")

    require_built_file(path, build)

    assert path.read_bytes() == CONTENT
    assert not temporary_path(path).exists()


def test_a_failed_build_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    def fail() -> bytes:
        raise ModelSetupError("no tensors")

    with raises(ModelSetupError):
        require_built_file(path, fail)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, build: Builder) -> None:
    (tmp_path / "models").write_text("a file where a folder should be")

    with raises(ModelSetupError, "unwritable_folder", "BACKSTORY_CACHE_DIR"):
        require_built_file(tmp_path / "models" / "tiny" / "model.onnx", build)


_USE_MODEL = """
import sys
from pathlib import Path
from backstory.models.embeddings import local_embedder as local
from backstory.models.embeddings.packs import read_e5_pack

pack, graphs = Path(sys.argv[1]), Path(sys.argv[3])
build = local.build_graph
def build_noted(model):
    with (graphs / "builds").open("a") as file:
        file.write("built\\n")
    return build(model)
local.build_graph = build_noted
embedder = local.open_pack(read_e5_pack(pack, checksum=sys.argv[2]), graphs)
print("ready", flush=True)
sys.stdin.readline()
print(embedder.embed(["soup"], task="query").tobytes().hex())
"""


def test_processes_that_start_at_once_build_once_and_agree(tmp_path: Path) -> None:
    pack = tmp_path / "e5.bin"
    write_tiny_e5(pack)
    processes = [
        StartedPython(
            ["-c", _USE_MODEL, str(pack), checksum_of(pack), str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = {process.communicate()[0] for process in processes}

    model = read_e5_pack(pack, checksum=checksum_of(pack))
    expected = open_pack(model, tmp_path).embed(["soup"], task="query")
    assert outputs == {expected.tobytes().hex() + "\n"}
    assert (tmp_path / "builds").read_text() == "built\n"
