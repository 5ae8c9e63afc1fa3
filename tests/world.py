"""A small workspace: its inputs, what may happen to it, and what a reader can see of it afterwards.

``python -m tests.world WORKSPACE MOMENT WORDS...`` is ``backstory WORDS`` that ends itself by SIGKILL at one of the
moments at which it touches a file in the folder of the workspace or beside it.
"""

import os
import random
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from backstory import run_pipeline
from backstory.index.snapshot import CHUNKS_FILE, DOCUMENTS_FILE, VECTORS_FILE, current_version, read_manifest
from backstory.interfaces.cli.app import main as run_command
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES
from backstory.storage.tables.views import VIEWS_FILE, query_views
from backstory.writing.post_files import inspect_file
from tests.forms import SHARED
from tests.started_python import run_python
from tests.workspaces import CHAT, POSTS, SETTINGS, run_workspace

Inputs = Mapping[str, str]
"""Text of each input file by its path in the workspace."""

ROOT = Path(__file__).resolve().parents[1]
SECRET = "5e" * 32
RENAMED = "renamed-"
"""How the name of a copy of a post begins that a person made."""
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
    """Make the inputs of a workspace exactly these, with what people wrote into the folder of the posts.

    What was made of former inputs stays, as does what the workspace shares.
    """
    settings = root / "backstory.yaml"
    written = settings.read_text(encoding="utf-8").splitlines(keepends=True) if settings.exists() else []
    for name in ("chats/", "posts/", *inputs):
        (root / name if name.endswith("/") else (root / name).parent).mkdir(parents=True, exist_ok=True)
    of_people = [path for path in list_posts(root) if RENAMED in path.name or inspect_file(path) == "edited"]
    for path in [*(root / "chats").iterdir(), *(root / "posts").iterdir(), *of_people]:
        if path.relative_to(root).as_posix() not in inputs:
            path.unlink()
    secret = root / ".backstory" / "secret.key"
    if not secret.exists():
        secret.parent.mkdir(exist_ok=True)
        secret.write_text(f"{SECRET}\n", encoding="ascii")
        secret.chmod(0o600)
    if LEARNED not in inputs:
        (root / LEARNED).unlink(missing_ok=True)
    for name, text in inputs.items():
        (root / name).write_text(text, encoding="utf-8")
    with settings.open("a", encoding="utf-8") as kept:
        kept.writelines(line for line in written if line.startswith(SHARED))


def run(root: Path) -> Run:
    """Do what `backstory run` does over all days."""
    workspace = open_workspace(root)
    return run_workspace(workspace, find_wanted(workspace, None, None))


def run_one_day(root: Path, rng: random.Random) -> None:
    """Run over one of the days alone."""
    workspace = open_workspace(root)
    run_workspace(workspace, [rng.choice(find_wanted(workspace, None, None))])


def run_and_kill(root: Path, moment: int, *words: str) -> None:
    """Run a command in a process of its own, and kill it at a moment; one after its end kills nothing."""
    ended = run_python(["-m", "tests.world", str(root), str(moment), *(words or ("run",))], cwd=ROOT)
    assert ended.returncode == -signal.SIGKILL or "Traceback" not in ended.stderr, ended.stderr


def list_posts(root: Path) -> list[Path]:
    """List the files in the folder of the posts, but for drafts beside those of people."""
    return sorted(path for path in (root / "written").glob("*.md") if not path.name.endswith(".draft.md"))


def flip(path: Path) -> None:
    """Flip one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    """Cut a file in the middle."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


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


def find_differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Give what was found and what was wanted, where these differ."""
    return {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}


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
        """Give what a workspace of these inputs holds after its first run."""
        key = tuple(sorted(inputs.items()))
        if key not in self._known:
            root = self._folder / f"fresh-{len(self._known)}"
            write_inputs(root, inputs)
            run_pipeline(open_workspace(root))
            self._known[key] = describe(root)
            shutil.rmtree(root)
        return self._known[key]


_TOUCHES = (
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.link",
    "os.rmdir",
    "shutil.rmtree",
    "sqlite3.connect",
)


def main() -> None:
    root, moment, words = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    beside = str(Path(root).parent)
    touched = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal touched
        if event in _TOUCHES and beside in str(arguments):
            if touched == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            touched += 1

    sys.addaudithook(count)
    sys.argv[1:] = [*words, "--workspace", root]
    run_command()


if __name__ == "__main__":
    main()
