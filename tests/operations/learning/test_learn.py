"""What is learned from links: adopted where it gains, part of what the stages read, and undone without a trace."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory.base.errors import InputError, SearchIndexError, WorkspaceError
from backstory.interfaces.library.library import Library
from backstory.interfaces.pages.report.window_page import render_window_page
from backstory.interfaces.pages.report.window_reading import read_window_report
from backstory.operations.inspection.doctor import examine
from backstory.operations.inspection.probes import Examination
from backstory.operations.learn import learn, unlearn
from backstory.pipeline.incremental.inputs import hash_dependencies
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.evidence.learned import read_learned
from tests.builders.communities import DAYS, FIRST, SETTINGS, write_community
from tests.errors import raises
from tests.interfaces.cli.invocation import run as run_cli
from tests.world import describe, run, write_inputs

CHANGED = {"decisions", "contexts", "window_contexts"}


def examine_learned(root: Path) -> Examination:
    return next(found for found in examine(root) if found.name == "learned")


def test_a_fit_that_gains_is_adopted_whatever_was_learned_before(learned: Workspace) -> None:
    before = read_learned(learned.learned)
    lesson = learn(learned)
    assert (lesson.labels.windows, lesson.labels.links) == (DAYS, 3 * DAYS)
    assert lesson.trial is not None
    assert lesson.adopted
    assert lesson.trial.gain_low > 0
    assert (lesson.trial.fitted, lesson.trial.tested) == (DAYS // 2, DAYS // 2)
    assert before is not None
    assert before == read_learned(learned.learned)
    assert before.fit.digest in examine_learned(learned.root).detail


def test_what_a_fit_changes_is_made_again_and_undone(
    learned: Workspace, community_once: Path, tmp_path: Path
) -> None:
    before = describe(community_once)
    done = run(learned.root)
    assert {report.table for report in done.made.values() if report.computed} == CHANGED
    fresh = tmp_path / "fresh"
    # Some days at a time, which changes no row.
    write_inputs(fresh, write_community(DAYS, settings=f"{SETTINGS}partitions: {{rows_at_once: 60}}\n"))
    (fresh / ".backstory" / "learned.json").write_bytes(learned.learned.read_bytes())
    run(fresh)
    after = describe(learned.root)
    assert after == describe(fresh)
    assert {name for name in after if after[name] != before[name]} == CHANGED
    assert run(learned.root).fresh
    assert unlearn(learned)
    assert not unlearn(learned)
    run(learned.root)
    assert describe(learned.root) == before


def test_queries_and_pages_of_windows_use_the_fit_of_the_run(learned: Workspace) -> None:
    window = learned.tables.read("windows")["window_id"][-1]
    fit = learned.document_fit
    assert fit is not None
    page = render_window_page(read_window_report(learned, window), {})
    assert fit.digest not in page, "no run has made the window with it"
    with Library.open(learned.root) as library:
        found = [found.document_id for found in library.window_context(window).documents]
        run(learned.root)
        kept = learned.tables.read("contexts").filter(window_id=window).sort("rank")
        assert kept["document_id"].to_list() == found
        page = render_window_page(read_window_report(learned, window), {})
        assert fit.digest in page
        unlearn(learned)
        assert [found.document_id for found in library.window_context(window).documents] != found


def test_without_links_nothing_changes(made_workspace: Workspace, tmp_path: Path) -> None:
    lonely = tmp_path / "lonely"
    write_inputs(lonely, write_community(4, linking=False))
    for root in (made_workspace.root, lonely):
        run(root)
        before = describe(root)
        lesson = learn(open_workspace(root))
        assert (lesson.trial, lesson.adopted) == (None, False)
        assert not open_workspace(root).learned.exists()
        assert run(root).fresh
        assert describe(root) == before


def test_a_fit_that_does_not_gain_changes_nothing(community: Workspace) -> None:
    for digest in community.documents_dir.glob("*-digest.md"):
        # Each day links to what the first day was about.
        head = digest.read_text("utf-8").partition("\n\n")[0]
        digest.write_text(f"{head}\n\n[it]({FIRST}-shared-0.md)\n", "utf-8")
    run(community.root)
    lesson = learn(open_workspace(community.root))
    assert lesson.trial is not None
    assert lesson.trial.gain_low <= 0
    assert not lesson.adopted
    assert not community.learned.exists()
    assert run(community.root).fresh


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"score"', '"scores"'),
        lambda text: text.replace('"intercept":', '"intercept": 1e999, "unknown":'),
    ],
)
def test_a_damaged_fit_is_an_error_until_it_is_removed(
    learned: Workspace, change: Callable[[str], str]
) -> None:
    learned.learned.write_text(change(learned.learned.read_text("utf-8")), "utf-8")
    with raises(WorkspaceError, "damaged_record", learned.learned):
        hash_dependencies(learned, "decisions")
    assert not examine_learned(learned.root).passed
    assert unlearn(learned)
    assert examine_learned(learned.root).passed
    assert learned.document_fit is None


def test_only_what_reads_the_prior_depends_on_the_fit(learned: Workspace) -> None:
    def hash_all() -> dict[str, str]:
        workspace = open_workspace(learned.root)
        return {stage.table: hash_dependencies(workspace, stage.table) for stage in STAGES}

    with_fit = hash_all()
    unlearn(learned)
    without = hash_all()
    assert {table for table in with_fit if with_fit[table] != without[table]} == {
        "decisions",
        "window_contexts",
    }
    (learned.root / "backstory.yaml").write_text(SETTINGS.replace("top_k: 5", "strategy: mmr"), "utf-8")
    with raises(InputError, "no_prior"):
        learn(open_workspace(learned.root))


def test_the_command_shows_the_labels_and_undoes(community: Workspace, made_workspace: Workspace) -> None:
    root = str(community.root)
    record = json.loads(run_cli("learn", "-w", root, "--json").stdout)
    assert record["labels"]["links"] == 3 * DAYS
    assert record["adopted"]
    assert record["trial"]["gain"] > 0
    assert json.loads(run_cli("learn", "-w", root, "--undo", "--json").stdout) == {"removed": True}
    assert run_cli("learn", "-w", root, "--undo").exit_code == 0
    assert not community.learned.exists()
    assert "0 windows" in run_cli("learn", "-w", str(made_workspace.root)).stdout.splitlines()[0]


def test_nothing_is_learned_from_an_index_of_other_settings(community: Workspace) -> None:
    settings = community.root / "backstory.yaml"
    other = settings.read_text(encoding="utf-8").replace("{provider: hashing}", "{provider: local}")
    settings.write_text(other, encoding="utf-8")
    with raises(SearchIndexError, "stale_index"):
        learn(open_workspace(community.root))
    assert not community.learned.exists()
