"""What peers are given and how their answers are scored; the peers themselves run where they are installed."""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from backstory.base.errors import InputError
from backstory.models.choice import make_embedder
from backstory.models.embeddings.embed import EmbeddingCache
from backstory.settings.embedding import EmbeddingSettings
from backstory.settings.models import Settings
from benchmarks.peers import driver, environments
from benchmarks.peers.__main__ import choose_methods
from benchmarks.peers.driver import METHODS, Found, first_documents, run_peer
from benchmarks.peers.environments import PEERS, make_environment, run_module
from benchmarks.peers.job import (
    UNDATED,
    Document,
    UnknownTextError,
    VectorTable,
    Window,
    read_documents,
    read_texts,
    read_windows,
    write_job,
)
from benchmarks.peers.preparation import (
    Space,
    cut_to_input,
    embed_for_peers,
    embed_library,
    list_documents,
    list_windows,
    read_sample,
)
from benchmarks.peers.report import score_outcomes, write_table
from tests.caches import open_cache
from tests.errors import raises

ENVIRONMENTS = "BACKSTORY_PEER_ENVIRONMENTS"
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
DOCUMENTS = [
    Document("old", "Bread", "Sourdough needs time.", UNDATED),
    Document("new", "", "Line\u2028separator and \ud7ff.", 2_000_000),
]
WINDOWS = [Window("w-n1-000", 1_000_000, "bread?", "## Message 1\n\nbread?", ["bread?", "oven"])]


@pytest.fixture
def space(tmp_path: Path) -> Space:
    settings = Settings(embedding=EmbeddingSettings(provider="hashing"))
    return Space(settings, make_embedder(settings.embedding), EmbeddingCache(open_cache(tmp_path)))


@pytest.fixture
def labelled_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "chats"
    folder.mkdir()
    pl.DataFrame(
        {
            "doc_id": ["b", "a"],
            "title": ["Bread", None],
            "text": ["Sourdough needs time.", "The night train."],
            "date": [None, NOON],
            "tags": [[], []],
        },
        schema_overrides={"tags": pl.List(pl.String), "date": pl.Datetime("us", "UTC")},
    ).write_parquet(folder / "docs.parquet")
    window_ids = ["x-n1-002", "x-n1-001", "y-n2-001"]
    pl.DataFrame(
        {
            "window_id": [name for name in window_ids for _ in range(2)],
            "msg_no": [0, 1] * 3,
            "timestamp": [NOON] * 6,
            "author": ["Ana", "Bo"] * 3,
            "message": ["Does sourdough need an oven?", "And when does the night train leave?"] * 3,
        }
    ).with_columns(pl.col("timestamp").dt.cast_time_unit("us")).write_parquet(folder / "windows.parquet")
    pl.DataFrame(
        {"window_id": window_ids, "doc_id": ["a", "a", "b"], "rel": [1, 2, 1], "topic": ["t", "t", "t"]}
    ).write_parquet(folder / "qrels.parquet")
    return folder


def test_a_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_job(tmp_path / "job", DOCUMENTS, WINDOWS)
    assert read_documents(tmp_path / "job") == DOCUMENTS
    assert read_windows(tmp_path / "job") == WINDOWS


def test_vectors_are_found_by_their_text(tmp_path: Path) -> None:
    vectors = np.array([[0.6, 0.8], [1.0, 0.0]], np.float32)
    VectorTable(["a\nb", "c"], vectors).write(tmp_path / "vectors")
    table = VectorTable.read(tmp_path / "vectors")
    assert table.texts == ["a\nb", "c"]
    assert table.look_up("a\nb") == pytest.approx([0.6, 0.8])
    assert table.look_up("c") == [1.0, 0.0]


def test_a_text_without_a_vector_is_an_error_that_shows_it() -> None:
    table = VectorTable(["known"], np.ones((1, 1), np.float32))
    with pytest.raises(UnknownTextError) as raised:
        table.look_up("unknown")
    assert raised.value.text == "unknown"


