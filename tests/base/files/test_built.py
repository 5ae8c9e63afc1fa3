import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.base.errors import ModelFileError
from backstory.base.files.atomic import temporary_path
from backstory.base.files.built import checksum_path, require_built_file
from backstory.models.embeddings.bert_graph import build_graph
from backstory.models.embeddings.local_embedder import open_pack
from backstory.models.embeddings.packs import read_e5_pack
from tests.errors import raises
from tests.models.embeddings.local.tiny_e5 import checksum_of, write_tiny_e5
from tests.started_python import StartedPython

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
    assert sorted(file.name for file in path.parent.iterdir()) == ["model.onnx", "model.onnx.sha256"]


def _cut(path: Path) -> None:
    path.write_bytes(CONTENT[:-1])


def _flip(path: Path) -> None:
    path.write_bytes(b"A" + CONTENT[1:])


def _forget_checksum(path: Path) -> None:
    checksum_path(path).unlink()


def _damage_checksum(path: Path) -> None:
    checksum_path(path).write_bytes(b"\xff")


def _lose(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [_cut, _flip, _forget_checksum, _damage_checksum, _lose])
def test_a_damaged_file_is_built_again(
    tmp_path: Path, build: Builder, damage: Callable[[Path], None]
) -> None:
    path = tmp_path / "model.onnx"
    require_built_file(path, build)
    damage(path)

    require_built_file(path, build)

    assert path.read_bytes() == CONTENT
    assert build.builds == 2


def test_what_a_killed_writer_left_is_not_used(tmp_path: Path, build: Builder) -> None:
    path = tmp_path / "model.onnx"
    temporary_path(path).write_bytes(CONTENT + b" half of another one")

    require_built_file(path, build)

    assert path.read_bytes() == CONTENT
    assert not temporary_path(path).exists()


def test_a_failed_build_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    def fail() -> bytes:
        raise ModelFileError("no tensors")

    with raises(ModelFileError):
        require_built_file(path, fail)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, build: Builder) -> None:
    (tmp_path / "models").write_text("a file where a folder should be")

    with raises(ModelFileError, "unwritable_folder", "BACKSTORY_CACHE_DIR"):
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


def test_the_same_weights_give_the_same_file(tmp_path: Path) -> None:
    write_tiny_e5(tmp_path / "e5.bin")
    model = read_e5_pack(tmp_path / "e5.bin", checksum=checksum_of(tmp_path / "e5.bin"))

    assert build_graph(model) == build_graph(model)
