"""Random edits, one after another, with runs of every kind between them: each ends as a workspace without a history.

Written posts are documents of later windows, so that whatever goes or changes must leave those, too.

``BACKSTORY_EDIT_SEQUENCES`` sets the number of sequences, of 3 steps each, or 15 in the long tests.
"""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.runner import execute_stages, find_wanted
from backstory.pipeline.workspace import open_workspace
from backstory.retrieval.evidence.document_fit import FEATURES
from pipelines.materialization import execute_job
from tests.forms import Share
from tests.long_tests import LONG_TESTS
from tests.pipeline.disturbed_runs import run_and_kill, run_one_day
from tests.pipeline.workspace_states import (
    LEARNED,
    FreshWorkspaces,
    describe,
    feedback_inputs,
    first_inputs,
    run,
    write_inputs,
)
from tests.workspaces import CHAT, replace_recorded, run_workspace

SEQUENCES = int(os.environ.get("BACKSTORY_EDIT_SEQUENCES", "1"))
STEPS = 15 if LONG_TESTS else 3

Inputs = dict[str, str]
Edit = Callable[[Inputs, random.Random], object]

SETTINGS_TRIED = (
    ("top_k: 3", "top_k: 2"),
    ("size: 6", "size: 4"),
    ("overlap: 2", "overlap: 0"),
    (
        "rag: {top_k: 3}\nwriters: {provider: digest, feedback: 'on'}",
        "rag: {top_k: 3, as_of: false}\nwriters: {provider: digest}",
    ),
    ("top_k: 3", "top_k: 3, strategy: mmr"),
    ("start: 2025-03-01", "start: 2025-03-01, grain: week"),
    ("rag: {top_k: 3}", "rag: {enabled: false}"),
    ("rag: {top_k: 3}", "rag: {top_k: 3}\nchunks: {max_tokens: 24, overlap_tokens: 0}"),
    ("folder: chats", "folder: chats, timezone: Asia/Tokyo"),
    ("rag: {top_k: 3}", "rag: {top_k: 3}\nprivacy: {exclude: [Cleo Marsh]}"),
    ("feedback: 'on'", "feedback: 'off'"),
    ("feedback: 'on'", "feedback: 'on', without_context: skip"),
)

LATER = "14/03/2025, 12:00 - Eve Stone: A late message about {}\n"
TOPICS = ("the frost", "a clicking disk", "bread and flour", "the train to Lisbon", "moths", "tomatoes")


def chats(inputs: Inputs) -> list[str]:
    return [name for name in sorted(inputs) if name.startswith("chats/") and name != "chats/anchor.txt"]


def posts(inputs: Inputs) -> list[str]:
    return [name for name in sorted(inputs) if name.startswith("posts/")]


def add_chat(inputs: Inputs, rng: random.Random) -> None:
    inputs[f"chats/other-{rng.randrange(3)}.txt"] = (
        LATER.format(rng.choice(TOPICS)) + CHAT.splitlines()[-1] + "\n"
    )


def remove_chat(inputs: Inputs, rng: random.Random) -> None:
    inputs.pop(rng.choice(chats(inputs)), None)


def rename_chat(inputs: Inputs, rng: random.Random) -> None:
    inputs[f"chats/renamed-{rng.randrange(3)}.txt"] = inputs.pop(rng.choice(chats(inputs)))


def cut_chat(inputs: Inputs, rng: random.Random) -> None:
    name = rng.choice(chats(inputs))
    lines = inputs[name].splitlines(keepends=True)
    inputs[name] = "".join(lines[rng.randrange(len(lines)) :])


def remove_day(inputs: Inputs, rng: random.Random) -> None:
    name = rng.choice(chats(inputs))
    lines = inputs[name].splitlines(keepends=True)
    day = rng.choice(lines)[:10]
    inputs[name] = "".join(line for line in lines if not line.startswith(day))
    if not inputs[name]:
        del inputs[name]