def test_a_sample_has_the_first_windows_of_each_group_and_their_rows(labelled_folder: Path) -> None:
    sample = read_sample(labelled_folder, 1)
    assert sample.windows["window_id"].to_list() == ["x-n1-001", "y-n2-001"]
    assert sample.messages["conversation_id"].unique().sort().to_list() == ["x-n1-001", "y-n2-001"]
    assert sample.qrels["window_id"].sort().to_list() == ["x-n1-001", "y-n2-001"]
    assert len(sample.documents) == 2
    assert len(read_sample(labelled_folder, None).windows) == 3


def test_peers_get_dates_to_filter_by_and_the_texts_that_backstory_asks_with(
    labelled_folder: Path, space: Space, tmp_path: Path
) -> None:
    sample = read_sample(labelled_folder, 1)
    documents = list_documents(sample)
    noon = int(NOON.timestamp() * 1e6)
    assert [(d.doc_id, d.title, d.published_at) for d in documents] == [("a", "", noon), ("b", "Bread", 0)]
    chunks = embed_library(sample, space, tmp_path / "scratch")
    windows = list_windows(sample, chunks, space.embedder)
    assert [window.window_id for window in windows] == ["x-n1-001", "y-n2-001"]
    first = windows[0]
    assert first.started_at == noon
    assert first.text == "Does sourdough need an oven?\n\nAnd when does the night train leave?"
    assert first.transcript == first.text
    assert first.query_chunks == chunks.filter(pl.col("window_id") == "x-n1-001")["text"].to_list()


def test_a_text_that_is_too_long_has_the_vector_of_its_beginning(space: Space) -> None:
    long = "One more sentence. " * space.embedder.max_input_tokens
    (beginning,) = cut_to_input([long], space.embedder)
    assert long.startswith(beginning)
    limit = space.embedder.max_input_tokens
    assert 0.5 * limit < space.embedder.count_tokens([beginning])[0] <= limit
    table = embed_for_peers([long, "short", long], "query", space, "embedding")
    assert table.texts == [long, "short"]
    expected = space.embedder.embed([beginning, "short"], task="query")
    assert table.vectors == pytest.approx(expected)


def test_the_first_chunk_of_a_document_stands_for_it() -> None:
    found = [("a", 0.9), ("b", 0.8), ("a", 0.7)] + [(str(number), 0.5) for number in range(20)]
    kept = first_documents(found)
    assert kept[:3] == [("a", 0.9), ("b", 0.8), ("0", 0.5)]
    assert len(kept) == 10


