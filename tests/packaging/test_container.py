"""The container of the service: what it copies exists, what it runs is a command, and it opens nothing to others."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from dagster._cli.api import api_cli
from pathspec import GitIgnoreSpec
from ruamel.yaml import YAML
from typer.core import TyperGroup

from backstory.base.extras import MODULES
from backstory.interfaces.cli.app import app as backstory_app
from backstory.pipeline.workspace import Workspace
from backstory.settings.yaml_file import read_settings
from pipelines.instance import prepare_home

ROOT = Path(__file__).resolve().parents[2]
WORKERS = ROOT / "deploy" / "workers"
LINES = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()


def instructions(name: str) -> list[str]:
    return [line.removeprefix(name).strip() for line in LINES if line.startswith(f"{name} ")]


def test_every_copied_path_exists_and_is_sent_to_the_build() -> None:
    ignored = GitIgnoreSpec.from_lines(
        (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    )
    sources = [
        name for line in instructions("COPY") if not line.startswith("--from") for name in line.split()[:-1]
    ]
    assert sources
    for name in sources:
        path = ROOT / name
        assert path.exists()
        files = [path] if path.is_file() else sorted(path.rglob("*.py"))
        assert not any(ignored.match_file(file.relative_to(ROOT).as_posix()) for file in files)
    assert ignored.match_file(".venv/bin/python")
    assert ignored.match_file(".git/config")


def test_the_wheel_is_installed_with_extras_that_exist() -> None:
    assert '"backstory[${EXTRAS}] @' in "\n".join(LINES)
    [served] = [line.removeprefix("EXTRAS=").split(",") for line in instructions("ARG") if "EXTRAS" in line]
    working = read_workers()["services"]["worker"]["build"]["args"]["EXTRAS"].split(",")
    assert {*served, *working} <= set(MODULES)
    assert "serve" in served
    assert {"celery", "dagster", "postgres", "s3"} <= set(working)


def test_the_command_exists_and_its_key_lies_outside_of_the_tenants() -> None:
    assert instructions("ENTRYPOINT") == ['["backstory"]']
    [command] = [json.loads(line) for line in instructions("CMD") if "--root" in line]
    group = typer.main.get_command(backstory_app)
    assert isinstance(group, TyperGroup)
    options = {option for parameter in group.commands[command[0]].params for option in parameter.opts}
    assert {word for word in command if word.startswith("--")} <= options
    root, key = (Path(command[command.index(name) + 1]) for name in ("--root", "--key-file"))
    assert not key.is_relative_to(root)
    [volumes] = [json.loads(line) for line in instructions("VOLUME")]
    assert {str(root), str(key.parent)} == set(volumes)


def test_it_does_not_run_as_root() -> None:
    assert instructions("USER")[-1].isdigit()
    assert int(instructions("USER")[-1]) > 0


def read_workers() -> dict[str, Any]:
    composed: dict[str, Any] = YAML(typ="safe").load((WORKERS / "compose.yaml").read_text(encoding="utf-8"))
    return composed


def test_the_composed_machines_share_servers_and_the_folder_of_the_workspace() -> None:
    composed = read_workers()
    machines = [composed["services"][name] for name in ("daemon", "webserver", "worker")]
    for machine in machines:
        workspace, *files = machine["volumes"]
        assert workspace.endswith(f":{machine['environment']['BACKSTORY_WORKSPACE']}")
        for volume in files:
            source, place, mode = volume.split(":")
            assert (WORKERS / source).is_file()
            assert place.startswith("/srv/dagster/")
            assert mode == "ro"
        assert machine["cap_drop"] == ["ALL"]
        assert machine["environment"] == machines[0]["environment"]
    for service in composed["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert set(service.get("depends_on", [])) <= set(composed["services"])
    assert (WORKERS / composed["services"]["worker"]["build"]["context"]).resolve() == ROOT


def test_the_settings_of_the_composed_machines_are_right(workspace: Workspace) -> None:
    worker = read_workers()["services"]["worker"]
    environment = worker["environment"]
    assert "--disable-prefetch" in worker["command"]
    prepared = {name: value for name, value in prepare_home(workspace).items() if name.startswith("DAGSTER_")}
    assert {name: environment[name] for name in prepared} == {**prepared, "DAGSTER_HOME": "/srv/dagster"}
    named = YAML(typ="safe").load((WORKERS / "dagster.yaml").read_text(encoding="utf-8"))
    launcher = named["run_launcher"]["config"]
    wanted = (named["storage"]["postgres"]["postgres_url"], launcher["broker"], launcher["backend"])
    assert {variable["env"] for variable in wanted} <= set(environment)
    assert named["run_launcher"]["module"] == "backstory_pipelines.dagster_internals.celery_launcher"
    storage = read_settings(WORKERS / "backstory.yaml").storage
    assert storage.database
    assert storage.files


def test_dagsters_machines_have_no_entrypoint_and_no_check_of_the_service() -> None:
    machine = read_workers()["services"]["worker"]["build"]["target"]
    [begin] = [number for number, line in enumerate(LINES) if line.endswith(f" AS {machine}")]
    [end] = [number for number, line in enumerate(LINES) if line == f"FROM {machine}"]
    stage = {line.split(" ")[0] for line in LINES[begin:end]}
    assert "USER" in stage
    assert not stage & {"ENTRYPOINT", "HEALTHCHECK", "EXPOSE", "VOLUME"}


def test_the_chart_gets_the_settings_of_the_composed_machines() -> None:
    yaml = YAML(typ="safe")
    values = yaml.load((WORKERS / "helm-values.yaml").read_text(encoding="utf-8"))
    named = yaml.load((WORKERS / "dagster.yaml").read_text(encoding="utf-8"))
    daemon = values["dagsterDaemon"]
    # A pod may wait for a machine that is still starting, and a task in the broker for a worker.
    del daemon["runMonitoring"]["startTimeoutSeconds"], named["run_monitoring"]["start_timeout_seconds"]
    del named["concurrency"]["runs"]
    assert daemon["runMonitoring"] == name_as_chart(named["run_monitoring"])
    assert daemon["runRetries"] == name_as_chart(named["run_retries"])
    assert values["concurrency"] == {"enabled": True, **name_as_chart(named["concurrency"])}
    assert values["pythonLogs"] == name_as_chart(named["python_logs"])
    assert values["retention"] == {"enabled": True, **name_as_chart(named["retention"])}
    [deployment] = values["dagster-user-deployments"]["deployments"]
    words = deployment["dagsterApiGrpcArgs"]
    options = {option for parameter in api_cli.commands["grpc"].params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options
    given = {each["name"]: each["value"] for each in daemon["env"] + deployment["env"]}
    composed = read_workers()["services"]["worker"]
    assert given.items() <= composed["environment"].items()
    prepared = {name for name in composed["environment"] if name.startswith("DAGSTER_")}
    assert prepared - given.keys() == {"DAGSTER_HOME", "DAGSTER_POSTGRES_URL"}  # the chart sets them itself


def name_as_chart(settings: Any) -> Any:
    """Name settings as the chart of Dagster does, which writes ``max_retries`` as ``maxRetries``."""
    if not isinstance(settings, dict):
        return settings
    return {
        name.split("_")[0] + "".join(word.capitalize() for word in name.split("_")[1:]): name_as_chart(value)
        for name, value in settings.items()
    }


@pytest.fixture(name="service")
def read_service() -> dict[str, Any]:
    composed = YAML(typ="safe").load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    [service] = composed["services"].values()
    assert {volume.split(":")[0] for volume in service["volumes"]} == set(composed["volumes"])
    return dict(service)


def test_the_composed_service_listens_on_this_machine_alone_and_has_no_rights(
    service: dict[str, Any],
) -> None:
    assert service["ports"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert "privileged" not in service


def test_what_is_written_outlives_the_composed_container(service: dict[str, Any]) -> None:
    [volumes] = [json.loads(line) for line in instructions("VOLUME")]
    kept = {volume.split(":")[1] for volume in service["volumes"]}
    assert set(volumes) <= kept
    assert (ROOT / "deploy" / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).is_file()
