"""Random edits of several sources, with a reading after some: each ends as a workspace that reads once."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backstory.ingest.sources.listing import add_source, find_covering, list_sources, remove_source
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.long_tests import LONG_TESTS
from tests.workspaces import SETTINGS, build_table

SEQUENCES = 8 if LONG_TESTS else 1
STEPS = 25 if LONG_TESTS else 12
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----"
NAMES = ("a.md", "b.md", "inner/a.md", "inner/c.md", "draft.md", "x.env")
STATED = (
    "",
    "documents: {sources: [{path: ../one, name: one}]}\n",
    "documents: {sources: [{path: ../one, name: one, kind: note}]}\n",
    "documents: {sources: [{path: ../one, name: one, exclude: [inner/]}, {path: ../one/inner, name: deep}]}\n",
    "documents: {secrets: [b.md, '!*.env'], sources: [{path: ../one, name: one, include: ['*.md', '*.env']}]}\n",
)


def read(root: Path) -> Workspace:
    workspace = open_workspace(root, accept_removals=True)
    build_table(workspace, "documents")
    return workspace


def describe(workspace: Workspace) -> dict[str, Any]:
    documents = workspace.tables.read("documents")
    return {
        "documents": documents.filter(documents["status"] == "ok").sort("uri").to_dicts(),
        "sources": workspace.tables.read("sources", ["documents"]).sort("source").to_dicts(),
    }


def edit(root: Path, rng: random.Random) -> None:
    folders = [root.parent / name for name in ("one", "two")]
    folder = rng.choice(folders)
    path = folder / rng.choice(NAMES)
    act = rng.choice(("write", "write", "key", "remove", "rename", "ignore", "settings", "add", "take away"))
    if act in ("write", "key"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {rng.random()}\n{KEY if act == 'key' else ''}\n", encoding="utf-8")
    elif act == "remove":
        path.unlink(missing_ok=True)
    elif act == "rename" and path.exists():
        path.rename(folder / f"renamed-{rng.randrange(3)}.md")
    elif act == "ignore" and folder.exists():
        (folder / ".backstoryignore").write_text(rng.choice(("", "draft.md\n", "inner/\n!a.md\n")), "utf-8")
    elif act == "settings":
        (root / "backstory.yaml").write_text(f"{SETTINGS}{rng.choice(STATED)}", encoding="utf-8")
    elif act == "add" and folders[1].exists() and find_covering(open_workspace(root), folders[1]) is None:
        add_source(open_workspace(root), folders[1])
    elif act == "take away":
        for source in list_sources(open_workspace(root)):
            if source.is_added:
                remove_source(open_workspace(root), source)


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_edits_of_sources_end_as_a_first_reading(
    make_workspace: Callable[..., Workspace], tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    root = make_workspace().root
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
    for step in range(STEPS):
        edit(root, rng)
        if rng.random() < 0.5:
            continue
        kept = describe(read(root))
        fresh = tmp_path / "fresh"
        shutil.copytree(root, fresh, ignore=shutil.ignore_patterns("data"))
        assert kept == describe(read(fresh)), step
        shutil.rmtree(fresh)


def test_what_a_source_held_before_it_was_out_of_reach_is_kept_through_edits(
    make_workspace: Callable[..., Workspace], tmp_path: Path
) -> None:
    root = make_workspace().root
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "a.md").write_text("# A\n", encoding="utf-8")
    add_source(open_workspace(root), tmp_path / "two")
    before = describe(read(root))
    (tmp_path / "two").rename(tmp_path / "unplugged")
    (root / "posts" / "sourdough.md").unlink()
    gone = describe(read(root))
    assert [row["uri"] for row in before["documents"] if row not in gone["documents"]] == ["sourdough.md"]
    (tmp_path / "unplugged").rename(tmp_path / "two")
    back = describe(read(root))
    assert back["documents"] == gone["documents"]
    assert {row["status"] for row in back["sources"]} == {"read"}
