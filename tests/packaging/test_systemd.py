"""The units of systemd: the program of systemd finds nothing wrong with them, and their commands exist."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from backstory.interfaces.cli.app import app as backstory_app
from pipelines.__main__ import app as pipelines_app

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
UNITS = sorted(FOLDER.iterdir())
PROGRAMS = "/opt/backstory/.venv/bin/"


def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace(PROGRAMS, f"{Path(sys.executable).parent}/")
        # A user and a page that only the machine of the operator has.
        text = re.sub(r"^(User|Group|Documentation)=.*\n", "", text, flags=re.MULTILINE)
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    found = subprocess.run(
        ["systemd-analyze", "verify", *(tmp_path / unit.name for unit in UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "Failed to" in found.stderr and "manager" in found.stderr:
        pytest.skip(f"systemd-analyze does not work here: {found.stderr}")
    assert [line for line in found.stderr.splitlines() if "backstory-" in line] == []
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    "unit", [unit for unit in UNITS if unit.suffix == ".service"], ids=lambda unit: unit.name
)
def test_the_command_of_a_service_exists(unit: Path) -> None:
    [line] = re.findall(r"^ExecStart=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    program, *arguments = shlex.split(line.removeprefix(PROGRAMS))
    application = backstory_app
    assert program == "backstory"
    if arguments[0] == "dagster":
        application, arguments = pipelines_app, arguments[1:]
    group = typer.main.get_command(application)
    assert isinstance(group, TyperGroup)
    known = {option for parameter in group.commands[arguments[0]].params for option in parameter.opts}
    assert {word for word in arguments if word.startswith("--")} <= known


def test_every_timer_has_its_service() -> None:
    names = {unit.name for unit in UNITS}
    assert {unit.with_suffix(".service").name for unit in UNITS if unit.suffix == ".timer"} <= names
