"""What a build makes, when it makes nothing, and what it refuses."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from backstory.base.errors import InputError, NoIndexError, SearchIndexError, SettingsError
from backstory.index.build import arrange, publish_content
from backstory.index.calibration import DEFAULT_CALIBRATION
from backstory.index.request import SearchRequest
from backstory.index.search import open_index
from backstory.index.snapshot import current_version, find_damage
from backstory.settings.models import IndexSettings
from tests.errors import raises
from tests.index.conftest import Corpus


@pytest.fixture
def small(new_corpus: Any) -> Any:
    return new_corpus(12)


def test_the_same_content_is_one_version_in_every_folder_and_order(small: Any, tmp_path: Path) -> None:
    shuffled = Corpus(
        small.documents.reverse(), small.chunks.reverse(), np.ascontiguousarray(small.vectors[::-1])
    )
    first, again, other = (
        small.build(tmp_path / "a"),
        small.build(tmp_path / "a"),
        shuffled.build(tmp_path / "b"),
    )
    assert (first.built, again.built, again.rows, again.recall) == (True, False, 24, None)
    assert first.version == again.version == other.version == current_version(tmp_path / "a")
    files = [
        {
            path.relative_to(build.folder): path.read_bytes()
            for path in build.folder.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }
        for build in (first, other)
    ]
    assert files[0] == files[1]
    assert len(files[0]) == 10


def test_every_change_of_content_and_of_a_setting_that_acts_is_another_version(
    small: Any, tmp_path: Path
) -> None:
    vectors = small.vectors.copy()
    vectors[3] = -vectors[3]
    shifted = pl.col("published_at").dt.offset_by("1d")
    changed = [
        replace(small, chunks=small.chunks.with_columns(text=pl.col("text") + "!")),
        replace(small, documents=small.documents.with_columns(title=pl.lit("Other"))),
        replace(small, documents=small.documents.with_columns(shifted)),
        replace(small, vectors=vectors),
    ]
    acting: list[dict[str, Any]] = [
        {"ef_search": 65},
        {"language": "german"},
        {"ann_min_rows": 3},
        {"embedder_id": "other"},
    ]
    builds = [each.build(tmp_path) for each in (small, *changed)]
    builds += [small.build(tmp_path, **settings) for settings in acting]
    assert len({build.version for build in builds}) == 9
    assert current_version(tmp_path) == builds[-1].version
    assert small.build(tmp_path, allow_http=True).version == builds[0].version


def test_only_documents_that_are_searched_are_indexed(small: Any, tmp_path: Path) -> None:
    statuses = pl.Series(["ok"] * 9 + ["deleted", "superseded", "error"])
    replace(small, documents=small.documents.with_columns(status=statuses)).build(tmp_path)
    with open_index(tmp_path) as index:
        found = index.search(small.vectors, SearchRequest(top_k=100, mode="exact")).hits
    assert set(found["document_id"]) == {f"doc{number:05d}" for number in range(9)}


def test_nothing_published_and_another_embedder_are_errors_that_say_so(small: Any, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with raises(NoIndexError, None, folder):
            open_index(folder)
    small.build(tmp_path, embedder_id="local:granite")
    with raises(SearchIndexError, "embedder_mismatch", "local:granite", "gemini"):
        open_index(tmp_path, embedder_id="gemini")
    open_index(tmp_path, embedder_id="local:granite").close()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def garble(path: Path) -> None:
    path.write_bytes(b"?" * path.stat().st_size)


def date_back(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 3}))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("vectors.npy", cut),
        ("terms/scores.npy", cut),
        ("chunks.arrow", Path.unlink),
        ("manifest.json", Path.unlink),
        ("manifest.json", garble),
        ("manifest.json", date_back),
        *((name, garble) for name in ("vectors.npy", "chunks.arrow", "documents.arrow", "texts.npy")),
        *((f"terms/{name}", garble) for name in ("bounds.npy", "terms.json")),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(
    small: Any, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    build = small.build(tmp_path)
    damage(build.folder / name)
    named = "terms" if name.startswith("terms/") and damage is garble else name
    with raises(SearchIndexError, "damaged_snapshot", build.folder, named), open_index(tmp_path) as index:
        index.search(small.queries(1), SearchRequest(top_k=1, ranking="keyword"), texts=["item1"])
    if damage is not garble or name == "manifest.json":
        assert small.build(tmp_path).built
        open_index(tmp_path).close()


def test_a_changed_byte_in_any_file_is_found_by_its_checksum(small: Any, tmp_path: Path) -> None:
    build = small.build(tmp_path, ann_min_rows=0)
    names = build.manifest.files.keys()
    assert {path.name for path in build.folder.rglob("*.*")} - {Path(name).name for name in names} == {
        "manifest.json"
    }
    for name in names:
        path = build.folder / name
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 2]))
        assert find_damage(build.folder, checksums=False) is None
        assert name in (find_damage(build.folder, checksums=True) or "")
        path.write_bytes(content)
    assert find_damage(build.folder, checksums=True) is None


def test_documents_are_stemmed_by_their_languages(small: Any, tmp_path: Path) -> None:
    chunks = small.chunks.with_columns(text=pl.lit("garden house"))

    def stemmers(language: str, *languages: str | None) -> list[tuple[str, int]]:
        known = pl.Series([*languages, *[None] * (12 - len(languages))], dtype=pl.String)
        documents = small.documents.with_columns(language=known)
        content = arrange(documents, chunks, small.vectors, "e", IndexSettings(language=language))
        found = publish_content(tmp_path, content, DEFAULT_CALIBRATION).manifest.languages
        return [(each.stemmer, each.rows) for each in found]

    # The language of the others is unclear, so they are stemmed like most documents; of two, like the first by name.
    assert stemmers("auto", "de", "en") == [("english", 22), ("german", 2)]
    assert stemmers("portuguese", "de", "en") == [("portuguese", 24)]
    assert stemmers("auto", None, "ja") == [("none", 24)]


def test_what_cannot_be_built_is_refused_and_leaves_nothing_behind(small: Any, tmp_path: Path) -> None:
    for vectors in (
        np.ones((24, 24), np.float32),
        np.full((24, 24), np.nan, np.float32),
        np.eye(23, 24, dtype=np.float32),
    ):
        with raises(InputError, "unusable_vectors", 24):
            replace(small, vectors=vectors).build(tmp_path)
    assert not list(tmp_path.iterdir())
    before = small.build(tmp_path)
    # The settings refuse it on their own, so that only a copy that was not checked gets as far as the index.
    unknown = IndexSettings().model_copy(update={"language": "klingon"})
    content = arrange(small.documents, small.chunks, small.vectors, "e", unknown)
    with raises(SettingsError, "unknown_language"):
        publish_content(tmp_path, content, DEFAULT_CALIBRATION)
    small.build(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "CURRENT", before.version}


def test_one_document_with_one_chunk_is_enough(new_corpus: Any, tmp_path: Path) -> None:
    one = new_corpus(1, chunks_each=1)
    build = one.build(tmp_path / "a folder's name", embedder_id="it's", ann_min_rows=1)
    assert (build.rows, build.recall) == (1, 1.0)
    with open_index(tmp_path / "a folder's name", embedder_id="it's") as index:
        result = index.search(one.vectors, SearchRequest(top_k=5))
    assert result.engine == "vss"
    assert result.hits["similarity"].to_list() == pytest.approx([1.0], abs=1e-7)
