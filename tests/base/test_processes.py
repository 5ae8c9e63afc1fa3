"""A process that has ended is told from one that lives, whoever has its number now."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from backstory.base.processes import has_ended, name_process

NAMES_ITSELF = "from backstory.base.processes import name_process; print(name_process(), flush=True); input()"
APART = ("unshare", "--user", "--map-root-user", "--fork", "--pid", "--mount-proc", "--kill-child")


def start(*before: str) -> subprocess.Popen[str]:
    command = [*before, sys.executable, "-c", NAMES_ITSELF]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read_name(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().removesuffix("\n")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """A process that waits."""
    if not name_process():
        pytest.skip("this system does not tell all that names a process")
    started = start()
    yield started
    started.kill()
    started.communicate()


def test_a_process_has_ended_once_it_is_killed_and_not_before(process: subprocess.Popen[str]) -> None:
    name = read_name(process)
    assert not has_ended(name_process())
    assert not has_ended(name)
    process.send_signal(signal.SIGSTOP)
    assert not has_ended(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is there until its parent asks for it
    assert has_ended(name)
    process.wait()
    assert has_ended(name)


def test_a_number_that_another_process_has_now_is_told_by_its_start(process: subprocess.Popen[str]) -> None:
    place, _, started = read_name(process).rpartition(" ")
    assert has_ended(f"{place} {int(started) - 1}")


def test_nothing_is_known_of_another_machine_or_of_an_earlier_start(process: subprocess.Popen[str]) -> None:
    name = read_name(process)
    process.kill()
    process.wait()
    machine, boot, namespace, number, started = name.split(" ")
    for other in (
        f"another {boot} {namespace} {number} {started}",
        f"{machine} {boot[::-1]} {namespace} {number} {started}",
        f"{machine} {boot} pid:[1] {number} {started}",
        "",
    ):
        assert not has_ended(other)


def test_a_container_is_another_place_on_the_same_machine() -> None:
    if shutil.which(APART[0]) is None:
        pytest.skip("unshare is not installed")
    with start(*APART) as process:
        name = read_name(process)
        process.kill()
        process.communicate()
    if not name:
        pytest.skip("this user may make no namespace of processes")
    assert not has_ended(name)
    assert name.split(" ")[:2] == name_process().split(" ")[:2]
