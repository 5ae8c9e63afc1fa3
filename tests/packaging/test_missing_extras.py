"""What a person sees who uses a feature without the packages of its extra: one line that says what to install."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from backstory.base.extras import MODULES, Extra
from backstory.pipeline.incremental.report import UNREAD_STATUSES
from tests.ingest.documents.office_files import make_zip, paragraph, word_parts
from tests.workspaces import POSTS, SETTINGS, write_workspace

ROOT = Path(__file__).resolve().parents[2]
RunWithout = Callable[..., list[tuple[int, str, str]]]

OF_SERVER = "model: tiny"

RUNS: Final[dict[Extra, tuple[str, ...]]] = {
    "openai": (
        f"embedding: {{provider: openai, {OF_SERVER}}}",
        f"rerank: {{provider: openai, {OF_SERVER}}}",
        f"writers: {{provider: openai, {OF_SERVER}}}",
        f'writers: {{provider: openai, {OF_SERVER}, feedback: "on"}}',
    ),
    "gemini": (
        "embedding: {provider: gemini}",
        "rerank: {provider: gemini}",
        "writers: {provider: gemini}",
    ),
    "postgres": ("storage: {database: 'postgresql:///backstory'}",),
    "milvus": ("index: {engine: milvus, uri: 'http://127.0.0.1:9'}",),
    "multilingual": ("embedding: {model: multilingual}",),
    "remote": (
        "documents: {sources: [{url: 's3://notes/wiki', name: one}]}",
        "documents: {sources: [{urls: ['http://127.0.0.1:9/a.html'], name: one}]}",
    ),
    "drive": ("documents: {sources: [{drive: {folder: abc}, name: one}]}",),
}
"""Settings with which `backstory run` needs an extra."""

SUMMARIES: Final[dict[Extra, str]] = {
    "openai": f"summaries: {{provider: openai, {OF_SERVER}}}",
    "gemini": "summaries: {provider: gemini}",
}

OPEN: Final = (
    "from pathlib import Path\n"
    "from backstory.pipeline.workspace import open_workspace\n"
    "open_workspace(Path({root!r})).{name}"
)

ASK_TOOL: Final = (
    "from backstory.interfaces.adapters.rag_config import VectorStoreConfig as Store\n"
    "from backstory.interfaces.adapters.remote_search import RemoteTool\n"
    "RemoteTool(Store('mcp', mcp_server='http://127.0.0.1:9/mcp', mcp_tool='search')).ask('frost', 1)"
)

LIST_USERS: Final = (
    "from backstory.interfaces.cli.app import app\n"
    "app(['serve', 'user', 'list', '--root', '.'], standalone_mode=False)"
)

USES: Final[dict[Extra, tuple[str, ...]]] = {
    "celery": ("import pipelines.dagster_internals.celery_launcher",),
    "dagster": ("import backstory.interfaces.dagster_specs",),
    "ibis": (
        "from pathlib import Path; from backstory.storage.tables.views import connect; connect(Path())",
    ),
    "langchain": ("import backstory.interfaces.adapters.langchain",),
    "llamaindex": ("import backstory.interfaces.adapters.llamaindex",),
    "mcp": (
        "import sys; from backstory.interfaces.cli.app import app; app(['mcp'], standalone_mode=False)",
        ASK_TOOL,
    ),
    "s3": ("from backstory.storage.stores import Bucket; Bucket('s3://bucket/prefix')",),
    "serve": (LIST_USERS,),
}
"""Programs that need an extra."""


HIDE = """
import sys
from importlib.abc import MetaPathFinder


