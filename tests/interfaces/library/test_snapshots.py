"""One snapshot for each question, vectors that are computed once, and an index that follows its files."""

import subprocess
import threading
from pathlib import Path

import pytest

from backstory.index.snapshot import current_version
from backstory.interfaces.library import snapshots
from backstory.interfaces.library.freshness import Watcher
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import IndexReport, SearchAnswer
from tests.pipelines.ui_process import wait_for
from tests.recording_embedder import RecordingEmbedder
from tests.started_python import StartedPython

ROOT = Path(__file__).resolve().parents[3]

# Adds and edits a text again and again, each time in a new snapshot.
WRITER = """
import sys
from backstory.interfaces.library import snapshots
from backstory.interfaces.library.library import Library

library = Library.open(sys.argv[1])
for number in range(3):
    assert library.add([f"Marker of round {number}."] * 2, ["first", "second"]).success
"""


def test_every_answer_is_of_one_snapshot_while_others_are_published(library: Library) -> None:
    library.add(["Marker of round x."] * 2, ["first", "second"])
    writer = StartedPython(
        ["-c", WRITER, str(library.workspace.root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    seen: dict[str, set[str]] = {}
    try:
        is_running = True
        while is_running:
            is_running = writer.poll() is None  # one more question after the last publication
            for answer in library.search_many(["marker of a round", "round marker"], top_k=2):
                assert {hit.slug for hit in answer.hits} == {"first", "second"}
                seen.setdefault(answer.index_version, set()).update(hit.text for hit in answer.hits)
        assert writer.wait() == 0, writer.communicate()[1]
    finally:
        writer.kill()
        writer.communicate()
    # Both texts are changed together: a mixture of two snapshots would hold two markers.
    assert all(len(texts) == 1 for texts in seen.values())
    assert seen[current_version(library.workspace.index)] == {"Marker of round 2."}


def test_a_question_that_began_keeps_its_snapshot(library: Library) -> None:
    snapshots = library._snapshots
    with snapshots.reading() as before:
        library.add(["Marker."], ["one"])
        with snapshots.reading() as after:
            assert after.index.manifest.version == current_version(library.workspace.index)
        assert before.index.manifest.version != after.index.manifest.version
        assert before.index.documents.height == 6
        assert before.index.describe(before.index.snapshot.rows["chunk_id"]).height == 6


def test_threads_share_one_library(library: Library) -> None:
    answers: list[SearchAnswer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(library.search("sourdough starter"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert all(answer == answers[0] for answer in answers)


def test_a_question_is_embedded_once_across_libraries(library: Library) -> None:
    computed = []
    for _ in range(2):  # what a process knows lies in the file of the cache
        again = Library.open(library.workspace.root)
        embedder = RecordingEmbedder()
        again.workspace.__dict__["embedder"] = embedder
        again.search("a question of its own", expand=True)
        again.search_many(["a question of its own", "another one"])
        computed.append(embedder.computed)
    assert sorted(computed[0]) == sorted({"a question of its own", "another one"})
    assert computed[1] == []


def test_a_watcher_follows_the_files(library: Library) -> None:
    watcher = library.watch(poll_seconds=0.02)
    assert library.watch() is watcher
    wait_for(lambda: watcher.last_sync is not None, "the watcher")
    assert library.status().watching
    for number in range(3):
        (library.workspace.documents_dir / f"burst-{number}.md").write_text(
            f"Burst {number}.", encoding="utf-8"
        )
    wait_for(lambda: library.grep("burst").documents == 3, "the watcher")
    (library.workspace.documents_dir / "burst-1.md").unlink()
    wait_for(lambda: library.grep("burst").documents == 2, "the watcher")
    library.close()
    assert not watcher.is_alive
    status = library.status()
    assert (status.watching, status.state, status.pending) == (False, "ready", ())


def test_a_watcher_says_why_it_cannot_index(library: Library) -> None:
    record = library.workspace.added_sources
    record.write_text("{", encoding="utf-8")
    watcher = library.watch(poll_seconds=0.02)
    wait_for(lambda: watcher.error is not None, "the watcher")
    status = library.status()
    assert status.state == "error"
    assert "damaged" in str(status.reason)
    record.unlink()
    wait_for(lambda: watcher.error is None and watcher.last_sync is not None, "the watcher")
    assert library.status().state == "ready"


def test_a_watcher_goes_on_after_a_failure_that_nobody_expected(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    report = library.index()
    outcomes: list[IndexReport | Exception] = [KeyError("fault"), report]
    states = ["before"]

    def index() -> IndexReport:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    watcher = Watcher(lambda: states[-1], index, seconds=0.01)
    wait_for(lambda: watcher.error is not None, "the watcher")
    library._watcher = watcher
    status = library.status()
    assert (status.state, status.reason, status.watching) == ("error", "KeyError: 'fault'", True)
    assert "in index" in caplog.text  # the place of the fault
    states.append("after")
    wait_for(lambda: watcher.error is None and watcher.last_sync is not None, "the watcher")
    watcher.stop()


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))])
def test_any_edits_end_in_what_a_fresh_library_gives(library: Library, tmp_path: Path, seed: int) -> None:
    import random

    choose = random.Random(seed)
    words = ["bread", "train", "moth", "frost", "elbow", "disk", "oven", "flour"]
    outside = tmp_path / "outside"
    outside.mkdir()
    added: dict[str, str] = {}
    for number in range(6):
        text = " ".join(choose.choices(words, k=6))
        action = choose.choice(["add", "add", "edit", "new", "outside", "remove"])
        if action == "add":
            added[f"t{number % 3}"] = text
            library.add([text], [f"t{number % 3}"])
        elif action == "remove" and added:
            name = choose.choice(sorted(added))
            del added[name]
            library.remove(name)
        elif action == "outside":
            (outside / f"o{number}.md").write_text(text, encoding="utf-8")
            library.index(outside)
        else:
            name = "moved.md" if action == "edit" else f"n{number}.md"
            (library.workspace.documents_dir / name).write_text(f"# Note\n\n{text}", encoding="utf-8")
            library.index()
    library.index(outside)
    fresh_root = tmp_path / "fresh"
    import shutil

    shutil.copytree(
        library.workspace.root,
        fresh_root,
        ignore=shutil.ignore_patterns("data", "index", ".dagster", "*.sqlite"),
    )
    fresh = Library.open(fresh_root)
    assert fresh.index().success
    for question in (*words, "bread and flour"):
        one, other = library.search(question, top_k=20), fresh.search(question, top_k=20)
        assert one.hits == other.hits
    assert one.index_version == other.index_version
    kept, made = library.documents(), fresh.documents()
    assert [entry.uri for entry in kept.documents] == [entry.uri for entry in made.documents]
    assert kept.chunks == made.chunks


def test_a_sentence_is_embedded_once_while_a_snapshot_is_open(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "_KEPT_SENTENCES", 3)
    library.add(["Marker."], ["one"])
    with library._snapshots.reading() as open_snapshot:
        embedder = RecordingEmbedder()
        open_snapshot.workspace.__dict__["embedder"] = embedder
        first, tokens = open_snapshot.embed_sentences(["a rope", "a lamp", "a rope"])
        assert first.shape == (3, embedder.dimension)
        assert (first[0] == first[2]).all()
        again, others = open_snapshot.embed_sentences(["a lamp", "a tent", "a kite"])
        assert (again[0] == first[1]).all()
        assert sorted(embedder.computed) == ["a kite", "a lamp", "a rope", "a tent"]
        open_snapshot.embed_sentences(["a rope"])  # the least recent of three was forgotten
        assert embedder.computed.count("a rope") == 2
        # None keeps the vectors of others in memory that are forgotten.
        assert [kept.base for kept in open_snapshot._sentences.values()] == [None] * 3
        assert open_snapshot.embed_sentences([])[0].shape == (0, embedder.dimension)
        assert (tokens, others) == tuple(
            int(embedder.count_tokens(texts).sum()) for texts in (["a rope", "a lamp"], ["a tent", "a kite"])
        )
