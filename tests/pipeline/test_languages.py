"""A chat in a language that the model does not know, from the export to what a person is told."""

from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from backstory import run_pipeline
from backstory.interfaces.cli import app as cli
from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.operations.inspection.doctor import examine
from backstory.operations.inspection.probes import Examination
from backstory.pipeline.checks.checks import CHECKS
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.text.languages import detect_language
from tests.workspaces import POSTS, build_table, copy_made, write_workspace

Make = Callable[..., Workspace]

ENGLISH_ONLY = (
    "windows: {size: 9}\nembedding: {provider: hashing, languages: [en]}\nrag: {min_similarity: -1}\n"
)
GERMAN = """\
16/03/2025, 09:00 - Ada Lind: Hat jemand von euch den irrigation Schlauch gesehen?
16/03/2025, 09:01 - Ben Okri: Der liegt noch hinter dem Schuppen bei den Tomaten
16/03/2025, 09:02 - Ada Lind: Danke dir! Ich hole ihn heute Abend ab
16/03/2025, 09:05 - Cleo Marsh: Bringt bitte auch die Gießkanne mit, meine hat ein Loch
"""


@pytest.fixture(scope="module")
def mixed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of two days of English and one of German, made with a model that knows English."""
    workspace = write_workspace(tmp_path_factory.mktemp("mixed") / "workspace", ENGLISH_ONLY)
    with (workspace.chats_dir / "garden.txt").open("a", encoding="utf-8") as file:
        file.write(GERMAN)
    run_pipeline(workspace)
    return workspace.root


@pytest.fixture
def mixed(mixed_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(mixed_once, tmp_path / "workspace")


def language_examination(workspace: Workspace) -> Examination:
    [found] = [each for each in examine(workspace.root) if each.name == "languages"]
    return found


def test_only_windows_in_an_unknown_language_are_degraded_and_get_no_verdict(mixed: Workspace) -> None:
    rows = mixed.tables.read("window_contexts").sort("window_id")
    german = rows.filter(language="de").row(0, named=True)
    assert (german["status"], german["verdict"], german["confidence"]) == ("degraded", "not_known", None)
    assert german["kept_count"] > 0
    english = rows.filter(language="en")
    assert len(english) == len(rows) - 1
    assert set(english["status"]) == {"ok"}
    assert english["error"].null_count() == len(english)


def find_cases(workspace: Workspace) -> dict[str, pl.DataFrame]:
    return {check.name: check.find(workspace, None) for check in CHECKS if check.table == "window_contexts"}


def test_a_person_is_told_wherever_the_window_is_looked_at(mixed: Workspace) -> None:
    [case] = find_cases(mixed)["windows_in_unknown_languages"].to_dicts()
    assert case["language"] == "German"
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(
        cli.app, ["context", case["window_id"], "-w", str(mixed.root)]
    )
    assert "the window is in German, which hashing:words:256 does not know" in " ".join(shown.stdout.split())
    assert "Verdict: not known" in shown.stdout
    page = write_window_page(mixed, case["window_id"]).read_text(encoding="utf-8")
    assert "the window is in German" in page
    examined = language_examination(mixed)
    assert not examined.passed
    assert "1 in German" in examined.detail
    assert "does not know German" in examined.detail


PORTUGUESE = (
    "# O gato da vizinha\n\nEle dorme no meu sofá todas as tardes, e ninguém sabe como entra em casa.\n"
)


def languages_of_posts(workspace: Workspace) -> dict[str, str | None]:
    posts = workspace.tables.read("sources").filter(folder="documents")
    return dict(posts.select(pl.col("source").str.strip_prefix("posts/"), "language").iter_rows())


def test_the_language_of_every_document_is_told_and_doctor_counts_them(mixed: Workspace) -> None:
    (mixed.documents_dir / "gato.md").write_text(PORTUGUESE, encoding="utf-8")
    (mixed.documents_dir / "numbers.md").write_text("12 345 678\n", encoding="utf-8")
    (mixed.documents_dir / "rascunho.md").write_text(f"---\ndraft: true\n---\n{PORTUGUESE}", encoding="utf-8")
    [index] = [report for report in run_pipeline(mixed) if report.table == "search_index"]
    assert index.counts["stemmers"] == "english (7 chunks), portuguese (1 chunks)"
    assert "temperature" in str(index.counts["calibration"])
    found = languages_of_posts(mixed)
    assert {found.pop(name) for name in POSTS} == {"en"}
    assert found == {"gato.md": "pt", "numbers.md": None, "rascunho.md": None}
    examined = language_examination(mixed)
    assert not examined.passed
    assert (
        "documents: 6 in English, 1 in Portuguese, 1 in an unclear language; windows: 2 in English, 1 in German. "
        "The embedding model does not know German (1), Portuguese (1):" in examined.detail
    )


def test_the_language_of_a_document_is_told_again_only_where_its_content_is_another(
    made_workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def tell(texts: Iterable[str | None]) -> str | None:
        told.extend(text for text in texts if text)
        return detect_language(told)

    monkeypatch.setattr("backstory.ingest.documents.reader.detect_language", tell)
    (made_workspace.documents_dir / "unrelated.md").write_text(PORTUGUESE, encoding="utf-8")
    (made_workspace.documents_dir / "later.md").unlink()
    run_pipeline(made_workspace)
    assert told[0] == "O gato da vizinha"
    assert len(told) == 2
    found = languages_of_posts(made_workspace)
    assert found.pop("unrelated.md") == "pt"
    assert found == dict.fromkeys(POSTS.keys() - {"unrelated.md", "later.md"}, "en")


def test_no_documents_have_no_languages(workspace: Workspace) -> None:
    for path in workspace.documents_dir.iterdir():
        path.unlink()
    build_table(workspace, "documents")
    assert languages_of_posts(workspace) == {}


def test_unknown_languages_are_not_among_the_insufficient_or_unserved(make_workspace: Make) -> None:
    workspace = make_workspace(ENGLISH_ONLY.replace("-1", "0.99"))
    (workspace.chats_dir / "garden.txt").write_text(GERMAN, encoding="utf-8")
    run_pipeline(workspace)
    found = {name: len(cases) for name, cases in find_cases(workspace).items()}
    assert found == {
        "windows_in_unknown_languages": 1,
        "insufficient_contexts": 0,
        "windows_without_context": 0,
        "unknown_windows": 0,
        "real_names": 0,
    }


def test_stating_that_the_model_knows_the_language_makes_the_verdicts_and_nothing_else(
    mixed: Workspace,
) -> None:
    before = mixed.tables.read("window_contexts").filter(language="en")
    (mixed.root / "backstory.yaml").write_text(ENGLISH_ONLY.replace("[en]", "[en, de]"), encoding="utf-8")
    workspace = open_workspace(mixed.root)
    [remade] = [report for report in run_pipeline(workspace) if report.computed]
    assert remade.table == "window_contexts"
    assert remade.counts["language_de"] == 1
    rows = workspace.tables.read("window_contexts")
    assert rows.filter(language="en").drop("settings_hash").equals(before.drop("settings_hash"))
    [german] = rows.filter(language="de").to_dicts()
    assert (german["status"], german["error"]) == ("ok", None)
    assert language_examination(workspace).passed