class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == module or name.startswith(module + ".") for module in {modules}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent())
"""


@pytest.fixture
def run_without(tmp_path: Path) -> RunWithout:
    """Give a function that runs command lines in a process, whose processes find modules absent, or all of an extra."""

    def run(
        absent: Extra | tuple[str, ...], lines: list[list[str]], **environment: str
    ) -> list[tuple[int, str, str]]:
        hidden = tmp_path / "hidden"
        hidden.mkdir(exist_ok=True)
        modules = absent if isinstance(absent, tuple) else MODULES[absent]
        (hidden / "sitecustomize.py").write_text(HIDE.format(modules=modules), encoding="utf-8")
        result = subprocess.run(
            [sys.executable, "-m", "tests.packaging.command_lines", json.dumps(lines)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(hidden), "GEMINI_API_KEY": "key", **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return [(code, printed, said) for code, printed, said in json.loads(result.stdout)]

    return run


def list_uses(extra: Extra, tmp_path: Path) -> list[list[str]]:
    """List the command lines that need an extra, and make their workspaces."""
    lines: list[list[str]] = []
    for number, settings in enumerate(RUNS.get(extra, ())):
        group = settings.partition(":")[0]
        others = "".join(
            line for line in SETTINGS.splitlines(keepends=True) if not line.startswith(f"{group}:")
        )
        root = write_workspace(tmp_path / str(number), f"{others}{settings}\n").root
        lines.append(["run", "--workspace", str(root)])
    if extra in SUMMARIES:
        root = write_workspace(tmp_path / "summaries", f"{SETTINGS}{SUMMARIES[extra]}\n").root
        lines.append(["-c", OPEN.format(root=str(root), name="summarizer")])
        answers = SUMMARIES[extra].replace("summaries", "answers")
        root = write_workspace(tmp_path / "answers", f"{SETTINGS}{answers}\n").root
        lines.append(["-c", OPEN.format(root=str(root), name="answer_models")])
    return [*lines, *(["-c", program] for program in USES.get(extra, ()))]


USED: Final = sorted({*RUNS, *SUMMARIES, *USES})


@pytest.mark.parametrize(
    ("extras", "absent"),
    [
        pytest.param(USED, tuple(module for extra in USED for module in MODULES[extra]), id="all"),
        *(pytest.param([extra], MODULES[extra], id=extra, marks=pytest.mark.long) for extra in USED),
    ],
)
def test_the_absence_of_an_extra_is_told_before_any_work_is_done(
    extras: list[Extra], absent: tuple[str, ...], tmp_path: Path, run_without: RunWithout
) -> None:
    uses = [(extra, line) for extra in extras for line in list_uses(extra, tmp_path / extra)]
    told = run_without(absent, [line for _, line in uses])
    for (extra, line), (code, _, said) in zip(uses, told, strict=True):
        assert (code, said.count("\n")) == (1, 1), (line, said)
        assert f"pip install 'backstory[{extra}]'" in said, line
    assert {path.parent.name for path in tmp_path.glob("*/*/data/*/*.parquet")} <= {"runs"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "module"),
    [
        (extra, module)
        for extra in sorted({*RUNS, *SUMMARIES, *USES})
        for module in MODULES[extra]
        if len(MODULES[extra]) > 1
    ],
)
def test_the_absence_of_one_package_of_an_extra_is_told_by_its_name(
    extra: Extra, module: str, tmp_path: Path, run_without: RunWithout
) -> None:
    lines = list_uses(extra, tmp_path)
    for line, (code, _, said) in zip(lines, run_without((module,), lines), strict=True):
        assert (code, said.count("\n")) == (1, 1), (line, said)
        assert f"needs the Python package {module}, which is not installed" in said, line
        assert f"pip install 'backstory[{extra}]'" in said, line


FILES: Final[dict[Extra, tuple[str, bytes]]] = {
    "office": ("plan.docx", make_zip(word_parts(paragraph("Frost in the garden.")))),
    "code": ("garden.ts", b"export const bed = 1;\n"),
}


def test_a_file_that_needs_an_absent_extra_is_named_and_the_others_are_read(
    tmp_path: Path, run_without: RunWithout
) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    for name, content in FILES.values():
        (workspace.documents_dir / name).write_bytes(content)
    absent = tuple(module for extra in FILES for module in MODULES[extra])
    [(code, _, said)] = run_without(absent, [["run", "--workspace", str(workspace.root)]])
    sources = workspace.tables.read("sources")
    statuses = set()
    for extra, (name, _) in FILES.items():
        [row] = sources.filter(pl.col("source").str.contains(name)).to_dicts()
        assert f"pip install 'backstory[{extra}]'" in row["reason"]
        statuses.add(row["status"])
    assert code == (3 if statuses & set(UNREAD_STATUSES) else 0), said
    assert workspace.tables.read("documents").filter(status="ok").height >= len(POSTS)


def test_traces_that_need_an_absent_extra_are_left_out_with_a_warning(
    tmp_path: Path, run_without: RunWithout
) -> None:
    root = write_workspace(tmp_path / "workspace").root
    lines = [["run", "--workspace", str(root)]]
    [(code, _, said)] = run_without("otel", lines, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert code == 0, said
    assert "pip install 'backstory[otel]'" in said


def test_a_copy_onto_servers_needs_no_package_of_the_service(tmp_path: Path, run_without: RunWithout) -> None:
    root, store = write_workspace(tmp_path / "workspace").root, (tmp_path / "store").as_uri()
    lines = [["storage", "copy", "--to", store, "--workspace", str(root)]]
    [(code, _, said)] = run_without("serve", lines)
    assert code == 0, said
    assert (tmp_path / "store" / "current.json").is_file()


def test_every_extra_is_tried() -> None:
    assert {*RUNS, *SUMMARIES, *USES, *FILES, "otel"} == set(MODULES)
