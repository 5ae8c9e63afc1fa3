"""The map of probabilities: fitted on labels of parts alone, used wherever a probability is, and undone."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.pages.report.window_page import render_window_page
from backstory.interfaces.pages.report.window_reading import read_window_report
from backstory.operations.evaluation.labelled_set import read_labelled_set
from backstory.operations.inspection.doctor import examine
from backstory.operations.learning.examples import search_set
from backstory.operations.learning.labels import label_set
from backstory.operations.learning.learn import learn, unlearn
from backstory.operations.learning.map_trial import try_map
from backstory.pipeline.incremental.fingerprints import hash_dependencies
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.evidence.learned import Learned, read_learned
from backstory.retrieval.evidence.probability_map import LearnedMap, ProbabilityMap
from tests.builders.communities import FIRST
from tests.interfaces.cli.invocation import run as run_cli
from tests.operations.learning.test_learn import write_set
from tests.pipeline.workspace_states import describe, run
from tests.workspaces import copy_made

KEYS = ["query_chunk_id", "chunk_id"]
MAP = ProbabilityMap(small=0.7, large=0.9, intercept=-0.5)


def make_learned(workspace: Workspace, mapped: ProbabilityMap = MAP) -> Learned:
    return Learned(
        probabilities=LearnedMap(
            map=mapped,
            embedder=workspace.embedder.id,
            source="friends",
            pairs=900,
            gain=0.02,
            gain_low=0.01,
            gain_high=0.03,
        )
    )


def make_pairs(days: int, share: float) -> pl.DataFrame:
    """Make pairs of a probability of one half, of which a share is true."""
    rows = [
        {
            "window_id": f"w{day}",
            "day": FIRST.replace(day=1 + day),
            "probability": 0.5,
            "true": pair < 20 * share,
        }
        for day in range(days)
        for pair in range(20)
    ]
    return pl.DataFrame(rows)


def write_set_of_parts(workspace: Workspace, folder: Path) -> Path:
    """Write a set whose labels tell which document each two messages share a phrase with."""
    write_set(workspace, folder)
    days = pl.read_parquet(folder / "windows.parquet").select(
        "window_id", "msg_no", day=pl.col("timestamp").dt.date().cast(pl.String)
    )
    topic = pl.format("{}-phrase-{}.md", "day", pl.col("msg_no") // 2 * 2)
    topics = days.select("window_id", "msg_no", topic=topic)
    topics.write_parquet(folder / "msg_topics.parquet")
    documents = workspace.tables.read("documents").select(topic="uri", doc_id="document_id")
    topics.select("window_id", "topic").unique().join(documents, on="topic").select(
        "window_id", "doc_id", "topic", rel=pl.lit(1)
    ).write_parquet(folder / "qrels.parquet")
    return folder


def test_a_map_is_adopted_only_if_the_later_days_gain() -> None:
    gained = try_map(make_pairs(20, 0.1))
    assert gained is not None
    assert gained.is_gain
    assert (gained.fitted, gained.tested) == (200, 200)
    assert gained.map.apply(np.array([0.5])) == pytest.approx([0.1], abs=1e-4)
    even = try_map(make_pairs(20, 0.5))
    assert even is not None
    assert not even.is_gain
    assert try_map(make_pairs(19, 0.1)) is None


def test_labels_of_parts_fit_a_map_and_links_do_not(
    community: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTORY_CACHE_DIR", str(tmp_path / "cache"))
    folder = write_set_of_parts(community, tmp_path / "friends")
    lesson = learn(community, folder)
    assert lesson.tells_of_parts
    assert lesson.map_trial is not None
    assert lesson.adopted_map is not None
    assert lesson.map_trial.after < lesson.map_trial.before
    labelled = read_labelled_set(folder)
    with search_set(community, labelled, label_set(labelled)) as examples:
        pairs = examples.list_pairs()
    assert pairs is not None
    assert len(pairs) == lesson.map_trial.fitted + lesson.map_trial.tested
    true = pairs.filter("true").group_by("condition").len().sort("condition")["len"].to_list()
    assert 0 < true[1] < true[0], "without the documents of half of the topics, fewer documents serve"
    of_links = learn(community)
    assert not of_links.tells_of_parts
    assert (of_links.map_trial, of_links.adopted_map) == (None, None)
    learned = read_learned(community.learned)
    assert learned.documents == of_links.adopted
    assert learned.probabilities == lesson.adopted_map, "what links do not tell of stays"


def test_a_map_changes_each_probability_and_is_undone(community_once: Path, tmp_path: Path) -> None:
    workspace = copy_made(community_once, tmp_path / "mapped")
    before, decided = describe(workspace.root), workspace.tables.read("decisions")
    window = workspace.tables.read("windows").sort("started_at")["window_id"][0]
    with Library.open(workspace.root) as library:
        asked = library.search("notes").hits
    make_learned(workspace).write(workspace.learned)
    done = run(workspace.root)
    assert {report.table for report in done.reports if report.computed} <= {
        "decisions",
        "contexts",
        "window_contexts",
    }
    compared = workspace.tables.read("decisions").join(decided, on=KEYS, suffix="_before")
    assert len(compared) == len(decided)
    mapped = MAP.apply(compared["probability_before"].to_numpy())
    assert compared["probability"].to_numpy() == pytest.approx(mapped, abs=1e-5)
    assert (compared["probability"] != compared["probability_before"]).any()
    with Library.open(workspace.root) as library:
        found = {hit.chunk_id: hit.probability for hit in library.search("notes").hits}
        expected = MAP.apply(np.array([hit.probability for hit in asked]))
        assert [found[hit.chunk_id] for hit in asked] == pytest.approx(expected, abs=2e-3)
        served = {part.probability for part in library.window_context(window).parts}
    assert served
    examined = next(found for found in examine(workspace.root) if found.name == "learned")
    assert MAP.digest in examined.detail
    assert MAP.digest in render_window_page(read_window_report(workspace, window), {})
    assert run(workspace.root).fresh
    assert unlearn(workspace)
    run(workspace.root)
    assert describe(workspace.root) == before


def test_what_decides_depends_on_the_map_whatever_chooses(community: Workspace) -> None:
    def hash_all() -> dict[str, str]:
        workspace = open_workspace(community.root)
        return {stage.table: hash_dependencies(workspace, stage.table) for stage in STAGES}

    settings = community.root / "backstory.yaml"
    settings.write_text(settings.read_text("utf-8").replace("top_k: 5", "strategy: mmr"), "utf-8")
    without = hash_all()
    make_learned(community).write(community.learned)
    with_map = hash_all()
    changed = {table for table in without if without[table] != with_map[table]}
    assert changed == {"decisions", "window_contexts"}


def test_the_command_says_why_links_fit_no_map(made_workspace: Workspace) -> None:
    root = str(made_workspace.root)
    assert "msg_topics.parquet" in run_cli("learn", "-w", root).stdout
    record = json.loads(run_cli("learn", "-w", root, "--json").stdout)
    assert (record["tells_of_parts"], record["map_trial"], record["map_adopted"]) == (False, None, False)