class LinePeer:
    """Splits at line ends and compares by the inner product."""

    def __init__(self, document_vectors: VectorTable, query_vectors: VectorTable) -> None:
        self.document_vectors = document_vectors
        self.query_vectors = query_vectors

    def split_documents(self, documents: Sequence[Document]) -> list[str]:
        return [document.text for document in documents]

    def split_window(self, transcript: str) -> list[str]:
        return transcript.splitlines()

    def index(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.matrix = np.array(
            [self.document_vectors.look_up(text) for text in self.split_documents(documents)]
        )

    def ask(self, query: str, as_of: int) -> Iterator[Found]:
        return self.ask_each([query], as_of)

    def ask_each(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        scores = (self.matrix @ np.array([self.query_vectors.look_up(query) for query in queries]).T).max(1)
        for row in np.argsort(-scores):
            if self.documents[row].published_at <= as_of:
                yield self.documents[row].doc_id, float(scores[row])

    def ask_and_fuse(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        return self.ask_each(queries, as_of)

    def ask_hybrid(self, query: str, as_of: int) -> Iterator[Found]:
        return self.ask_and_fuse_hybrid([query], as_of)

    def ask_and_fuse_hybrid(self, queries: Sequence[str], as_of: int) -> Iterator[Found]:
        words = {word for query in queries for word in query.split()}
        for document in self.documents:
            if document.published_at <= as_of and words & set(document.text.split()):
                yield document.doc_id, 1.0


def test_a_peer_splits_first_and_then_finds_the_vectors_of_what_it_split(
    tmp_path: Path, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(step: str, out: Path, *options: str) -> None:
        monkeypatch.setattr(sys, "argv", ["run.py", step, str(tmp_path / "job"), str(out), *options])
        run_peer(LinePeer, ["numpy"])

    window = Window("w", 1_000_000, "bread?", "sourdough\noven", ["time"])
    write_job(tmp_path / "job", DOCUMENTS, [window])
    run("split", tmp_path / "splits")
    documents = read_texts(tmp_path / "splits" / "document-texts.json")
    queries = read_texts(tmp_path / "splits" / "query-texts.json")
    assert documents == [document.text for document in DOCUMENTS]
    assert queries == ["sourdough", "oven"]
    embed_for_peers(documents, "document", space, "").write(tmp_path / "job" / "document-vectors")
    asked = embed_for_peers([window.text, *window.query_chunks, *queries], "query", space, "")
    asked.write(tmp_path / "job" / "query-vectors")
    run("search", tmp_path / "out.json")
    outcome = json.loads((tmp_path / "out.json").read_text())
    assert list(outcome["runs"]) == list(METHODS)
    assert set(outcome["seconds"]) == {"index", *METHODS}
    # The other document is from after the window's start.
    assert [doc_id for doc_id, _ in outcome["runs"][driver.OWN_CHUNKS]["w"]] == ["old"]
    # The hybrid compares words alone, and no text has the query's.
    assert outcome["runs"][driver.WHOLE_WINDOW_HYBRID]["w"] == []
    assert outcome["versions"] == {"numpy": np.__version__}
    assert outcome["peak_memory"] > 1e6

    run("search", tmp_path / "some.json", "--methods", driver.BACKSTORY_CHUNKS)
    some = json.loads((tmp_path / "some.json").read_text())
    assert some["runs"] == {driver.BACKSTORY_CHUNKS: outcome["runs"][driver.BACKSTORY_CHUNKS]}
    assert set(some["seconds"]) == {"index", driver.BACKSTORY_CHUNKS}


def test_methods_are_chosen_by_parts_of_their_names() -> None:
    assert choose_methods(None) == list(METHODS)
    hybrid = [driver.WHOLE_WINDOW_HYBRID, driver.OWN_CHUNKS_HYBRID]
    assert choose_methods(["hybrid"]) == hybrid
    assert choose_methods(["own chunks, hybrid", "whole window, h"]) == hybrid
    assert len(choose_methods(["whole", "own"])) == len(METHODS) - 1
    with raises(InputError, "unknown_value", "sparse"):
        choose_methods(["hybrid", "sparse"])


def outcome_of(runs: dict[str, dict[str, list[Found]]]) -> dict[str, object]:
    seconds = {step: {"cpu": 1.5, "wall": 2.25} for step in ["index", *runs]}
    return {"runs": runs, "seconds": seconds, "peak_memory": 123_400_000, "versions": {"some": "1.0"}}


def test_the_table_has_a_row_per_group_and_method_and_figures_once() -> None:
    qrels = pl.DataFrame(
        {"window_id": ["x-n1-001", "y-n1-001"], "doc_id": ["a", "b"], "rel": [1, 1], "topic": ["t", "u"]}
    )
    outcomes = {
        "backstory": outcome_of({"its way": {"x-n1-001": [("a", 0.9)], "y-n1-001": [("b", 0.9)]}}),
        "other": outcome_of({"whole": {"x-n1-001": [("b", 0.9), ("a", 0.8)]}}),
    }
    records = score_outcomes(outcomes, qrels, "chats")
    by_key = {(record["group"], record["method"]): record for record in records}
    assert set(by_key) == {
        (group, method)
        for group in ("all", "x-n1", "y-n1")
        for method in ("backstory, its way", "other, whole")
    }
    assert by_key["all", "backstory, its way"]["ncov@5"] == 1
    assert by_key["all", "other, whole"]["ncov@5"] == 0.5
    assert by_key["all", "other, whole"]["gain"] == 0.5
    assert by_key["x-n1", "other, whole"]["ncov@5"] == 1
    assert by_key["y-n1", "other, whole"]["recall@10"] == 0
    lines = write_table(records).splitlines()
    assert len({line.count("|") for line in lines}) == 1
    assert "| chats | all | 2 | other, whole | 0.500 [0.000, 1.000] |" in lines[3]
    assert [line for line in lines if "1.50 (2.25) | 1.50 (2.25) | 123" in line] == lines[2:4]


@pytest.mark.parametrize("peer", PEERS)
def test_requirements_are_exact_and_need_no_torch(peer: str) -> None:
    path = environments.REQUIREMENTS / peer / "requirements.txt"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.]*", line) for line in lines)
    assert not [line for line in lines if line.lower().startswith(("torch", "nvidia", "triton"))]
    assert (path.parent / "run.py").is_file()


@pytest.mark.long
def test_an_environment_is_made_again_when_its_requirements_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requirements = tmp_path / "peers" / "some" / "requirements.txt"
    requirements.parent.mkdir(parents=True)
    requirements.write_text("# none\n")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path / "peers")
    earlier = tmp_path / "made" / "some" / "requirements.sha256"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("of other requirements")
    trace = earlier.with_name("trace")
    trace.touch()
    python = make_environment("some", tmp_path / "made")
    assert python.exists()
    assert not trace.exists()
    trace.touch()
    assert make_environment("some", tmp_path / "made") == python
    assert trace.exists()


FIRST_DOCUMENTS = {"d0", "d1", "d2"}
KEYWORD_DOCUMENT, LATER_DOCUMENT = 149, 150


def document_of_number(number: int) -> Document:
    """The last third shares a common word with the query; one of them, and one that is later, a rare word too."""
    doc_id = f"d{number}"
    rare = number in (KEYWORD_DOCUMENT, LATER_DOCUMENT)
    return Document(
        doc_id=doc_id,
        title="zeppelin" if rare else "",
        text=f"number{number} " + ("harbour" if number >= 100 else "meadow"),
        published_at=1 if doc_id in FIRST_DOCUMENTS else 5 if number == LATER_DOCUMENT else 3,
    )


def vector_of_text(text: str) -> list[float]:
    """Documents turn away from the query by their numbers, that with the rare word further, the later one not."""
    named = re.search(r"number(\d+)", text)
    number = 0 if named is None else int(named[1])
    angle = {KEYWORD_DOCUMENT: 3.0, LATER_DOCUMENT: 0.0}.get(number, number / 100)
    return [float(np.cos(angle)), float(np.sin(angle))]


def tabulate_vectors(texts: Sequence[str]) -> VectorTable:
    unique = list(dict.fromkeys(texts))
    return VectorTable(unique, np.array([vector_of_text(text) for text in unique], np.float32))


@pytest.mark.parametrize("peer", PEERS)
def test_an_installed_peer_finds_by_vectors_and_keywords_among_what_was_published(
    peer: str, tmp_path: Path
) -> None:
    folder = os.environ.get(ENVIRONMENTS)
    if folder is None:
        pytest.skip(f"{ENVIRONMENTS} does not name a folder for the peers' environments")
    python = make_environment(peer, Path(folder))
    module = f"benchmarks.peers.{peer}.run"
    job = tmp_path / "job"
    query = "zeppelin harbour"
    starts = {"before all": 0, "after the first": 2, "after all but one": 4}
    windows = [Window(name, start, query, query, [query]) for name, start in starts.items()]
    write_job(job, [document_of_number(number) for number in range(LATER_DOCUMENT + 1)], windows)
    run_module(python, module, "split", job, tmp_path / "splits")
    texts = read_texts(tmp_path / "splits" / "document-texts.json")
    tabulate_vectors(texts).write(job / "document-vectors")
    queries = read_texts(tmp_path / "splits" / "query-texts.json")
    tabulate_vectors([query, *queries]).write(job / "query-vectors")
    run_module(python, module, "search", job, tmp_path / "out.json")
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert list(runs) == list(METHODS)
    nearest = [f"d{number}" for number in range(10)]
    for method in METHODS:
        found, first, none = ([doc_id for doc_id, _ in runs[method][name]] for name in reversed(starts))
        assert none == []
        assert set(first) == FIRST_DOCUMENTS
        if "hybrid" not in method:
            assert found == nearest
            continue
        assert len(found) == 10
        assert f"d{KEYWORD_DOCUMENT}" in found[:2]
        assert "d0" in found[:2]
        assert f"d{LATER_DOCUMENT}" not in found
