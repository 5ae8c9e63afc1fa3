"""What people say of the explanation of a window: a label that survives, is forgotten, and alone changes nothing."""

import json
from pathlib import Path

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import ShouldBe
from backstory.operations.corrections import Place, keep_corrections, read_corrections, record_correction
from backstory.operations.forgetting import forget
from backstory.operations.labels import LINKED, SAID_ABSENT, SAID_HERE, Labels, gather_labels
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.builders.communities import FIRST, write_community
from tests.builders.communities import LINKED as LINKS
from tests.errors import raises
from tests.interfaces.cli.invocation import exit_code
from tests.interfaces.cli.invocation import run as run_cli
from tests.workspaces import copy_made
from tests.world import describe, run, write_inputs

DAY = str(FIRST)
UNLINKED, UNWANTED, LATER = f"{DAY}-phrase-0.md", f"{DAY}-shared-0.md", f"{DAY}-digest.md"


def correct(workspace: Workspace, document: str, should_be: ShouldBe, day: str = DAY) -> Place | None:
    with Library.open(workspace.root) as library:
        [found] = library.explain(day, document, should_be=should_be).documents
    return found.should_be


def list_labels(workspace: Workspace) -> dict[str, str]:
    """List the source of each label of the first window, by the path of the document."""
    uris = dict(workspace.tables.read("documents").select("document_id", "uri").iter_rows())
    windows = workspace.tables.read("windows").sort("started_at")
    mine = gather_labels(workspace).frame.filter(window_id=windows["window_id"][0])
    return {uris[document]: source for document, source in mine.select("doc_id", "source").iter_rows()}


@pytest.fixture(scope="module")
def corrected_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat of three days, with a correction for and one against a document of the first."""
    root = tmp_path_factory.mktemp("corrections") / "workspace"
    write_inputs(root, write_community(3))
    run(root)
    workspace = open_workspace(root)
    assert correct(workspace, UNLINKED, "here") == "here"
    assert correct(workspace, UNWANTED, "absent") == "absent"
    return root


@pytest.fixture
def corrected(corrected_once: Path, tmp_path: Path) -> Workspace:
    return copy_made(corrected_once, tmp_path / "workspace")


def test_a_correction_is_a_label_whatever_links_say(corrected: Workspace) -> None:
    labels = list_labels(corrected)
    assert labels.pop(UNLINKED) == SAID_HERE
    assert UNWANTED not in labels
    assert labels == dict.fromkeys((f"{DAY}-shared-{place}.md" for place in range(1, LINKS)), LINKED)
    gathered = gather_labels(corrected)
    assert (gathered.refused, gathered.lost) == ({SAID_ABSENT: 1}, 0)


def test_a_correction_changes_nothing_and_survives(corrected: Workspace) -> None:
    before = describe(corrected.root)
    assert run(corrected.root).fresh
    (corrected.documents_dir / "further.md").write_text("# Further\n\nWords of its own.\n", encoding="utf-8")
    run(corrected.root)
    assert correct(corrected, UNLINKED, "unsaid") is None
    assert correct(corrected, UNWANTED, "unsaid") is None
    (corrected.documents_dir / "further.md").unlink()
    run(corrected.root)
    assert list_labels(corrected) == dict.fromkeys(
        (f"{DAY}-shared-{place}.md" for place in range(LINKS)), LINKED
    )
    after = describe(corrected.root)
    assert {name: after[name] for name in ("decisions", "contexts", "window_contexts")} == {
        name: before[name] for name in ("decisions", "contexts", "window_contexts")
    }


def test_what_can_be_no_label_is_refused(corrected: Workspace) -> None:
    (corrected.documents_dir / "further.md").write_text("# Further\n\nWithout a date.\n", encoding="utf-8")
    run(corrected.root)
    before = read_corrections(corrected.state)
    with Library.open(corrected.root) as library:
        with raises(InputError, "no_document"):
            library.explain(DAY, should_be="here")
        for uri in (LATER, "further.md"):
            with raises(InputError, "no_label"):
                library.explain(DAY, uri, should_be="here")
    assert read_corrections(corrected.state) == before


def test_a_correction_about_a_document_that_became_later_is_no_label(corrected: Workspace) -> None:
    post = corrected.documents_dir / UNLINKED
    post.write_text(post.read_text("utf-8").replace("date: ", "date: 2030-01-01 #"), encoding="utf-8")
    run(corrected.root)
    labels = gather_labels(open_workspace(corrected.root))
    assert UNLINKED not in list_labels(corrected)
    assert labels.later > gather_labels_without_corrections(corrected).later


def gather_labels_without_corrections(workspace: Workspace) -> Labels:
    kept = read_corrections(workspace.state)
    keep_corrections(workspace.state, (), ())
    labels = gather_labels(workspace)
    for key, place in kept.items():
        record_correction(workspace.state, *key, place)
    return labels


def test_a_correction_is_lost_with_its_window(corrected: Workspace) -> None:
    chat = corrected.chats_dir / "garden.txt"
    chat.write_text(chat.read_text("utf-8").replace("09:00", "09:01", 1), encoding="utf-8")
    run(corrected.root)
    labels = gather_labels(open_workspace(corrected.root))
    assert (labels.lost, labels.refused) == (2, {})


def test_corrections_are_forgotten_with_what_they_are_about(corrected: Workspace) -> None:
    done = forget(corrected, "document", UNLINKED)
    assert done.left == {}
    assert set(read_corrections(corrected.state).values()) == {"absent"}
    done = forget(open_workspace(corrected.root), "conversation", "garden")
    assert done.left == {}
    assert read_corrections(corrected.state) == {}


def test_the_command_records_and_takes_back(corrected: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    root = str(corrected.root)

    def explain(*words: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(run_cli("explain", DAY, *words, "-w", root, "--json").stdout)[
            "documents"
        ][0]
        return found

    assert explain(UNLINKED)["should_be"] == "here"
    assert explain(UNLINKED, "--should-be", "absent")["should_be"] == "absent"
    assert "should be absent" in run_cli("explain", DAY, "-w", root).stdout
    assert explain(UNLINKED, "--should-be", "unsaid")["should_be"] is None
    assert exit_code(monkeypatch, "explain", DAY, UNLINKED, "-w", root, "--should-be", "elsewhere") == 2