def restore_chat(inputs: Inputs, _: random.Random) -> None:
    inputs["chats/garden.txt"] = CHAT


def edit_old_message(inputs: Inputs, rng: random.Random) -> None:
    name = rng.choice(chats(inputs))
    inputs[name] = inputs[name].replace(rng.choice(("frost", "disk", "starter", "train")), rng.choice(TOPICS))


def append_message(inputs: Inputs, rng: random.Random) -> None:
    inputs["chats/anchor.txt"] = inputs["chats/anchor.txt"].replace(
        "16/03", f"{LATER.format(rng.choice(TOPICS))}16/03", 1
    )


def break_line(inputs: Inputs, rng: random.Random) -> None:
    name = rng.choice(chats(inputs))
    inputs[name] += "31/02/2025, 10:00 - Ada Lind: no such day\n"


def add_post(inputs: Inputs, rng: random.Random) -> None:
    topic = rng.choice(TOPICS)
    inputs[f"posts/new-{rng.randrange(3)}.md"] = (
        f"---\ntitle: On {topic}\ndate: 2024-02-01\n---\n\nAbout {topic}.\n"
    )


def edit_post(inputs: Inputs, rng: random.Random) -> None:
    inputs[rng.choice(posts(inputs))] += f"\nMore about {rng.choice(TOPICS)}.\n"


def rename_post(inputs: Inputs, rng: random.Random) -> None:
    inputs[f"posts/renamed-{rng.randrange(3)}.md"] = inputs.pop(rng.choice(posts(inputs)))


def remove_post(inputs: Inputs, rng: random.Random) -> None:
    inputs.pop(rng.choice(posts(inputs)))


def restore_posts(inputs: Inputs, _: random.Random) -> None:
    inputs.update({name: text for name, text in feedback_inputs().items() if name.startswith("posts/")})


def try_setting(inputs: Inputs, rng: random.Random) -> None:
    inputs["backstory.yaml"] = feedback_inputs()["backstory.yaml"].replace(*rng.choice(SETTINGS_TRIED))


def put_settings_back(inputs: Inputs, _: random.Random) -> None:
    inputs["backstory.yaml"] = feedback_inputs()["backstory.yaml"]


def learn(inputs: Inputs, rng: random.Random) -> None:
    weights = {name: round(rng.uniform(-1, 1), 3) for name in FEATURES}
    of_both = {
        "embedder": HashingEmbedder().id,
        "source": "set",
        "gain": 0.1,
        "gain_low": 0.05,
        "gain_high": 0.15,
    }
    fit = {"weights": weights, "intercept": -3.0, "strength": 1.0}
    inputs[LEARNED] = json.dumps({**of_both, "fit": fit, "windows": 20, "links": 60})


def unlearn(inputs: Inputs, _: random.Random) -> None:
    inputs.pop(LEARNED, None)


EDITS: tuple[Edit, ...] = (
    add_chat, remove_chat, rename_chat, cut_chat, remove_day, restore_chat, edit_old_message, append_message,
    break_line, add_post, edit_post, rename_post, remove_post, restore_posts, try_setting, put_settings_back,
    learn, unlearn,
)  # fmt: skip


def edited(inputs: Inputs, rng: random.Random) -> Inputs:
    after = dict(inputs)
    if not chats(after):
        restore_chat(after, rng)
    if len(posts(after)) < 3:
        restore_posts(after, rng)
    rng.choice(EDITS)(after, rng)
    return after


def run_and_edit(root: Path, rng: random.Random, after: Inputs) -> None:
    """Change the inputs once some stages are done."""
    left = rng.randrange(8)

    def edit_later(told: object) -> None:
        nonlocal left
        left -= isinstance(told, StageResult)
        if left == 0:
            write_inputs(root, after)

    workspace = open_workspace(root)
    run_workspace(workspace, find_wanted(workspace, None, None), edit_later, execute_stages)


