"""What a build makes, when it makes nothing, and what it refuses."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from backstory.base.errors import (
    ContractError,
    EmbedderMismatchError,
    InputError,
    NoIndexError,
    SearchIndexError,
    SettingsError,
)
from backstory.index.request import SearchRequest
from backstory.index.snapshot import database
from backstory.index.snapshot.build import build_index
from backstory.index.snapshot.manifest import find_damage, read_documents, read_manifest
from backstory.index.snapshot.opening import open_index
from backstory.index.snapshot.publication import current_version, prune_documents
from backstory.settings.models import IndexSettings
from backstory.storage.tables.duckdb_engines import AttachedFile
from tests.errors import raises


@pytest.fixture
def small(new_corpus: Any) -> Any:
    return new_corpus(12)


def replaced(corpus: Any, **changes: Any) -> Any:
    return type(corpus)(
        **{name: getattr(corpus, name) for name in ("documents", "chunks", "vectors")} | changes
    )


def test_the_same_content_is_built_once(small: Any, tmp_path: Path) -> None:
    first, again = small.build(tmp_path), small.build(tmp_path)
    assert (first.built, again.built) == (True, False)
    assert first.version == again.version == current_version(tmp_path)
    assert (again.rows, again.documents, again.recall) == (24, 12, None)


def test_the_version_is_the_same_in_every_folder_and_order(small: Any, tmp_path: Path) -> None:
    shuffled = replaced(
        small,
        documents=small.documents.reverse(),
        chunks=small.chunks.reverse(),
        vectors=np.ascontiguousarray(small.vectors[::-1]),
    )
    builds = [corpus.build(tmp_path / name) for name, corpus in (("a", small), ("b", shuffled))]
    assert builds[0].version == builds[1].version
    files = [
        {
            path.relative_to(build.folder): path.read_bytes()
            for path in build.folder.rglob("*")
            if path.is_file() and path.name not in ("index.duckdb", "manifest.json")
        }
        for build in builds
    ]
    assert files[0] == files[1]  # the database holds an identifier of its own
    assert len(files[0]) == 7


def changed_text(corpus: Any) -> Any:
    return replaced(corpus, chunks=corpus.chunks.with_columns(text=pl.col("text") + "!"))


def changed_title(corpus: Any) -> Any:
    return replaced(corpus, documents=corpus.documents.with_columns(title=pl.lit("Other")))


def changed_date(corpus: Any) -> Any:
    return replaced(
        corpus, documents=corpus.documents.with_columns(pl.col("published_at").dt.offset_by("1d"))
    )


def changed_vector(corpus: Any) -> Any:
    vectors = corpus.vectors.copy()
    vectors[3] = -vectors[3]
    return replaced(corpus, vectors=vectors)


@pytest.mark.parametrize("change", [changed_text, changed_title, changed_date, changed_vector])
def test_every_change_of_content_is_another_version(small: Any, tmp_path: Path, change: Any) -> None:
    first, second = small.build(tmp_path), change(small).build(tmp_path)
    assert second.built
    assert second.version != first.version
    assert current_version(tmp_path) == second.version


@pytest.mark.parametrize(
    ("settings", "same"),
    [
        ({"ef_search": 65}, False),
        ({"language": "german"}, False),
        ({"ann_min_rows": 3}, False),
        ({"embedder_id": "other"}, False),
        ({"keep_snapshots": 9}, True),
    ],
)
def test_every_setting_that_acts_on_the_index_is_part_of_the_version(
    small: Any, tmp_path: Path, settings: dict[str, object], same: bool
) -> None:
    first, second = small.build(tmp_path), small.build(tmp_path, **settings)
    assert (first.version == second.version) is same


def test_going_back_publishes_the_earlier_snapshot_again(small: Any, tmp_path: Path) -> None:
    first = small.build(tmp_path)
    changed_text(small).build(tmp_path)
    back = small.build(tmp_path)
    assert (back.version, back.built) == (first.version, False)
    assert current_version(tmp_path) == first.version


def test_only_documents_that_are_searched_are_indexed(small: Any, tmp_path: Path) -> None:
    statuses = ["ok"] * 9 + ["deleted", "superseded", "error"]
    build = replaced(small, documents=small.documents.with_columns(status=pl.Series(statuses))).build(
        tmp_path
    )
    assert (build.documents, build.rows) == (9, 18)
    with open_index(tmp_path) as index:
        found = index.search(small.vectors, SearchRequest(top_k=100, mode="exact")).hits
        assert set(found["document_id"]) == {f"doc{number:05d}" for number in range(9)}


def test_old_snapshots_are_pruned_but_never_the_current_one(new_corpus: Any, tmp_path: Path) -> None:
    versions = [new_corpus(count).build(tmp_path, keep_snapshots=2).version for count in (3, 4, 5, 6)]
    kept = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert kept == set(versions[-2:])
    assert current_version(tmp_path) == versions[-1]


def test_an_open_snapshot_is_not_pruned(new_corpus: Any, tmp_path: Path) -> None:
    first = new_corpus(3)
    first.build(tmp_path, keep_snapshots=1)
    with open_index(tmp_path) as index:
        new_corpus(4).build(tmp_path, keep_snapshots=1)
        # What is only read when it is needed must still be there.
        assert index.describe(first.chunks["chunk_id"]).height == 6
        assert (
            index.search(
                first.vectors, SearchRequest(top_k=1, ranking="keyword"), texts=["item1"] * 6
            ).hits.height
            == 6
        )
        assert (tmp_path / index.version).is_dir()
        kept = index.version
    new_corpus(5).build(tmp_path, keep_snapshots=1)
    assert not (tmp_path / kept).exists()


def test_nothing_published_is_an_error_that_says_what_to_run(tmp_path: Path) -> None:
    assert current_version(tmp_path) == ""
    for folder in (tmp_path, tmp_path / "absent"):
        with raises(NoIndexError, folder=folder):
            open_index(folder)


def test_another_embedder_is_an_error_that_says_what_to_run(small: Any, tmp_path: Path) -> None:
    small.build(tmp_path, embedder_id="local:granite")
    with raises(EmbedderMismatchError, embedder="local:granite", wanted="gemini"):
        open_index(tmp_path, embedder_id="gemini")
    with open_index(tmp_path, embedder_id="local:granite") as index:
        assert index.embedder_id == "local:granite"


def cut(path: Any) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def garble(path: Any) -> None:
    path.write_text("{")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("vectors.npy", cut),
        ("index.duckdb", cut),
        ("rows.arrow", lambda path: path.unlink()),
        ("manifest.json", garble),
        ("manifest.json", lambda path: path.unlink()),
    ],
)
def test_a_damaged_snapshot_is_an_error_and_is_built_again(
    small: Any, tmp_path: Path, name: str, damage: Any
) -> None:
    build = small.build(tmp_path)
    damage(build.folder / name)
    with raises(SearchIndexError, "damaged_snapshot", folder=build.folder, name=name):
        open_index(tmp_path)
    assert small.build(tmp_path).built
    open_index(tmp_path).close()


def test_a_changed_byte_anywhere_is_found_before_a_file_is_parsed(small: Any, tmp_path: Path) -> None:
    """A parser of a changed file raises errors of its own, ends the process, or reads other rows."""
    build = small.build(tmp_path)
    for path in sorted(path for path in build.folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for place in {*range(0, len(content), len(content) // 7 + 1), len(content) - 1}:
            path.write_bytes(content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :])
            if path.name == "manifest.json" and is_read(build.folder):
                continue  # of a changed number or name, which the history of publications tells
            with pytest.raises(SearchIndexError) as raised:
                open_index(tmp_path)
            assert raised.value.code in ("damaged_snapshot", "other_format")
        path.write_bytes(content)
    open_index(tmp_path).close()


def is_read(folder: Path) -> bool:
    return find_damage(folder, checksums=True) is None


def test_a_snapshot_with_a_damaged_list_of_documents_is_pruned_with_those_that_hold_a_deleted_one(
    new_corpus: Any, tmp_path: Path
) -> None:
    first, second = new_corpus(3).build(tmp_path), new_corpus(4).build(tmp_path)
    held = read_documents(first.folder).select("document_id", "revision")
    content = bytearray((first.folder / "documents.arrow").read_bytes())
    content[0] ^= 1
    (first.folder / "documents.arrow").write_bytes(content)
    assert prune_documents(tmp_path, held) == [first.version]
    assert current_version(tmp_path) == second.version


def columns_of_chunks(folder: Path) -> list[str]:
    with duckdb.connect(str(folder / "index.duckdb"), read_only=True) as connection:
        return [
            name for (name,) in connection.execute("SELECT name FROM pragma_table_info('chunks')").fetchall()
        ]


def test_vectors_are_stored_once_where_no_hnsw_index_needs_them(new_corpus: Any, tmp_path: Path) -> None:
    corpus = new_corpus(400)
    exact, approximate = (
        corpus.build(tmp_path / str(least), ann_min_rows=least).folder for least in (1_000_000, 0)
    )
    assert columns_of_chunks(exact) == ["row", *corpus.chunks.columns]
    assert columns_of_chunks(approximate) == ["row", *corpus.chunks.columns, "vector"]


def test_a_snapshot_of_an_earlier_format_is_described_but_not_searched(small: Any, tmp_path: Path) -> None:
    folder = small.build(tmp_path).folder
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["languages"]
    (folder / "manifest.json").write_text(json.dumps(manifest | {"format": 2}))
    assert read_manifest(folder).rows == 24
    with raises(SearchIndexError, "other_format", folder=folder, format=2):
        open_index(tmp_path)


def test_a_snapshot_of_another_format_is_an_error(small: Any, tmp_path: Path) -> None:
    path = small.build(tmp_path).folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    with raises(SearchIndexError, "other_format", folder=path.parent, format=99):
        read_manifest(path.parent)


def test_documents_are_stemmed_by_their_languages(small: Any, tmp_path: Path) -> None:
    texts = [
        "Die Häuser stehen im Garten hinter der alten Kirche.",
        "The houses stand in the garden behind it.",
    ]
    documents = small.documents.with_columns(text=pl.Series([*texts, *[""] * 10]), title=pl.lit(""))
    plain = replaced(
        small, documents=documents, chunks=small.chunks.with_columns(text=pl.lit("garden house"))
    )

    def stemmers(**settings: object) -> list[tuple[str, int]]:
        manifest = read_manifest(plain.build(tmp_path, **settings).folder)
        return [(language.stemmer, language.rows) for language in manifest.languages]

    # The language of the others is unclear, so they are stemmed like most documents; of two, like the first by name.
    assert stemmers() == [("english", 22), ("german", 2)]
    assert stemmers(language="portuguese") == [("portuguese", 24)]
    ids = documents["document_id"]
    told = build_index(
        tmp_path, documents, plain.chunks, plain.vectors, embedder_id="e", settings=IndexSettings(),
        languages=dict.fromkeys(ids) | {ids[3]: "ja"},
    )  # fmt: skip
    assert [language.stemmer for language in read_manifest(told.folder).languages] == ["none"]


@pytest.mark.parametrize(
    ("vectors", "code", "values"),
    [
        (np.ones((24, 24), np.float32), "no_unit_vector", {"row": 0}),
        (np.full((24, 24), np.nan, np.float32), "no_unit_vector", {"row": 0}),
        (np.eye(24), "unusable_vectors", {"dtype": "float64"}),
        (np.eye(23, 24, dtype=np.float32), "wrong_count", {"count": 23, "expected": 24}),
        (np.empty((24, 0), np.float32), "unusable_vectors", {"shape": (24, 0)}),
    ],
)
def test_vectors_that_do_not_fit_are_refused(
    small: Any, tmp_path: Path, vectors: Any, code: str, values: dict[str, Any]
) -> None:
    with raises(InputError, code, **values):
        replaced(small, vectors=vectors).build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_tables_that_do_not_belong_together_are_refused(small: Any, tmp_path: Path) -> None:
    with raises(ContractError, "unknown_document", chunks=[f"doc00000#rev:r1#p:0#m:t#c:{n}" for n in (0, 1)]):
        replaced(small, documents=small.documents[1:]).build(tmp_path)
    with raises(ContractError, "duplicate", kind="chunk", id="doc00000#rev:r1#p:0#m:t#c:0"):
        replaced(small, chunks=small.chunks[[0, *range(23)]]).build(tmp_path)
    with raises(ContractError, "duplicate", kind="document", id="doc00011"):
        replaced(small, documents=small.documents[[*range(12), 11]]).build(tmp_path)


def test_an_unknown_language_is_refused_and_leaves_nothing_behind(small: Any, tmp_path: Path) -> None:
    before = small.build(tmp_path)
    # The settings refuse it on their own, so that only a copy that was not checked gets as far as the index.
    unknown = IndexSettings().model_copy(update={"language": "klingon"})
    changed = changed_text(small)
    with raises(SettingsError, "unknown_language", language="klingon"):
        build_index(
            tmp_path, changed.documents, changed.chunks, changed.vectors, embedder_id="e", settings=unknown
        )
    assert current_version(tmp_path) == before.version
    small.build(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "CURRENT", "HISTORY", before.version}


def test_one_document_with_one_chunk_is_enough(new_corpus: Any, tmp_path: Path) -> None:
    one = new_corpus(1, chunks_each=1)
    build = build_index(
        tmp_path / "a folder", one.documents, one.chunks, one.vectors,
        embedder_id="it's", settings=IndexSettings(ann_min_rows=1),
    )  # fmt: skip
    assert (build.rows, build.recall) == (1, 1.0)
    with open_index(tmp_path / "a folder", embedder_id="it's") as index:
        result = index.search(one.vectors, SearchRequest(top_k=5))
    assert result.engine == "vss"
    assert result.hits["similarity"].to_list() == pytest.approx([1.0], abs=1e-7)


def test_duckdb_is_bounded_by_the_largest_rows_that_it_writes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_ROWS_OF_GROUP", 2)
    monkeypatch.setattr(database, "_LEAST_MEMORY", 1 << 20)
    chunks = pl.DataFrame({"text": ["a", "b", "c" * 300_000, "d"]})
    assert database._bound_memory(chunks) == 4 * 300_001
    assert database._bound_memory(chunks[:2]) == 1 << 20
    limits: list[str] = []

    def note(connection: Any, *_: Any) -> None:
        limits.extend(connection.execute("SELECT current_setting('memory_limit')").fetchone())

    monkeypatch.setattr(database, "_create_tables", note)
    for rows in (2, 4):
        database.write_database(
            tmp_path / f"{rows}.duckdb", chunks, chunks[:rows], np.eye(4, dtype=np.float32), None
        )
    assert limits[0] != limits[1] == "1.1 MiB"
    # The engine that the next file borrows has no such limit.
    with closing(AttachedFile(Path(":memory:"), read_only=False)) as file:
        file.connection.execute("CREATE TABLE numbers AS SELECT range AS number FROM range(1_000_000)")
