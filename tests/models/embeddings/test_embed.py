import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from backstory.base.errors import InputError, ModelError
from backstory.models.embeddings.embed import EmbeddingCache, embed_texts
from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.models.embeddings.protocol import Task, Vectors
from tests.caches import open_cache
from tests.errors import raises
from tests.recording_embedder import RecordingEmbedder
from tests.started_python import StartedPython

TEXTS = [f"message number {number}" for number in range(10)]


@pytest.fixture
def cache(tmp_path: Path) -> EmbeddingCache:
    return EmbeddingCache(open_cache(tmp_path))


@given(st.lists(st.text(max_size=8), max_size=30), st.integers(1, 3))
def test_vectors_are_those_of_the_texts_in_their_order(texts: list[str], workers: int) -> None:
    embedder = RecordingEmbedder(texts_per_batch=3, workers=workers)

    embedded = embed_texts(embedder, texts, task="document", cache=None)

    assert embedded.vectors.tobytes() == HashingEmbedder().embed(texts, task="document").tobytes()
    assert embedded.vectors.shape == (len(texts), 256)
    assert sorted(embedder.computed) == sorted(set(texts))


def test_what_is_known_is_not_computed_again_by_the_same_embedder_for_the_same_task(
    cache: EmbeddingCache,
) -> None:
    class Other(RecordingEmbedder):
        id = "hashing:other:256"

    embed_texts(RecordingEmbedder(), TEXTS[:3], task="query", cache=cache)
    reports: list[tuple[int, int]] = []
    embedder = RecordingEmbedder(texts_per_batch=3)

    found = embed_texts(
        embedder,
        [*TEXTS, *TEXTS[:5]],
        task="query",
        cache=cache,
        progress=lambda done, total: reports.append((done, total)),
    )

    stats = found.stats
    assert (stats.texts, stats.unique, stats.cached, stats.computed, stats.tokens) == (15, 10, 3, 7, 21)
    assert stats.as_counts()["embedding_computed"] == 7
    assert found.vectors.tobytes() == HashingEmbedder().embed([*TEXTS, *TEXTS[:5]], task="query").tobytes()
    assert (reports[0], reports[-1], reports) == ((3, 10), (10, 10), sorted(reports))
    assert sorted(embedder.computed) == TEXTS[3:]
    for other, task in ((RecordingEmbedder(), "document"), (Other(), "query")):
        embed_texts(other, TEXTS, task=task, cache=cache)  # type: ignore[arg-type]
        assert sorted(other.computed) == TEXTS
    assert cache.count_by_owner() == {"hashing:other:256": 10, "hashing:words:256": 20}


def test_what_another_process_stores_meanwhile_is_not_computed_again(cache: EmbeddingCache) -> None:
    class Late(RecordingEmbedder):
        def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
            embed_texts(RecordingEmbedder(), TEXTS, task=task, cache=cache)
            return super().embed(texts, task=task)

    late = Late(texts_per_batch=3)
    found = embed_texts(late, TEXTS, task="document", cache=cache)

    assert (found.stats.computed, found.stats.cached) == (3, len(TEXTS) - 3)
    assert found.vectors.tobytes() == HashingEmbedder().embed(TEXTS, task="document").tobytes()


def test_as_many_batches_run_at_once_as_the_embedder_allows() -> None:
    meeting = threading.Barrier(3)

    class Meeting(RecordingEmbedder):
        def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
            meeting.wait(timeout=300)
            return super().embed(texts, task=task)

    embedder = Meeting(texts_per_batch=1, workers=3)

    embedded = embed_texts(embedder, TEXTS[:9], task="query", cache=None)

    assert embedded.vectors.tobytes() == HashingEmbedder().embed(TEXTS[:9], task="query").tobytes()


def test_a_text_over_the_limit_is_refused_before_anything_is_computed(cache: EmbeddingCache) -> None:
    embed_texts(RecordingEmbedder(), TEXTS[:5], task="document", cache=cache)
    embedder = RecordingEmbedder()

    with raises(InputError, "too_long", 1, 10, 2049, 2048):
        embed_texts(embedder, [*TEXTS, "word " * 2049], task="document", cache=cache)

    assert embedder.batches == []


@pytest.mark.parametrize("text", [None, 3, "\udc00"])
def test_what_is_not_text_is_refused(cache: EmbeddingCache, text: Any) -> None:
    with raises(InputError, "no_text", 10):
        embed_texts(RecordingEmbedder(), [*TEXTS, text], task="document", cache=cache)