@pytest.fixture(scope="module")
def fresh_workspaces(tmp_path_factory: pytest.TempPathFactory) -> FreshWorkspaces:
    return FreshWorkspaces(tmp_path_factory.mktemp("fresh"))


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_a_history_of_edits_ends_as_a_workspace_without_one(
    seed: int,
    tmp_path: Path,
    fresh_workspaces: FreshWorkspaces,
    monkeypatch: pytest.MonkeyPatch,
    share: Share,
) -> None:
    rng = random.Random(seed)
    history = [feedback_inputs()]
    share(tmp_path)
    write_inputs(tmp_path, history[0])
    for step in range(STEPS):
        tried = edited(history[-1], rng)
        undone = rng.random() < 0.4
        write_inputs(tmp_path, tried)
        between = rng.choice(("nothing", "run", "kill", "one day", "edit during"))
        after = rng.choice(history) if undone else tried
        if between == "run":
            run(tmp_path)
        elif between == "kill":
            run_and_kill(tmp_path, rng, monkeypatch)
        elif between == "one day":
            run_one_day(tmp_path, rng)
        elif between == "edit during":
            run_and_edit(tmp_path, rng, after)
        write_inputs(tmp_path, after)
        history.append(after)
        outcome = run(tmp_path)
        assert outcome.success, outcome.failures
        if LONG_TESTS or step == STEPS - 1:
            assert describe(tmp_path) == fresh_workspaces.describe(after), (between, undone)


def test_an_edit_that_a_run_did_not_read_is_seen_by_the_next(
    tmp_path: Path, fresh_workspaces: FreshWorkspaces, share: Share
) -> None:
    before = first_inputs()
    share(tmp_path)
    write_inputs(tmp_path, before)
    after = dict(before)
    edit_post(after, random.Random(1))
    append_message(after, random.Random(1))

    def edit_at_once(told: object) -> None:
        if isinstance(told, StageResult) and told.table == "documents":
            write_inputs(tmp_path, after)

    workspace = open_workspace(tmp_path)
    run_workspace(workspace, find_wanted(workspace, None, None), edit_at_once, execute_stages)
    assert not run(tmp_path).fresh
    assert describe(tmp_path) == fresh_workspaces.describe(after)
    assert run(tmp_path).fresh


def test_a_blocked_run_is_not_fresh_though_every_stage_is_done(tmp_path: Path, share: Share) -> None:
    share(tmp_path)
    write_inputs(tmp_path, first_inputs())
    assert run(tmp_path).success
    workspace = open_workspace(tmp_path)
    day = next(key for key, entry in workspace.catalog.read("window_contexts").items() if entry.rows)
    right = workspace.tables.read("window_contexts", [day])
    replace_recorded(workspace, "window_contexts", day, pl.concat([right, right]))
    for _ in range(2):
        outcome = run(tmp_path)
        assert not outcome.success
        assert not outcome.fresh
    replace_recorded(workspace, "window_contexts", day, right)
    assert run(tmp_path).success
    assert run(tmp_path).fresh


@pytest.mark.long
def test_edits_and_damage_through_dagster_end_as_a_workspace_without_a_history(
    tmp_path: Path, fresh_workspaces: FreshWorkspaces, share: Share
) -> None:
    inputs = feedback_inputs()
    share(tmp_path)
    write_inputs(tmp_path, inputs)
    for edit in (None, cut_chat, remove_post):
        if edit is not None:
            edit(inputs, random.Random(3))
            write_inputs(tmp_path, inputs)
            min((tmp_path / "data" / "window_chunks").glob("2*.parquet")).unlink()
        workspace = open_workspace(tmp_path)
        days = find_wanted(workspace, None, None)
        assert run_workspace(workspace, days, lambda _: None, execute_job).success
        assert describe(tmp_path) == fresh_workspaces.describe(inputs)
