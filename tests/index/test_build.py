"""What a build makes, when it makes nothing, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from backstory.base.errors import (
    ContractError,
    InputError,
    NoIndexError,
    SearchIndexError,
    SettingsError,
)
from backstory.index.build import build_index
from backstory.index.request import SearchRequest
from backstory.index.search import open_index
from backstory.index.snapshot import current_version, find_damage, read_manifest
from backstory.settings.models import IndexSettings
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
    assert (again.rows, again.recall) == (24, None)


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
            if path.is_file() and path.name != "manifest.json"
        }
        for build in builds
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 10


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
        ({"allow_http": True}, True),
    ],
)
def test_every_setting_that_acts_on_the_index_is_part_of_the_version(
    small: Any, tmp_path: Path, settings: dict[str, object], same: bool
) -> None:
    first, second = small.build(tmp_path), small.build(tmp_path, **settings)
    assert (first.version == second.version) is same


def test_only_documents_that_are_searched_are_indexed(small: Any, tmp_path: Path) -> None:
    statuses = ["ok"] * 9 + ["deleted", "superseded", "error"]
    build = replaced(small, documents=small.documents.with_columns(status=pl.Series(statuses))).build(
        tmp_path
    )
    assert build.rows == 18
    with open_index(tmp_path) as index:
        found = index.search(small.vectors, SearchRequest(top_k=100, mode="exact")).hits
        assert set(found["document_id"]) == {f"doc{number:05d}" for number in range(9)}


def test_an_open_snapshot_is_not_pruned(new_corpus: Any, tmp_path: Path) -> None:
    first = new_corpus(3)
    first.build(tmp_path)
    with open_index(tmp_path) as index:
        new_corpus(4).build(tmp_path)
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
    new_corpus(5).build(tmp_path)
    assert not (tmp_path / kept).exists()


def test_nothing_published_is_an_error_that_says_what_to_run(tmp_path: Path) -> None:
    assert current_version(tmp_path) == ""
    for folder in (tmp_path, tmp_path / "absent"):
        with raises(NoIndexError, None, folder):
            open_index(folder)


def test_another_embedder_is_an_error_that_says_what_to_run(small: Any, tmp_path: Path) -> None:
    small.build(tmp_path, embedder_id="local:granite")
    with raises(SearchIndexError, "embedder_mismatch", "local:granite", "gemini"):
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
        ("texts.npy", cut),
        ("terms/scores.npy", cut),
        ("chunks.arrow", lambda path: path.unlink()),
        ("manifest.json", garble),
        ("manifest.json", lambda path: path.unlink()),
    ],
)
def test_a_damaged_snapshot_is_an_error_and_is_built_again(
    small: Any, tmp_path: Path, name: str, damage: Any
) -> None:
    build = small.build(tmp_path)
    damage(build.folder / name)
    with raises(SearchIndexError, "damaged_snapshot", build.folder, name):
        open_index(tmp_path)
    assert small.build(tmp_path).built
    open_index(tmp_path).close()


def test_a_changed_byte_in_any_file_is_found_by_its_checksum(small: Any, tmp_path: Path) -> None:
    build = small.build(tmp_path, ann_min_rows=0)
    names = read_manifest(build.folder).files.keys()
    assert names == {
        *("vectors.npy", "texts.npy", "text_bounds.npy", "chunks.arrow", "documents.arrow", "graph.duckdb"),
        *(
            f"terms/{name}"
            for name in ("bounds.npy", "rows.npy", "scores.npy", "frequency.npy", "terms.json")
        ),
    }
    for name in names:
        path = build.folder / name
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 2]))
        assert find_damage(build.folder, checksums=False) is None
        assert name in (find_damage(build.folder, checksums=True) or "")
        path.write_bytes(content)
    assert find_damage(build.folder, checksums=True) is None


@pytest.mark.parametrize(
    "name",
    ["vectors.npy", "chunks.arrow", "documents.arrow", "texts.npy", "terms/bounds.npy", "terms/terms.json"],
)
def test_a_file_that_no_parser_reads_is_one_error_that_names_it(
    small: Any, tmp_path: Path, name: str
) -> None:
    build = small.build(tmp_path)
    path = build.folder / name
    path.write_bytes(b"?" * path.stat().st_size)
    named = "terms" if name.startswith("terms/") else name
    with (
        raises(SearchIndexError, "damaged_snapshot", build.folder, named),
        open_index(tmp_path) as index,
    ):
        index.search(small.queries(1), SearchRequest(top_k=1, ranking="keyword"), texts=["item1"])


def test_a_snapshot_of_another_format_is_an_error_and_is_built_again(small: Any, tmp_path: Path) -> None:
    path = small.build(tmp_path).folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 3}))
    with raises(SearchIndexError, "damaged_snapshot", path.parent, "manifest.json"):
        open_index(tmp_path)
    assert small.build(tmp_path).built
    open_index(tmp_path).close()


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
    ("vectors", "code", "named"),
    [
        (np.ones((24, 24), np.float32), "no_unit_vector", [0]),
        (np.full((24, 24), np.nan, np.float32), "no_unit_vector", [0]),
        (np.eye(24), "unusable_vectors", ["float64"]),
        (np.eye(23, 24, dtype=np.float32), "unusable_vectors", [23, 24]),
        (np.empty((24, 0), np.float32), "unusable_vectors", [(24, 0)]),
    ],
)
def test_vectors_that_do_not_fit_are_refused(
    small: Any, tmp_path: Path, vectors: Any, code: str, named: list[object]
) -> None:
    with raises(InputError, code, *named):
        replaced(small, vectors=vectors).build(tmp_path)
    assert not list(tmp_path.iterdir())


def test_tables_that_do_not_belong_together_are_refused(small: Any, tmp_path: Path) -> None:
    with raises(ContractError, "unknown_document", "doc00000#rev:r1#p:0#m:t#c:0"):
        replaced(small, documents=small.documents[1:]).build(tmp_path)
    with raises(ContractError, "duplicate", "chunk", "doc00000#rev:r1#p:0#m:t#c:0"):
        replaced(small, chunks=small.chunks[[0, *range(23)]]).build(tmp_path)
    with raises(ContractError, "duplicate", "document", "doc00011"):
        replaced(small, documents=small.documents[[*range(12), 11]]).build(tmp_path)


def test_an_unknown_language_is_refused_and_leaves_nothing_behind(small: Any, tmp_path: Path) -> None:
    before = small.build(tmp_path)
    # The settings refuse it on their own, so that only a copy that was not checked gets as far as the index.
    unknown = IndexSettings().model_copy(update={"language": "klingon"})
    changed = changed_text(small)
    with raises(SettingsError, "unknown_language"):
        build_index(
            tmp_path, changed.documents, changed.chunks, changed.vectors, embedder_id="e", settings=unknown
        )
    assert current_version(tmp_path) == before.version
    small.build(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "CURRENT", before.version}


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