class Faulty(RecordingEmbedder):
    """Answers one batch wrongly."""

    def __init__(self, fault: Any) -> None:
        super().__init__(texts_per_batch=5)
        self._fault = fault

    def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
        vectors = super().embed(texts, task=task)
        return self._fault(vectors) if TEXTS[7] in texts else vectors


def _with(value: float) -> Any:
    def change(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        vectors[2] = value
        return vectors

    return change


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (lambda vectors: vectors[1:], [(4, 256)]),
        (lambda vectors: vectors[:, 1:], [(5, 255)]),
        (lambda vectors: vectors.astype(np.float64), ["float64"]),
        (_with(float("nan")), [2]),
        (_with(float("inf")), [2]),
        (_with(0.0), [2]),
        (_with(1.0), [2]),
    ],
    ids=["short", "narrow", "double", "nan", "infinite", "zero", "long"],
)
def test_unusable_vectors_are_an_error_and_not_kept(
    cache: EmbeddingCache, fault: Any, named: list[object]
) -> None:
    with raises(ModelError, "unusable_vectors", *named):
        embed_texts(Faulty(fault), TEXTS, task="document", cache=cache)

    assert cache.count_by_owner() == {HashingEmbedder.id: 5}


def test_batches_under_way_when_another_fails_are_kept(cache: EmbeddingCache) -> None:
    failed = threading.Event()

    class Uneven(RecordingEmbedder):
        def embed(self, texts: Sequence[str], *, task: Task) -> Vectors:
            if TEXTS[0] in texts:
                failed.set()
                raise ModelError("the first batch fails", code="first_batch")
            failed.wait()
            return super().embed(texts, task=task)

    with raises(ModelError, "first_batch"):
        embed_texts(Uneven(texts_per_batch=2, workers=2), TEXTS, task="query", cache=cache)

    assert cache.count_by_owner() == {HashingEmbedder.id: 2}


_EMBED = """
import os, sys, threading
from pathlib import Path
from backstory.models.embeddings.embed import EmbeddingCache, embed_texts
from tests.caches import open_cache
from tests.recording_embedder import RecordingEmbedder

class Halting(RecordingEmbedder):
    def embed(self, texts, *, task):
        if 0 <= HALT_AFTER <= len(self.batches):
            os.write(1, b"halted\\n")  # at once, since several threads halt
            threading.Event().wait()
        return super().embed(texts, task=task)

HALT_AFTER = int(sys.argv[2])
texts = [f"message number {number}" for number in range(int(sys.argv[3]))]
print("ready", flush=True)
sys.stdin.readline()
stats = embed_texts(
    Halting(texts_per_batch=10, workers=int(sys.argv[4])), texts, task="document",
    cache=EmbeddingCache(open_cache(Path(sys.argv[1]))),
).stats
print(stats.cached, stats.computed)
"""


def start(path: Path, *, halt_after: int, texts: int, workers: int) -> subprocess.Popen[str]:
    process = StartedPython(
        ["-c", _EMBED, str(path), str(halt_after), str(texts), str(workers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.parametrize("workers", [1, 3])
def test_a_killed_process_loses_at_most_one_batch_per_worker(tmp_path: Path, workers: int) -> None:
    path = tmp_path
    process = start(path, halt_after=6, texts=100, workers=workers)
    go(process)
    assert process.stdout
    assert process.stdout.readline() == "halted\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL

    resumed = start(path, halt_after=-1, texts=100, workers=workers)
    cached, computed = map(int, resumed.communicate("go\n")[0].split())

    assert cached + computed == 100
    if workers == 1:
        assert computed == 40
    else:
        # Six to eight batches were begun before one halted; what the other workers computed may be lost.
        assert 20 <= computed <= 40 + 10 * (workers - 1)


def test_two_processes_embed_the_same_texts_at_once(tmp_path: Path) -> None:
    path = tmp_path
    processes = [start(path, halt_after=-1, texts=300, workers=2) for _ in range(2)]
    for process in processes:
        go(process)
    outputs = [process.communicate()[0].split() for process in processes]

    assert [process.returncode for process in processes] == [0, 0]
    assert all(int(cached) + int(computed) == 300 for cached, computed in outputs)
    assert EmbeddingCache(open_cache(path)).count_by_owner() == {HashingEmbedder.id: 300}
