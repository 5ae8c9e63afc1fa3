"""What rests on private names of Dagster: the release in use still has them, and each is where the README says."""

import ast
import inspect
import tomllib
from pathlib import Path

import dagster as dg
import pytest
from dagster._cli import dev as dagster_dev
from dagster._core.definitions import data_version
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.storage import tags as dagster_tags
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._daemon import backfill, controller
from dagster._daemon.auto_run_reexecution import auto_run_reexecution
from dagster_webserver import cli as webserver

from assets import tags
from backstory.base.errors import WorkspaceError
from pipelines import definitions
from pipelines.dagster_internals.event_log import BatchedEventLog, WorkspaceStorage
from pipelines.dagster_internals.run_launcher import WatchedRunLauncher
from pipelines.instance import keep_connections
from tests.errors import raises
from tests.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "pipelines" / "dagster_internals"


def names_of_dagster(path: Path) -> list[str]:
    """List the modules of Dagster that a file imports and whose names begin with an underscore."""
    modules = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            modules.append(node.module)
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    return [name for name in modules if name.startswith(("dagster._", "dagster_shared"))]


def test_private_names_of_dagster_stay_in_one_folder() -> None:
    paths = [*(ROOT / "assets").rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")]
    found = {path for path in paths if names_of_dagster(path)}
    assert found
    assert {path.relative_to(ROOT) for path in found if path.parent != FOLDER} == set()


def test_every_file_of_the_folder_is_in_its_readme() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in FOLDER.glob("*.py") if f"`{path.name}`" not in readme] == ["__init__.py"]


def test_the_tags_are_those_of_the_release() -> None:
    asset = dg.AssetKey(["here", "hits"])
    assert tags.DATA_VERSION == data_version.DATA_VERSION_TAG
    assert tags.CODE_VERSION == data_version.CODE_VERSION_TAG
    assert tags.DATA_VERSION_IS_USER_PROVIDED == data_version.DATA_VERSION_IS_USER_PROVIDED_TAG
    assert f"{tags.INPUT_VERSION}here/hits" == data_version.get_input_data_version_tag(asset)
    assert f"{tags.INPUT_POINTER}here/hits" == data_version.get_input_event_pointer_tag(asset)
    assert data_version.DEFAULT_DATA_VERSION.value == tags.UNKNOWN_VERSION
    assert (tags.PARTITION, tags.RANGE_START, tags.RANGE_END, tags.BACKFILL) == (
        dagster_tags.PARTITION_NAME_TAG,
        dagster_tags.ASSET_PARTITION_RANGE_START_TAG,
        dagster_tags.ASSET_PARTITION_RANGE_END_TAG,
        dagster_tags.BACKFILL_ID_TAG,
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BatchedEventLog, SqliteEventLogStorage),
        (WorkspaceStorage, DagsterSqliteStorage),
        (WatchedRunLauncher, DefaultRunLauncher),
    ],
)
def test_every_method_replaces_one_of_the_release(ours: type, theirs: type) -> None:
    for name, method in vars(ours).items():
        if name.startswith("_") or not (callable(method) or isinstance(method, property)):
            continue
        replaced = inspect.getattr_static(theirs, name)
        assert isinstance(method, property) == isinstance(replaced, property), name
        if inspect.isfunction(method):
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(replaced).parameters
            ), name


def test_what_is_replaced_under_dagster_dev_is_used_there() -> None:
    started = inspect.getsource(dagster_dev.dev_command_impl)
    assert started.count("open_ipc_subprocess(") == 2
    assert '[sys.executable, "-m", "dagster_webserver"]' in started
    assert '"dagster._daemon",\n                    "run",' in started
    serving = inspect.getsource(webserver.host_dagster_ui_with_workspace_process_context)
    assert "app = create_app_from_workspace_process_context(" in serving
    assert "import DEFAULT_DAEMON_INTERVAL_SECONDS" in inspect.getsource(backfill)
    assert controller.DEFAULT_DAEMON_INTERVAL_SECONDS > 0
    assert "BULK_ACTION_TERMINAL_STATUSES" in inspect.getsource(auto_run_reexecution.should_retry)


def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {f"{name}=={definitions.TESTED_RELEASE}" for name in ("dagster", "dagster-webserver")}
    assert set(project["optional-dependencies"]["dagster"]) == pinned
    definitions.require_tested_release()
    monkeypatch.setattr(definitions, "installed", "1.13.28")
    with raises(WorkspaceError, "untested_dagster"):
        definitions.require_tested_release()


def test_kept_connections_are_replaced_where_their_server_has_started_again(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    address = postgres_server.make_address().replace("postgresql://", "postgresql+psycopg2://")
    (tmp_path / "dagster.yaml").write_text(
        f"storage: {{postgres: {{postgres_url: '{address}'}}}}\n", encoding="utf-8"
    )
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        keep_connections(instance)
        for _ in range(2):
            instance.report_runless_asset_event(dg.AssetMaterialization("messages"))
            postgres_server.stop()
            postgres_server.start()
        assert len(instance.fetch_materializations(dg.AssetKey("messages"), limit=3).records) == 2
