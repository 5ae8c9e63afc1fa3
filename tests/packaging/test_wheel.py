"""The wheel works where there is no checkout and nothing but what it requires, with and without its extras."""

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from tests.long_tests import LONG_TESTS
from tests.packaging.installation import ROOT, Installation, build_wheel, install
from tests.workspaces import SETTINGS


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Installation:
    """The wheel without any extra."""
    return install(wheel, tmp_path_factory.mktemp("plain"), [], model_cache)


@pytest.fixture(scope="module")
def with_dagster(wheel: Path, tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Installation:
    """The wheel with what a code location needs."""
    return install(wheel, tmp_path_factory.mktemp("dagster"), ["dagster", "ibis"], model_cache)


def test_the_wheel_holds_the_library_and_the_code_location_of_dagster(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    held = {name for name in names if ".dist-info/" not in name}
    here = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "backstory").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    location = {
        f"backstory_{path.relative_to(ROOT).as_posix()}"
        for package in ("assets", "pipelines")
        for path in (ROOT / package).rglob("*.py")
    }
    assert held == here | location | {"backstory_pipelines/dagster.yaml"}
    assert "backstory/py.typed" in held
    licences = {name.rpartition("/")[2] for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}
    assert "backstory/interfaces/pages/report/templates/page.html" in held


def test_the_environment_holds_neither_the_checkout_nor_what_only_extras_need(plain: Installation) -> None:
    unwanted = ["assets", "pipelines", "tests", "dagster", "google.genai", "ibis", "pandas"]
    code = f"""
import importlib, backstory
print(backstory.__file__)
for name in {unwanted}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        continue
    print(name)
"""
    assert plain.run("python", "-c", code).stdout.splitlines() == [
        str(next(plain.bin.parent.glob("lib/*/site-packages/backstory/__init__.py")))
    ]


def run(installation: Installation, *arguments: str) -> str:
    result = installation.run("backstory", *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


# One process looks, since to start one takes longer than to look.
LOOKS = """
import json
from typer.testing import CliRunner
from backstory.interfaces.cli.app import app

def look(*words):
    done = CliRunner().invoke(app, [*words, "-w", "mychat"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout

windows = look("windows", "--json")
first = json.loads(windows)[0]["window_id"]
context, page = look("context", first, "--json"), look("report", first)
print(json.dumps([windows, context, page, look("search", "a clicking disk", "--json")]))
"""


def test_a_workspace_is_made_run_and_read_by_the_wheel_alone(
    plain: Installation, workspace: Workspace
) -> None:
    folder = plain.working_folder / "mychat"
    run(plain, "init", "mychat")
    for content in (workspace.chats_dir, workspace.documents_dir):
        for file in content.iterdir():
            (folder / content.name / file.name).write_bytes(file.read_bytes())

    run(plain, "run", "--workspace", "mychat")

    looked = plain.run("python", "-c", LOOKS)
    assert looked.returncode == 0, looked.stderr
    windows, context, page, found = json.loads(looked.stdout)
    assert [window["status"] for window in json.loads(windows)] == ["ok", "ok"]
    assert "A backup disk" in json.loads(context)["text"]
    assert "<html" in Path(page.strip()).read_text(encoding="utf-8")
    assert "backup-disk" in found


ABSENT = {
    "dagster": "import backstory.interfaces.dagster_specs",
    "gemini": "from backstory.interfaces.original import embedders; embedders.resolve_embedder('gemini-embedding-001')",
    "ibis": "from backstory.storage.tables.views import connect; from pathlib import Path; connect(Path())",
    "multilingual": "from backstory.interfaces.original import embedders; embedders.resolve_embedder('multilingual')",
}


def test_what_is_not_installed_is_told_by_the_name_of_its_extra(plain: Installation) -> None:
    code = f"""
import os
os.environ["GEMINI_API_KEY"] = "key"
from backstory.base.errors import MissingExtraError
for extra, program in {ABSENT}.items():
    try:
        exec(program)
    except MissingExtraError as error:
        print(extra, f"pip install 'backstory[{{extra}}]'" in str(error))
"""
    assert plain.run("python", "-c", code).stdout.splitlines() == [f"{extra} True" for extra in ABSENT]


# A run of the wheel, in which Backstory's own location reports other rows of a day, and the newsletter follows.
LETTERS = """
import json, os, sys
os.environ["BACKSTORY_WORKSPACE"] = "mychat"

import dagster as dg
import newsletter

key, instance, told = newsletter.newsletter.key, dg.DagsterInstance.ephemeral(), []


def report(table, version):
    event = dg.AssetMaterialization(table, partition="2025-03-15", tags={"dagster/data_version": version})
    instance.report_runless_asset_event(event)


def evaluate(cursor):
    found = dg.evaluate_automation_conditions(newsletter.defs, instance, cursor=cursor)
    told.append(sorted(found.get_requested_partitions(key)))
    return found.cursor


cursor = evaluate(None)
for table, version in (("window_contexts", "1"), ("window_contexts", "1"), ("posts", "1")):
    report(table, version)
    cursor = evaluate(cursor)
job = newsletter.defs.resolve_implicit_global_asset_job_def()
assert job.execute_in_process(instance=instance, partition_key=told[1][0]).success
read = [name for name in ("assets", "pipelines", "tests") if name in sys.modules]
print(json.dumps({"told": told, "read": read, "backstory": newsletter.asset_specs.__code__.co_filename}))
"""


def test_the_wheel_runs_in_dagster_without_a_checkout(
    with_dagster: Installation, workspace: Workspace
) -> None:
    folder = with_dagster.working_folder / "family"
    workspace.root.rename(folder)
    # A project's own package of this name is none of the wheel's.
    (with_dagster.working_folder / "assets.py").write_text("raise AssertionError\n", encoding="utf-8")
    exports = run(with_dagster, "dagster", "init", "-w", "family").splitlines()
    home = folder / ".dagster"
    assert exports[:2] == [f"export DAGSTER_HOME={home}", f"export BACKSTORY_WORKSPACE={folder}"]
    settings = (home / "dagster.yaml").read_text(encoding="utf-8")
    assert "module: backstory_pipelines.dagster_internals.event_log" in settings

    if LONG_TESTS:
        run(with_dagster, "dagster", "materialize", "-w", "family")
        assert open_workspace(folder).tables.read("window_contexts")["status"].to_list() == ["ok"] * 3
    loaded = with_dagster.run("python", "-c", LOADED, str(folder))
    assert loaded.returncode == 0, loaded.stderr
    assert json.loads(loaded.stdout.splitlines()[-1]) == {
        "runs": int(LONG_TESTS),
        "location": "backstory",
        "foreign": [],
    }


# The workspace file that `init` has written leads Dagster to the location, whose history holds the run of a long test.
LOADED = """
import json, os, sys
from pathlib import Path

root = Path(sys.argv[1])
os.environ.update(DAGSTER_HOME=str(root / ".dagster"), BACKSTORY_WORKSPACE=str(root))

import dagster as dg
from dagster._core.workspace.load import location_origins_from_yaml_paths

[location] = location_origins_from_yaml_paths([str(root / "workspace.yaml")])
__import__(location.loadable_target_origin.module_name)
import backstory_pipelines.materialization
with dg.DagsterInstance.get() as instance:
    runs = len(instance.get_run_records())
foreign = [name for name in ("assets", "pipelines") if name in sys.modules]
print(json.dumps({"runs": runs, "location": location.location_name, "foreign": foreign}))
"""


@pytest.mark.long
def test_another_code_location_builds_on_the_tables(
    with_dagster: Installation, make_workspace: Callable[..., Workspace]
) -> None:
    workspace = make_workspace(f"{SETTINGS}writers: {{provider: digest}}\n")
    run_pipeline(workspace)
    folder = with_dagster.working_folder
    workspace.root.rename(folder / "mychat")
    (folder / "newsletter.py").write_bytes((ROOT / "examples" / "newsletter" / "newsletter.py").read_bytes())
    result = with_dagster.run("python", "-c", LETTERS)
    assert result.returncode == 0, result.stdout + result.stderr
    answer = json.loads(result.stdout.splitlines()[-1])
    # A week is due by other contexts or posts of one of its days, and not by the same ones again.
    assert answer["told"] == [[], ["2025-03-10"], [], ["2025-03-10"]]
    assert answer["read"] == []
    assert answer["backstory"].startswith(str(with_dagster.bin.parent))
    letter = (folder / "letters" / "2025-03-10.html").read_text(encoding="utf-8")
    posts = open_workspace(folder / "mychat").tables.read("posts")
    assert posts.height == 3
    assert [letter.count((folder / "mychat" / path).as_uri()) for path in posts["path"]] == [1, 1, 1]
    assert "Week of 10 March 2025" in letter
