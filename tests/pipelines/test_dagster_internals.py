"""What rests on private names of Dagster: the release in use still has them, and the public API gives the same."""

import ast
import inspect
import shutil
import tomllib
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions import data_version
from dagster._core.launcher import DefaultRunLauncher
from dagster._core.storage import tags as dagster_tags
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster_webserver.webserver import DagsterWebserver

from assets import tags
from backstory.base.errors import SettingsError, WorkspaceError
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.workspace import Workspace
from pipelines import automation
from pipelines.dagster_internals import public_api
from pipelines.dagster_internals.batched_events import keep_connections
from pipelines.dagster_internals.event_log import BatchedEventLog, WorkspaceStorage
from pipelines.dagster_internals.instance import open_instance, prepare_home
from pipelines.dagster_internals.public_api import PUBLIC_VARIABLE
from pipelines.dagster_internals.run_launcher import WatchedRunLauncher
from pipelines.dagster_internals.ui import GuardedWebserver
from tests.errors import raises
from tests.long_tests import LONG_TESTS
from tests.pipelines.test_days import make_alone
from tests.postgres import PostgresServer
from tests.workspaces import run_job

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "pipelines" / "dagster_internals"
DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]


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


def test_a_queue_for_workers_needs_the_launcher_that_knows_them(tmp_path: Path) -> None:
    (tmp_path / "dagster.yaml").write_text(
        "run_coordinator: {module: pipelines.dagster_internals.celery_launcher, class: CeleryRunCoordinator}\n",
        encoding="utf-8",
    )
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance, pytest.raises(SettingsError) as error:
        instance.get_concurrency_config()
    assert error.value.code == "other_launcher"


def test_the_tags_are_those_of_the_release() -> None:
    asset = dg.AssetKey(["here", "hits"])
    assert tags.DATA_VERSION == data_version.DATA_VERSION_TAG
    assert tags.CODE_VERSION == data_version.CODE_VERSION_TAG
    assert tags.DATA_VERSION_IS_USER_PROVIDED == data_version.DATA_VERSION_IS_USER_PROVIDED_TAG
    assert tags.INPUT_POINTER_PREFIX == data_version.INPUT_EVENT_POINTER_TAG_PREFIX
    assert tags.NO_POINTER == data_version.NULL_EVENT_POINTER
    assert data_version.DEFAULT_DATA_VERSION.value == tags.UNKNOWN_VERSION
    assert tags.tag_input(asset, "v", "7") == {
        data_version.get_input_data_version_tag(asset): "v",
        data_version.get_input_event_pointer_tag(asset): "7",
    }
    assert (tags.PARTITION, tags.BACKFILL) == (
        dagster_tags.PARTITION_NAME_TAG,
        dagster_tags.BACKFILL_ID_TAG,
    )
    assert set(automation.UNFINISHED) == set(NOT_FINISHED_STATUSES)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (BatchedEventLog, SqliteEventLogStorage),
        (WorkspaceStorage, DagsterSqliteStorage),
        (WatchedRunLauncher, DefaultRunLauncher),
        (GuardedWebserver, DagsterWebserver),
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


def test_a_statement_is_compiled_for_the_first_of_many_connections(told: Workspace) -> None:
    with open_instance(told) as instance:
        storage = instance.event_log_storage
        assert isinstance(storage, BatchedEventLog)
        assert isinstance(instance.run_storage, SqlRunStorage)
        run, *_ = instance.get_run_ids()
        for connect in (
            instance.run_storage.connect,
            storage.index_connection,
            partial(storage.run_connection, run),
        ):
            with connect() as first:
                pass
            with connect() as second:
                assert second.engine is first.engine
                assert second is not first
            assert first.closed
            assert second.closed


def what_dagster_knows(workspace: Workspace) -> dict[str, dict[str, tuple[str | None, object]]]:
    """Return the data version and the rows of the latest event, by table and day."""
    known: dict[str, dict[str, tuple[str | None, object]]] = {}
    with open_instance(workspace) as instance:
        for stage in STAGES:
            key = dg.AssetKey(stage.table)
            for record in instance.fetch_materializations(key, limit=50).records:
                event = record.asset_materialization
                assert event is not None
                of_table = known.setdefault(stage.table, {})
                version = (event.tags or {}).get(tags.DATA_VERSION)
                of_table.setdefault(
                    event.partition or "all", (version, event.metadata["dagster/row_count"].value)
                )
    return known


def test_the_public_api_gives_dagster_the_same(told: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    known = what_dagster_knows(told)
    assert set(known) == {stage.table for stage in STAGES}
    assert set(known["windows"]) == {"2025-03-13", "2025-03-15"}
    shutil.rmtree(told.dagster_home)
    monkeypatch.setenv(PUBLIC_VARIABLE, "1")
    if LONG_TESTS:
        assert run_job(told, DAYS).failures == []
        assert what_dagster_knows(told) == known
    else:
        with open_instance(told) as instance:
            make_alone(told, instance, "messages", DAYS)
        assert what_dagster_knows(told) == {"messages": known["messages"]}


def test_the_settings_of_the_public_api_name_no_class_of_this_project(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PUBLIC_VARIABLE, "1")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    prepare_home(workspace)
    text = (workspace.dagster_home / "dagster.yaml").read_text(encoding="utf-8")
    assert "pipelines." not in text
    assert "run_monitoring:" in text
    with open_instance(workspace) as instance:
        assert not isinstance(instance.event_log_storage, BatchedEventLog)
        assert not isinstance(instance.run_launcher, WatchedRunLauncher)


def test_another_release_is_refused_unless_the_public_api_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {f"{name}=={public_api.TESTED_RELEASE}" for name in ("dagster", "dagster-webserver")}
    assert set(project["optional-dependencies"]["dagster"]) == pinned
    public_api.require_tested_release()
    monkeypatch.setattr(public_api, "installed", "1.13.28")
    with raises(WorkspaceError, "untested_dagster"):
        public_api.require_tested_release()
    monkeypatch.setenv(PUBLIC_VARIABLE, "1")
    public_api.require_tested_release()


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
