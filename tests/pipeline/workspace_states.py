"""What a workspace holds after a run, to be compared with another one, and workspaces written from given inputs."""

import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from backstory import run_pipeline
from backstory.index.snapshot import CHUNKS_FILE, DOCUMENTS_FILE, VECTORS_FILE, current_version, read_manifest
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import execute_stages, find_wanted
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.views import VIEWS_FILE, query_views
from tests.forms import SHARED
from tests.workspaces import CHAT, POSTS, SETTINGS, run_workspace

Inputs = Mapping[str, str]
"""Text of each input file by its path in the workspace."""

SECRET = "5e" * 32
LEARNED = ".backstory/learned.json"

ANCHOR = """\
12/03/2025, 08:00 - Dora Fells: The first day has a message about moths
16/03/2025, 20:00 - Dora Fells: And so has the last one, with a lamp
"""
"""A second chat, which keeps the span of days the same whatever becomes of the first."""


# Edits that remove messages are no question here.
MIRRORED = SETTINGS.replace("{folder: chats}", "{folder: chats, removals: mirror}")


def first_inputs() -> dict[str, str]:
    inputs = {"backstory.yaml": MIRRORED, "chats/garden.txt": CHAT, "chats/anchor.txt": ANCHOR}
    for file, (title, date, text) in POSTS.items():
        inputs[f"posts/{file}"] = f"---\ntitle: {title}\ndate: {date}\n---\n\n# {title}\n\n{text}\n"
    return inputs


def feedback_inputs() -> dict[str, str]:
    """Give the first inputs with settings that write a post for each window and make it a document of later ones."""
    inputs = first_inputs()
    inputs["backstory.yaml"] += "writers: {provider: digest, feedback: 'on'}\n"
    return inputs


def write_inputs(root: Path, inputs: Inputs) -> None:
    """Make the inputs of a workspace exactly these; what was made of former ones stays, as does what it shares."""
    settings = root / "backstory.yaml"
    written = settings.read_text(encoding="utf-8").splitlines(keepends=True) if settings.exists() else []
    for folder in ("chats", "posts"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for path in (root / folder).iterdir():
            if f"{folder}/{path.name}" not in inputs:
                path.unlink()
    if not (root / ".backstory").exists():
        (root / ".backstory").mkdir()
        (root / ".backstory" / "secret.key").write_text(f"{SECRET}\n", encoding="ascii")
        (root / ".backstory" / "secret.key").chmod(0o600)
    if LEARNED not in inputs:
        (root / LEARNED).unlink(missing_ok=True)
    for name, text in inputs.items():
        (root / name).write_text(text, encoding="utf-8")
    with settings.open("a", encoding="utf-8") as kept:
        kept.writelines(line for line in written if line.startswith(SHARED))


def run(root: Path) -> Run:
    """Do what `backstory run` does over all days."""
    workspace = open_workspace(root)
    return run_workspace(workspace, find_wanted(workspace, None, None), lambda _: None, execute_stages)


def describe(root: Path) -> dict[str, Any]:
    """Give what a reader can see: the bytes of every table and post, the content of the index, the rows of every view.

    Of the documents only those that are served count: the table also keeps what they were, which another history
    has not seen. Where written posts are documents, neither does the snapshot count that a window was searched in.
    """
    workspace = open_workspace(root)
    found: dict[str, Any] = {name: workspace.tables.hash_files(name) for name in TABLES}
    if workspace.feeds_back:
        for name in ("hits", "window_contexts"):
            found[name] = workspace.tables.read(name).drop("index_version").to_dicts()
    found["posts as files"] = {path.name: path.read_bytes() for path in workspace.posts_dir.glob("*.md")}
    served = workspace.tables.read("documents").filter(pl.col("status").is_in(["ok", "error"]))
    found["documents"] = served.sort("uri").to_dicts()
    version = current_version(workspace.index)
    manifest = read_manifest(workspace.index / version)
    # The version is the hash of what went in; the files hold padding, which may be any bytes.
    stored = [
        pl.read_ipc(workspace.index / version / name).to_dicts() for name in (DOCUMENTS_FILE, CHUNKS_FILE)
    ]
    found["index"] = (
        version,
        manifest.languages,
        manifest.calibration,
        manifest.files[VECTORS_FILE].sha256,
        *stored,
    )
    found["views"] = _count_views(workspace)
    found["leftovers"] = find_leftovers(root)
    return found


def find_leftovers(root: Path) -> list[str]:
    """List the temporary files and folders that a writer did not remove."""
    return sorted(
        path.name
        for path in root.rglob(".*")
        if path.name.endswith((".tmp", ".building")) or ".building-" in path.name
    )


def _count_views(workspace: Workspace) -> dict[str, int]:
    queries = (f"SELECT '{name}', count(*) FROM {name}" for name in TABLES if name != "documents")
    query = " UNION ALL ".join(queries)
    if workspace.settings.storage.files is None:
        with closing(duckdb.connect(workspace.tables_dir / VIEWS_FILE, read_only=True)) as views:
            counts = dict(views.execute(query).fetchall())
    else:
        counts = dict(query_views(workspace.settings.storage.files, query).iter_rows())
    assert counts == {name: len(workspace.tables.read(name)) for name in counts}
    return counts


class FreshWorkspaces:
    """Makes for given inputs what a workspace without any history holds, each once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[tuple[str, str], ...], dict[str, Any]] = {}

    def describe(self, inputs: Inputs) -> dict[str, Any]:
        key = tuple(sorted(inputs.items()))
        if key not in self._known:
            root = self._folder / f"fresh-{len(self._known)}"
            write_inputs(root, inputs)
            run_pipeline(open_workspace(root))
            self._known[key] = describe(root)
            shutil.rmtree(root)
        return self._known[key]
