"""Runs of real processes that end by ``kill -9``: the next run leaves what a run without a kill leaves.

Written posts are documents of later windows, and a day is gone, so that its posts leave them.

``BACKSTORY_KILLS`` sets the number of kills.
"""

import os
import random
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.pipeline.stages.posts import PostsStage
from backstory.storage.tables.tables import Made, Tables
from tests.forms import Share, is_shared
from tests.pipeline.disturbed_runs import Killed
from tests.pipeline.workspace_states import describe, feedback_inputs, run, write_inputs
from tests.started_python import run_python

KILLS = int(os.environ.get("BACKSTORY_KILLS", "2"))
ROOT = Path(__file__).resolve().parents[2]
_MOMENTS = {"first": 2800, "incremental": 2900}
"""About how often a run touches a file; a moment after its end kills nothing, and is as good a case."""


def edit(root: Path) -> None:
    chat = root / "chats" / "garden.txt"
    lines = [
        *chat.read_text(encoding="utf-8").splitlines(),
        "16/03/2025, 08:00 - Ada Lind: Moths on the train",
    ]
    kept = [f"{line}\n" for line in lines if not line.startswith("13/03")]
    chat.write_text("".join(kept), encoding="utf-8")
    (root / "posts" / "sourdough.md").unlink()
    settings = root / "backstory.yaml"
    settings.write_text(
        settings.read_text(encoding="utf-8").replace("top_k: 3", "top_k: 2"), encoding="utf-8"
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("kills") / "workspace"
    write_inputs(root, feedback_inputs())
    assert run(root).success
    return root


@pytest.fixture(scope="module")
def expected(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    incremental = tmp_path_factory.mktemp("expected") / "workspace"
    shutil.copytree(made, incremental)
    edit(incremental)
    assert run(incremental).success
    return {"first": describe(made), "incremental": describe(incremental)}


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_run_is_completed_by_the_next(
    number: int, made: Path, expected: dict[str, dict[str, Any]], tmp_path: Path, share: Share
) -> None:
    kind = ("first", "incremental")[number % 2]
    root, other = tmp_path / "workspace", tmp_path / "other"
    if kind == "first":
        share(root)
        write_inputs(root, feedback_inputs())
    else:
        shutil.copytree(made, root)
        share(root)
        assert run(root).success
        edit(root)
    moment = random.Random(number).randrange(_MOMENTS[kind])
    killed = run_python(["-m", "tests.pipeline.killed_run", str(root), str(moment)], cwd=ROOT)
    assert killed.returncode in (-signal.SIGKILL, 0), killed.stderr
    assert run(root).success
    assert describe(root) == expected[kind]
    assert run(root).fresh
    if is_shared(root):
        (other / ".backstory").mkdir(parents=True)
        for name in ("backstory.yaml", ".backstory/secret.key"):
            shutil.copy(root / name, other / name)
        assert run(other).success
        assert describe(other) == expected[kind]


@pytest.mark.parametrize("feedback", ["on", "off"])
@pytest.mark.parametrize("place", ["before the posts are asked for", "before their rows are committed"])
def test_inputs_that_are_put_back_after_a_kill_give_what_they_gave(
    place: str, feedback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "workspace"
    inputs = feedback_inputs()
    inputs["backstory.yaml"] = inputs["backstory.yaml"].replace("feedback: 'on'", f"feedback: '{feedback}'")
    write_inputs(root, inputs)
    assert run(root).success
    expected = describe(root)
    edit(root)
    compute, commit = PostsStage.compute, Tables.commit

    def compute_or_die(stage: PostsStage, partitions: list[str]) -> Mapping[str, pl.DataFrame]:
        if place == "before the posts are asked for":
            raise Killed
        return compute(stage, partitions)

    def commit_or_die(tables: Tables, made: Mapping[tuple[str, str], Made], **options: Any) -> None:
        if any(table == "posts" for table, _ in made):
            raise Killed
        commit(tables, made, **options)

    with monkeypatch.context() as patch:
        patch.setattr(PostsStage, "compute", compute_or_die)
        patch.setattr(Tables, "commit", commit_or_die)
        with pytest.raises(Killed):
            run(root)
    write_inputs(root, inputs)
    assert run(root).success
    assert describe(root) == expected
    assert run(root).fresh
