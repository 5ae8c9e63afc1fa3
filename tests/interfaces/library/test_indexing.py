"""``index``, ``add`` and ``remove``: what becomes of files, and what the reports say of them."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import InputError, NoIndexError, StoppedError
from backstory.base.progress import STEP_OF_TABLES, listening
from backstory.interfaces.library.indexing import IndexingPlace
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import FileOutcome, IndexReport
from tests.errors import raises
from tests.interfaces.library.conftest import SETTINGS


def outcomes(report: IndexReport) -> dict[str, str]:
    return {outcome.path: outcome.status for outcome in report.files}


def outcome_of(report: IndexReport, path: str) -> FileOutcome:
    [found] = [outcome for outcome in report.files if outcome.path == path]
    return found


def test_a_folder_without_chats_is_indexed_and_searched(make_library: Callable[..., Library]) -> None:
    library = make_library()
    assert library.status().state == "idle"
    with raises(NoIndexError):
        library.search("night train")
    with raises(NoIndexError):
        library.documents()
    report = library.index()
    assert (report.indexed, report.unchanged, report.failed, report.skipped) == (6, 0, 0, 0)
    assert report.embedded == 6
    assert library.search("night train").hits[0].title == "Night train"
    status = library.status()
    assert (status.state, status.documents, status.pending) == ("ready", 6, ())


def test_what_a_stopped_indexing_has_read_counts_as_indexed_by_the_next_one(
    make_library: Callable[..., Library],
) -> None:
    library = make_library()

    def stop(step: str, done: int, total: int) -> None:  # noqa: ARG001
        if step == "embedding documents":
            raise StoppedError("enough; go on later")

    with listening(stop):
        stopped = library.index()
    assert (stopped.success, stopped.index_version) == (False, None)
    report = library.index()
    assert (report.indexed, report.unchanged) == (6, 0)
    assert library.index().unchanged == 6


def test_only_what_changed_is_read_and_embedded_again(library: Library) -> None:
    post = library.workspace.documents_dir / "unrelated.md"
    post.write_text(post.read_text(encoding="utf-8").replace("a lamp", "two lanterns"), encoding="utf-8")
    assert library.status().pending == ("posts/unrelated.md",)
    report = library.index(post)
    assert (report.indexed, report.unchanged, report.embedded) == (1, 5, 1)
    assert outcomes(report) == {"posts/unrelated.md": "indexed"}
    assert "two lanterns" in library.search("lanterns").hits[0].text
    again = library.index(post)
    assert outcomes(again) == {"posts/unrelated.md": "unchanged"}
    assert again.index_version == report.index_version


def test_what_was_not_read_is_counted_with_its_reason(library: Library) -> None:
    (library.workspace.documents_dir / "empty.md").write_text("", encoding="utf-8")
    (library.workspace.documents_dir / "broken.md").write_text("---\ntitle: [\n---\ntext", encoding="utf-8")
    (library.workspace.documents_dir / "program.exe").write_bytes(b"MZ" + bytes(range(256)))
    report = library.index()
    assert (report.failed, report.skipped, report.unchanged) == (1, 2, 6)
    assert outcome_of(report, "posts/broken.md").status == "failed"
    assert all(outcome.reason for outcome in report.files)
    assert {each.path for each in library.documents().unread} == {
        "posts/broken.md",
        "posts/empty.md",
        "posts/program.exe",
    }


def test_files_elsewhere_are_read_where_they_lie(library: Library, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    (notes / "deep").mkdir(parents=True)
    (notes / "bread.md").write_text("# Rye\n\nRye bread wants a hot oven.", encoding="utf-8")
    (notes / "deep" / "oven.md").write_text("# Oven\n\nA stone keeps the oven hot.", encoding="utf-8")
    before = sorted(os.walk(notes))
    report = library.index([notes, notes, notes / "deep"])
    assert report.indexed == 2
    [found] = [hit for hit in library.search("rye bread").hits if hit.title == "Rye"]
    assert library.document(found.uri).path == str(notes / "bread.md")
    assert library.document(str(notes / "bread.md")).title == "Rye"
    assert sorted(os.walk(notes)) == before
    # The same folder again is no second source.
    assert library.index([notes, notes / "bread.md"]).indexed == 0
    removed = library.remove(notes)
    assert (removed.removed, removed.documents) == (2, 6)
    assert sorted(os.walk(notes)) == before


def test_a_folder_may_be_read_without_its_folders(library: Library, tmp_path: Path) -> None:
    (tmp_path / "flat" / "below").mkdir(parents=True)
    (tmp_path / "flat" / "top.md").write_text("Top of the flat folder.", encoding="utf-8")
    (tmp_path / "flat" / "below" / "low.md").write_text("Low in the flat folder.", encoding="utf-8")
    report = library.index(tmp_path / "flat", recursive=False)
    assert report.indexed == 1
    assert library.text("top.md").text.startswith("Top")
    assert outcomes(library.index(tmp_path / "flat"))["flat://below/low.md"] == "indexed"


def test_no_place_for_documents_is_an_error_and_nothing_is_recorded(library: Library, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("Good.", encoding="utf-8")
    with raises(InputError, "absent_file", tmp_path / "absent"):
        library.index([tmp_path / "good.md", tmp_path / "absent"])
    with raises(InputError, "other_use", library.workspace.tables_dir):
        library.index([tmp_path / "good.md", library.workspace.tables_dir])
    assert library.index().documents == 6


def test_texts_are_added_replaced_and_removed(library: Library) -> None:
    facts = {"title": "Zeppelin", "date": datetime(2020, 1, 2, tzinfo=UTC), "tags": ["air"], "number": 7}
    report = library.add(["Hydrogen lifts the zeppelin.", "Helium is dear."], ["Air/1", "b"], [facts, {}])
    assert report.indexed == 2
    hit = library.search("hydrogen zeppelin").hits[0]
    assert (hit.title, hit.tags, hit.date) == ("Zeppelin", ("air",), datetime(2020, 1, 2, tzinfo=UTC))
    assert library.document("b").added
    assert library.add(["Hydrogen burns."], ["Air/1"]).indexed == 1
    assert library.search("hydrogen").hits[0].text == "Hydrogen burns."
    gone = library.remove(["Air/1", "b"])
    assert (gone.removed, gone.documents) == (2, 6)
    assert not list((library.workspace.documents_dir / "added").iterdir())


def test_any_id_names_one_file_in_its_folder(library: Library) -> None:
    ids = [
        "../../escape",
        "a/b/c",
        "ümlaut ✓",
        "A",
        "a",
        "a ",
        ".",
        "..",
        "x" * 300,
        "x" * 301,
        "con\x00trol",
    ]
    report = library.add([f"Text {number}." for number in range(len(ids))], ids)
    assert report.indexed == len(ids)
    folder = library.workspace.documents_dir / "added"
    assert len({path.name.casefold() for path in folder.iterdir()}) == len(ids)
    assert library.remove(ids).documents == 6
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("texts", "ids", "metadata"),
    [
        (["a", " "], ["1", "2"], None),
        (["a"], ["1", "2"], None),
        (["a", "b"], ["1", "1"], None),
        (["a"], [" "], None),
        (["a"], ["1"], [{"date": "soon"}]),
        (["a"], ["1"], [{"tags": "one"}]),
        (["a"], ["1"], [{"title": " "}]),
        (["a"], ["1"], [{"x": object()}]),
        (["a"], ["1"], [{"x": "\ud800"}]),
        (["a"], ["1"], ["x"]),
        (["a"], None, {"from": "Ana"}),
        (["a\ud800"], ["1"], None),
        ("a", ["1"], None),
        ([5], None, None),
        (["a"], [3], None),
    ],
)
def test_a_text_that_cannot_be_added_stops_all(library: Library, texts: Any, ids: Any, metadata: Any) -> None:
    with raises(InputError, "invalid_text"):
        library.add(texts, ids, metadata)
    assert not (library.workspace.documents_dir / "added").exists()


def test_a_persons_file_is_neither_replaced_nor_deleted(library: Library) -> None:
    library.add(["First.", "Second."], ["one", "two"])
    edited = library.workspace.documents_dir / "added" / "one.md"
    edited.write_text(edited.read_text(encoding="utf-8").replace("First", "My own words"), encoding="utf-8")
    content = edited.read_bytes()
    with raises(InputError, "edited_file", edited):
        library.add(["Third.", "Replaced."], ["three", "one"])
    assert not (library.workspace.documents_dir / "added" / "three.md").exists()
    report = library.remove("one")
    assert edited.read_bytes() == content
    assert outcome_of(report, "posts/added/one.md").status == "excluded"
    assert ".backstoryignore" in str(outcome_of(report, "posts/added/one.md").reason)
    assert library.documents().count == 7


def test_an_excluded_file_stays_and_can_be_read_again(library: Library) -> None:
    folder = library.workspace.documents_dir / "deep"
    folder.mkdir()
    names = ["[odd] *name?.md", "plain.md", "#hash.md", "!bang.md", "end .md"]
    for name in [*names, "other.md"]:
        (folder / name).write_text(f"Marmalade in {name}.", encoding="utf-8")
    library.index()
    report = library.remove([f"deep/{name}" for name in names])
    assert (report.removed, report.documents) == (5, 7)
    excluded = {outcome.path for outcome in report.files if outcome.status == "excluded"}
    assert excluded == {f"posts/deep/{name}" for name in names}
    assert all((folder / name).is_file() for name in names)
    assert [match.uri for match in library.grep("marmalade").matches] == ["deep/other.md"]
    (folder / ".backstoryignore").unlink()
    assert library.index().indexed == 5


def test_an_added_folder_and_a_document_of_it_are_left_out_without_a_change_of_it(
    library: Library, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("About apples.", encoding="utf-8")
    (notes / "b.md").write_text("About beans.", encoding="utf-8")
    library.index(notes)
    report = library.remove("a.md")
    assert (report.removed, report.documents) == (1, 7)
    assert library.remove([str(notes), "b.md"]).documents == 6
    assert sorted(path.name for path in notes.iterdir()) == ["a.md", "b.md"]


def test_several_names_of_a_file_remove_it_once_and_an_unknown_one_nothing(library: Library) -> None:
    library.add(["Berths are cheaper in spring."], ["berths"])
    with raises(InputError, "unknown_document"):
        library.remove(["berths", "nothing"])
    report = library.remove(["berths", "added/berths.md", "berths"])
    assert [outcome.path for outcome in report.files] == ["posts/added/berths.md"]
    assert (report.removed, report.documents) == (1, 6)


def test_a_file_that_cannot_be_excluded_stops_the_whole_removal(library: Library, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("About apples.", encoding="utf-8")
    root = library.workspace.root
    settings = (root / "backstory.yaml").read_text(encoding="utf-8")
    source = f"documents: {{sources: [{{path: {json.dumps(str(notes))}}}]}}\n"
    (root / "backstory.yaml").write_text(f"{settings}{source}", encoding="utf-8")
    with Library.open(root) as library:
        library.add(["Berths are cheaper in spring."], ["berths"])
        with raises(InputError, "source_of_settings", "notes"):
            library.remove(["berths", "a.md"])
        assert (root / "posts" / "added" / "berths.md").is_file()


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "a\0b", "a" * 300, "\ud800", " "])
def test_what_is_no_path_is_an_error_that_says_so(library: Library, path: str) -> None:
    for call in (library.index, library.remove, library.document, lambda each: library.dump("moths", each)):
        with pytest.raises(InputError) as raised:
            call(path)
        assert raised.value.code in {"blank_text", "unusable_path", "unknown_document"}


def test_texts_are_added_and_removed_for_the_tenant_of_the_settings(
    make_library: Callable[..., Library],
) -> None:
    library = make_library(f"{SETTINGS}rag: {{tenant: ana}}\n")
    library.index()
    empty = library.status()
    assert (empty.state, empty.documents) == ("ready", 0)
    assert "no document states the tenant 'ana'" in (empty.reason or "")
    with raises(InputError, "unknown_document", "night-train.md"):
        library.document("night-train.md")
    library.add(["Quinces of Ana."], ["one"])
    assert (library.document("one").tenant, library.status().reason) == ("ana", None)
    assert [hit.slug for hit in library.search("quinces").hits] == ["one"]


def test_a_text_of_another_tenant_is_neither_replaced_nor_removed(
    make_library: Callable[..., Library],
) -> None:
    library = make_library(f"{SETTINGS}rag: {{tenant: ana}}\n")
    library.add(["Quinces of Bob."], ["two"], [{"tenant": "bob"}])
    file = library.workspace.documents_dir / "added" / "two.md"
    before = file.read_text(encoding="utf-8")
    with raises(InputError, "other_tenant"):
        library.add(["Pears.", "Quinces of Ana."], ["three", "two"])
    with raises(InputError, "unknown_document"):
        library.remove("two")
    assert file.read_text(encoding="utf-8") == before
    assert [path.name for path in file.parent.iterdir()] == ["two.md"]
    assert library.add(["Pears of Bob."], ["two"], [{"tenant": "bob"}]).indexed == 1


def test_a_place_never_goes_back_and_ends_at_the_whole() -> None:
    place = IndexingPlace()
    shares = [0.0]
    for label, done, total, is_further in [
        (STEP_OF_TABLES, 0, 3, False),
        ("fetching files", 0, 2, False),
        ("fetching files", 1, 2, True),
        ("reading documents", 0, 4, False),
        ("reading documents", 3, 4, True),
        ("documents", 0, 1, False),
        ("documents", 1, 1, True),
        (STEP_OF_TABLES, 1, 3, True),
        (STEP_OF_TABLES, 2, 3, True),
        ("embedding documents", 0, 0, True),
        (STEP_OF_TABLES, 3, 3, True),
    ]:
        assert place.move(label, done, total) == is_further
        shares.append(place.done / place.total)
        assert shares[-1] > shares[-2] if is_further else shares[-1] == shares[-2]
    assert shares[-1] == 1
