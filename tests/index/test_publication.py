"""Killed builders, and readers in other processes while snapshots are published."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backstory.index.request import SearchRequest
from backstory.index.search import open_index
from backstory.index.snapshot import current_version
from tests.started_python import StartedPython

ROOT = Path(__file__).parents[3]

# Kills itself just before the given change below the folder, counted from 1; 0 is never. Prints all changes.
BUILDER = """
import os, signal, sys
from pathlib import Path
import numpy as np, polars as pl
from backstory.index.build import publish_content
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.build import arrange
from backstory.settings.models import IndexSettings

folder, corpus, fatal = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
changes = []

def watch(event, arguments):
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if not writes and event not in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.utime"):
        return
    if isinstance(arguments[0], str | bytes | os.PathLike) and str(folder) in os.fsdecode(arguments[0]):
        changes.append(f"{event} {Path(os.fsdecode(arguments[0])).name}")
        if len(changes) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(watch)
content = arrange(
    pl.read_parquet(corpus / "documents.parquet"),
    pl.read_parquet(corpus / "chunks.parquet"),
    np.load(corpus / "vectors.npy"),
    "test:clustered:1",
    IndexSettings(ann_min_rows=0),
)
publish_content(folder, content, DEFAULT_CALIBRATION)
print("\\n".join(changes))
"""
READER = """
import sys
from pathlib import Path
import numpy as np
from backstory.index.request import SearchRequest
from backstory.index.search import open_index

request = SearchRequest(top_k=4, ranking="hybrid")
queries, versions, line = np.load(Path(sys.argv[2]) / "vectors.npy")[:3], set(), ""
while line != "stop":
    with open_index(Path(sys.argv[1]), embedder_id="test:clustered:1") as index:
        hits = index.search(queries, request, texts=["item1"] * 3).hits
        assert hits.height == 12, hits
        assert index.describe(hits["chunk_id"]).height == 12
        versions.add(index.manifest.version)
    print("read", flush=True)
    line = sys.stdin.readline().strip()
print(len(versions))
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return StartedPython(
        ["-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str], given: str = "") -> str:
    output, errors = process.communicate(given, timeout=600)
    assert process.returncode == 0, errors
    return output


def save(corpus: Any, folder: Path) -> Path:
    folder.mkdir()
    corpus.documents.write_parquet(folder / "documents.parquet")
    corpus.chunks.write_parquet(folder / "chunks.parquet")
    np.save(folder / "vectors.npy", corpus.vectors)
    return folder


@pytest.fixture(scope="module")
def saved(new_corpus: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("corpora")
    return {count: save(new_corpus(count), folder / str(count)) for count in (20, 30)}


@pytest.fixture(scope="module")
def changes(new_corpus: Any, saved: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Everything that a build does to the folder of an index that holds an earlier snapshot."""
    folder = tmp_path_factory.mktemp("counted")
    new_corpus(20).build(folder, ann_min_rows=0)
    return finish(start(BUILDER, folder, saved[30], 0)).splitlines()


@pytest.mark.parametrize(
    ("change", "complete", "published"),
    [
        pytest.param("os.mkdir .building-", False, False, marks=pytest.mark.long),
        ("os.mkdir terms", False, False),
        pytest.param("open manifest.json", False, False, marks=pytest.mark.long),
        pytest.param("os.rename .building-", False, False, marks=pytest.mark.long),
        ("os.rename .building-CURRENT", True, False),
        ("os.rmdir .discarded-", True, True),
    ],
)
def test_a_build_killed_at_any_point_leaves_a_whole_snapshot(
    new_corpus: Any,
    saved: dict[int, Path],
    tmp_path: Path,
    changes: list[str],
    change: Any,
    complete: bool,
    published: bool,
) -> None:
    before, after = new_corpus(20), new_corpus(30)
    version = before.build(tmp_path, ann_min_rows=0).version
    fatal = next(number for number, name in enumerate(changes, start=1) if name.startswith(change))
    killed = start(BUILDER, tmp_path, saved[30], fatal)
    assert killed.communicate(timeout=600)[0] == ""
    assert killed.returncode == -signal.SIGKILL
    with open_index(tmp_path) as index:
        assert (index.manifest.version != version) is published
        assert index.search(after.queries(2), SearchRequest(top_k=3)).hits.height == 6
    build = after.build(tmp_path, ann_min_rows=0)
    assert build.built is not complete
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "CURRENT", build.version}


def test_processes_read_while_another_publishes(
    new_corpus: Any, saved: dict[int, Path], tmp_path: Path
) -> None:
    new_corpus(20).build(tmp_path)
    readers = [start(READER, tmp_path, saved[20]) for _ in range(2)]
    try:
        for count in range(21, 27):
            for reader in readers:
                assert reader.stdout is not None
                assert reader.stdout.readline() == "read\n", reader.communicate()[1]
                print("again", file=reader.stdin, flush=True)
            # The readers are on their way through the files while the next snapshot replaces them.
            new_corpus(count).build(tmp_path)
        assert all(int(finish(reader, "stop\nstop\n").split()[-1]) > 1 for reader in readers)
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


@pytest.mark.long
def test_builders_take_turns(saved: dict[int, Path], tmp_path: Path) -> None:
    for builder in [start(BUILDER, tmp_path, saved[count], 0) for count in (20, 30, 20)]:
        finish(builder)
    with open_index(tmp_path) as index:
        assert index.manifest.rows in (40, 60)
    assert {path.name for path in tmp_path.iterdir()} == {
        ".lock",
        "CURRENT",
        current_version(tmp_path),
    }
