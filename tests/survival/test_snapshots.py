"""What is served while the current snapshot is damaged, while it is open elsewhere, and when clocks are set back."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backstory.base.errors import NoIndexError, SearchIndexError
from backstory.index.request import SearchRequest
from backstory.index.snapshot import history
from backstory.index.snapshot.history import read_history
from backstory.index.snapshot.manifest import find_damage
from backstory.index.snapshot.opening import open_index
from backstory.index.snapshot.publication import current_version
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import SearchAnswer
from backstory.interfaces.mcp.server import make_server
from backstory.operations.inspection.audit import audit
from backstory.operations.inspection.doctor import examine
from backstory.pipeline.query_index import open_for_queries
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import open_workspace
from tests.errors import raises
from tests.forms import BOTH_FORMS
from tests.interfaces.cli.invocation import run as invoke
from tests.interfaces.mcp.calling import call
from tests.models.embeddings.local.tiny_bert import write_tiny_bert
from tests.pipeline.workspace_states import describe, run
from tests.survival.conftest import flip
from tests.workspaces import build_table


def damage(root: Path, name: str = "vectors.npy") -> str:
    """Flip a bit in the current snapshot, and give its version."""
    version = current_version(root / "index")
    flip(root / "index" / version / name)
    return version


def cut_pointer(root: Path) -> None:
    (root / "index" / "CURRENT").write_text("5", encoding="ascii")


@pytest.mark.parametrize(
    "harm",
    [
        damage,
        lambda root: damage(root, "manifest.json"),
        cut_pointer,
        lambda root: (root / "index" / "CURRENT").unlink(),
    ],
    ids=["a file", "the manifest", "the pointer", "no pointer"],
)
def test_the_last_good_snapshot_is_served_until_a_run_builds_the_current_one(
    root: Path, harm: Callable[[Path], object]
) -> None:
    before, current = describe(root), current_version(root / "index")
    harm(root)
    served = [line.version for line in read_history(root / "index")]
    expected = served[0] if (root / "index" / "CURRENT").exists() and harm is not cut_pointer else current
    answer = invoke("search", "a sourdough starter", "-w", str(root), "--json")
    assert answer.exit_code == 0
    told = json.loads(answer.stdout)
    assert told["index_version"] == expected
    assert told["hits"][0]["slug"] == "sourdough"
    for place in (
        " ".join(told["notes"]),
        answer.stderr,
        *(found.detail for found in examine(root) if not found.passed),
    ):
        assert f"snapshot {expected}, published 20" in place
        assert "`backstory run`" in place
    assert [found.name for found in audit(root) if not found.passed] == ["search index"]
    assert run(root).success
    assert describe(root) == before
    assert search(root, "a sourdough starter").notes == ()


def test_a_changed_byte_in_any_file_gives_the_last_good_snapshot(root: Path) -> None:
    """Wherever the byte is, no parser meets the damaged file, and the answer says that it is degraded."""
    [earlier, current] = [line.version for line in read_history(root / "index")]
    sound = search(root, "a sourdough starter")
    assert (sound.index_version, sound.degraded) == (current, None)
    for path in sorted(path for path in (root / "index" / current).rglob("*") if path.is_file()):
        content = path.read_bytes()
        for place in (0, len(content) // 3, 2 * len(content) // 3, len(content) - 1):
            path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
            told = search(root, "a sourdough starter").to_dict()
            assert (told["index_version"], told["hits"][0]["slug"]) == (earlier, "sourdough"), (path, place)
            assert f"snapshot {earlier}" in told["degraded"]
        path.write_bytes(content)
    assert search(root, "a sourdough starter") == sound


@BOTH_FORMS
def test_every_kind_of_answer_says_that_it_is_degraded(root: Path) -> None:
    damage(root, "rows.arrow")
    with Library.open(root) as library:
        server = make_server(library, tools=["query_documents", "search", "cover_conversation"])
        answers = [
            library.context("a sourdough starter").to_dict(),
            call(server, "query_documents", query="a sourdough starter"),
            call(server, "search", query="a sourdough starter"),
            call(server, "cover_conversation", text="a sourdough starter"),
        ]
    for answer in answers:
        assert "`backstory run`" in answer["degraded"]


@pytest.mark.parametrize("name", ["documents.arrow", "rows.arrow", "vectors.npy", "manifest.json"])
def test_an_addition_builds_a_damaged_snapshot_again(root: Path, name: str) -> None:
    path = root / "index" / current_version(root / "index") / name
    path.write_bytes(b"?" + path.read_bytes()[1:])
    with Library.open(root) as library:
        assert library.add(["Quinces ripen late."]).success
        answer = library.search("quinces")
        assert (answer.degraded, answer.notes, answer.hits[0].text) == (None, (), "Quinces ripen late.")


def test_what_is_opened_says_that_it_is_an_earlier_one(root: Path) -> None:
    damage(root)
    served = open_for_queries(open_workspace(root))
    with served.index as index:
        assert served.degraded == index.degraded is not None
        assert index.version != current_version(root / "index")


def test_the_former_embedder_answers_until_a_run_has_built_the_new_index(root: Path) -> None:
    settings = root / "backstory.yaml"
    written = settings.read_text(encoding="utf-8")
    before = search(root, "a sourdough starter")
    write_tiny_bert(root / "tiny")
    other = "{provider: local, model_dir: tiny}"
    settings.write_text(written.replace("{provider: hashing}", other), encoding="utf-8")
    between = search(root, "a sourdough starter")
    assert between.hits == before.hits
    assert any("queries are embedded with" in note and "`backstory run`" in note for note in between.notes)
    materialize_documents_and_index(root)
    after = search(root, "a sourdough starter")
    assert after.notes == ()
    assert after.index_version != before.index_version


def test_a_run_never_searches_an_earlier_snapshot(root: Path) -> None:
    version = damage(root)
    with raises(SearchIndexError, "damaged_snapshot"):
        open_index(root / "index")
    build_table(open_workspace(root), "search_index")
    with open_index(root / "index") as index:
        assert index.version == version


def test_an_earlier_snapshot_with_a_deleted_post_is_never_served(root: Path) -> None:
    """Also if a reader has it open, so that it cannot be deleted yet."""
    [earlier, _] = [line.version for line in read_history(root / "index")]
    (root / "posts" / "sourdough.md").unlink()
    workspace = open_workspace(root)
    with open_index(root / "index") as held:
        assert run(root).success
        assert (root / "index" / held.version).is_dir()
    assert not (root / "index" / earlier).exists()
    assert [line.version for line in read_history(root / "index")] == [current_version(root / "index")]
    damage(root)
    with raises(SearchIndexError, "no_good_snapshot"):
        open_for_queries(workspace)


def test_a_killed_run_that_did_not_prune_yet_serves_no_deleted_post(root: Path) -> None:
    """The documents say what may be served, whatever snapshots are left."""
    listed = (root / "index" / "HISTORY").read_bytes()
    kept = root.with_name("kept")
    (root / "index").rename(kept)
    (root / "posts" / "sourdough.md").unlink()
    assert run(root).success
    newest = (root / "index" / "HISTORY").read_bytes()
    for path in kept.iterdir():
        if path.is_dir():
            path.rename(root / "index" / path.name)
    (root / "index" / "HISTORY").write_bytes(listed + newest)
    damage(root)
    with raises(SearchIndexError, "no_good_snapshot"):
        open_for_queries(open_workspace(root))


def test_nothing_is_served_where_nothing_was_published(tmp_path: Path) -> None:
    (tmp_path / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    with pytest.raises(NoIndexError):
        open_for_queries(open_workspace(tmp_path))


def test_a_reader_keeps_its_snapshot_while_others_are_published_and_pruned(root: Path) -> None:
    settings = root / "backstory.yaml"
    settings.write_text(
        settings.read_text(encoding="utf-8") + "index: {keep_snapshots: 1}\n", encoding="utf-8"
    )
    assert run(root).success
    request = SearchRequest(top_k=4, ranking="hybrid")
    with open_index(root / "index") as held:
        queries = held.vectors_of(held._snapshot.rows["chunk_id"].head(3))
        texts = ["sourdough starter", "night train", "moths"]
        first = held.search(queries, request, texts=texts).hits
        for number in range(4):
            post = root / "posts" / "frost.md"
            post.write_text(f"# Frost\n\nThe frost came {number} times to the moths.\n", encoding="utf-8")
            materialize_documents_and_index(root)
            again = held.search(queries, request, texts=texts).hits
            assert again.equals(first)
            assert held.describe(again["chunk_id"]).height == again.height
            assert find_damage(root / "index" / held.version, checksums=True) is None
        assert current_version(root / "index") != held.version
        version = held.version
    post.write_text("# Frost\n\nNo frost.\n", encoding="utf-8")
    materialize_documents_and_index(root)
    assert not (root / "index" / version).exists()


def materialize_documents_and_index(root: Path) -> None:
    workspace = open_workspace(root)
    for stage in STAGES:
        if stage.table in ("documents", "document_chunks", "search_index"):
            stage.make(RunResources(workspace), [])


class BackwardsClock(datetime):
    """A clock that is set back a day whenever it is read."""

    readings = 0

    @classmethod
    def now(cls, _tz: object = None) -> datetime:  # type: ignore[override]
        cls.readings += 1
        return datetime(2025, 6, 1, tzinfo=UTC) - timedelta(days=cls.readings)


def test_the_order_of_snapshots_follows_from_no_clock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "datetime", BackwardsClock)
    published = []
    for number in range(4):
        (root / "posts" / "frost.md").write_text(f"# Frost\n\nFrost number {number}.\n", encoding="utf-8")
        materialize_documents_and_index(root)
        published.append(current_version(root / "index"))
        past = BackwardsClock.now().timestamp()
        os.utime(root / "index" / published[-1], (past, past))
    assert len(set(published)) == 4
    # The setting keeps three; the clock says that the last of them is the oldest.
    assert [line.version for line in read_history(root / "index")] == published[-3:]
    assert {path.name for path in (root / "index").iterdir() if path.is_dir()} == set(published[-3:])
    damage(root)
    answer = search(root, "frost")
    assert answer.index_version == published[-2]
    assert any("published 2025-05" in note for note in answer.notes)


def search(root: Path, question: str) -> SearchAnswer:
    with Library.open(root) as library:
        return library.search(question)


@BOTH_FORMS
def test_a_run_after_the_clock_was_set_back_makes_what_changed(root: Path) -> None:
    """Files that seem to be written long before the last run are judged by their content."""
    for path in [
        *(root / "data").rglob("*.parquet"),
        *(root / "chats").iterdir(),
        *(root / "posts").iterdir(),
    ]:
        os.utime(path, (1e9, 1e9))
    assert run(root).fresh
    chat = root / "chats" / "garden.txt"
    chat.write_text(chat.read_text(encoding="utf-8").replace("with flour", "with rye"), encoding="utf-8")
    os.utime(chat, (9e8, 9e8))
    outcome = run(root)
    assert outcome.success
    assert not outcome.fresh
    assert run(root).fresh
