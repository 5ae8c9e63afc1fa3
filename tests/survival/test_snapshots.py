"""Snapshots that are damaged, or open elsewhere while others are published, and clocks that are set back."""

import os
from pathlib import Path

import pytest

from backstory.base.errors import NoIndexError
from backstory.index.request import SearchRequest
from backstory.index.search import open_index
from backstory.index.snapshot import current_version, find_damage
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import SearchAnswer
from backstory.pipeline.query_index import open_for_queries
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import open_workspace
from tests.forms import BOTH_FORMS
from tests.models.embeddings.local.tiny_bert import write_tiny_bert
from tests.world import run


@pytest.mark.parametrize("name", ["documents.arrow", "chunks.arrow", "vectors.npy", "manifest.json"])
def test_an_addition_builds_a_damaged_snapshot_again(root: Path, name: str) -> None:
    path = root / "index" / current_version(root / "index") / name
    path.write_bytes(b"?" + path.read_bytes())
    with Library.open(root) as library:
        assert library.add(["Quinces ripen late."]).success
        answer = library.search("quinces")
        assert (answer.degraded, answer.notes, answer.hits[0].text) == (None, (), "Quinces ripen late.")


def test_the_former_embedder_answers_until_a_run_has_built_the_new_index(root: Path) -> None:
    settings = root / "backstory.yaml"
    written = settings.read_text(encoding="utf-8")
    before = search(root, "a sourdough starter")
    write_tiny_bert(root / "tiny")
    other = "{provider: local, model_dir: tiny}"
    settings.write_text(written.replace("{provider: hashing}", other), encoding="utf-8")
    with Library.open(root) as library:
        with library._snapshots.reading() as opened:
            between = library.search("a sourdough starter")
        with library._snapshots.reading() as again:
            assert again is opened
    assert between.hits == before.hits
    assert any("queries are embedded with" in note and "`backstory run`" in note for note in between.notes)
    materialize_documents_and_index(root)
    after = search(root, "a sourdough starter")
    assert after.notes == ()
    assert after.index_version != before.index_version


def test_a_snapshot_with_a_deleted_post_is_deleted_when_its_reader_lets_go_of_it(root: Path) -> None:
    (root / "posts" / "sourdough.md").unlink()
    with open_index(root / "index") as held:
        assert run(root).success
        assert (root / "index" / held.manifest.version).is_dir()
    materialize_documents_and_index(root)
    assert [path.name for path in (root / "index").glob("[!.]*/")] == [current_version(root / "index")]


def test_nothing_is_served_where_nothing_was_published(tmp_path: Path) -> None:
    (tmp_path / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    with pytest.raises(NoIndexError):
        open_for_queries(open_workspace(tmp_path))


def test_a_reader_keeps_its_snapshot_while_others_are_published_and_pruned(root: Path) -> None:
    request = SearchRequest(top_k=4, ranking="hybrid")
    with open_index(root / "index") as held:
        queries = held.vectors_of(held.snapshot.rows["chunk_id"].head(3))
        texts = ["sourdough starter", "night train", "moths"]
        first = held.search(queries, request, texts=texts).hits
        for number in range(4):
            post = root / "posts" / "frost.md"
            post.write_text(f"# Frost\n\nThe frost came {number} times to the moths.\n", encoding="utf-8")
            materialize_documents_and_index(root)
            again = held.search(queries, request, texts=texts).hits
            assert again.equals(first)
            assert held.describe(again["chunk_id"]).height == again.height
            assert find_damage(root / "index" / held.manifest.version, checksums=True) is None
        assert current_version(root / "index") != held.manifest.version
        version = held.manifest.version
    post.write_text("# Frost\n\nNo frost.\n", encoding="utf-8")
    materialize_documents_and_index(root)
    assert not (root / "index" / version).exists()


def materialize_documents_and_index(root: Path) -> None:
    workspace = open_workspace(root)
    for stage in STAGES:
        if stage.table in ("documents", "document_chunks", "search_index"):
            stage(RunResources(workspace), []).build()


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
