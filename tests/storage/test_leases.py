"""Leases of several machines: ranges, take-over after death, and tokens."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backstory.base.errors import LeaseError, StaleLeaseError
from backstory.storage.leases import EVERYTHING, Lease, Leases, Span, find_leases
from backstory.storage.tables.locks import find_holder, is_running, require_token, running, running_if_free
from tests.errors import raises
from tests.pipelines.ui_process import wait_for
from tests.postgres import PostgresServer, mounted
from tests.started_python import starting_ready

MARCH, APRIL = Span("2025-03-01", "2025-03-31"), Span("2025-04-01", "2025-04-30")
LONG = 3600.0


@pytest.fixture
def folder(tmp_path: Path, storage_address: str | None) -> Iterator[Path]:
    with mounted(tmp_path, storage_address):
        yield tmp_path


@pytest.fixture
def shared(tmp_path: Path, postgres_server: PostgresServer) -> Iterator[Path]:
    """A folder of a workspace on a server."""
    with mounted(tmp_path, postgres_server.make_address()):
        yield tmp_path


def take(leases: Leases, span: Span = EVERYTHING) -> Lease:
    taken = leases.try_to_take("run", span, "the test")
    assert isinstance(taken, Lease)
    return taken


def test_a_lease_excludes_those_that_overlap_and_no_others(folder: Path) -> None:
    mine, theirs = Leases(folder, LONG), Leases(folder, LONG)
    march = take(mine, MARCH)
    for span in (MARCH, EVERYTHING, Span("2025-03-31", "2025-04-02"), Span("2025-01-01", "2025-03-01")):
        assert isinstance(theirs.try_to_take("run", span, "another"), str)
    april = take(theirs, APRIL)
    assert isinstance(theirs.try_to_take("index", EVERYTHING, "another"), Lease)
    assert [found.is_live for found in mine.find("run")] == [True, True]
    mine.release(march)
    again = take(theirs, MARCH)
    assert march.token < april.token < again.token


def test_a_lease_that_is_not_renewed_is_taken_over_and_its_holder_refused(folder: Path) -> None:
    late = Leases(folder, 0.0)  # it is never renewed in time
    old = take(late, MARCH)
    assert [found.is_live for found in late.find("run")] == [False]
    assert late.require_token(old) == old.token  # nobody else has begun
    new = take(Leases(folder, LONG), Span("2025-03-05", "2025-03-05"))
    assert new.token > old.token
    with raises(StaleLeaseError, "stale_lease", token=old.token):
        late.require_token(old)
    late.release(old)
    assert isinstance(late.try_to_take("run", MARCH, "again"), str)


def test_a_holder_renews_its_lease_until_it_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leases, rival = Leases(folder, 0.0), Leases(folder, LONG)
    lease = take(leases)
    assert [found.is_live for found in rival.find("run")] == [False]
    monkeypatch.setattr(leases, "_seconds", LONG)  # the next renewal lasts
    wait_for(lambda: [found.is_live for found in rival.find("run")] == [True], "a renewal")
    assert isinstance(rival.try_to_take("run", EVERYTHING, "rival"), str)
    leases.release(lease)
    rival.release(take(rival))


def test_a_holder_that_lost_its_lease_stops_renewing(folder: Path) -> None:
    before, late = set(threading.enumerate()), Leases(folder, 0.0)
    take(late, MARCH)
    [thread] = set(threading.enumerate()) - before
    rival = Leases(folder, LONG)
    lease = take(rival, MARCH)
    thread.join(600)
    assert not thread.is_alive()
    rival.release(lease)


def test_leases_of_the_dead_are_forgotten_in_time(folder: Path) -> None:
    dead = Leases(folder, -8 * 86_400.0)
    old = dead.try_to_take("texts of one call", EVERYTHING, "dead")
    assert isinstance(old, Lease)
    dead.claim(old, [b"key"])
    assert len(dead.find("texts of one call")) == 1
    living = Leases(folder, LONG)
    take(living)
    assert living.find("texts of one call") == []


def test_a_key_is_claimed_by_one_until_its_lease_ends(folder: Path) -> None:
    leases = Leases(folder, LONG)
    first, second = (leases.take(name, EVERYTHING, name) for name in ("first", "second"))
    assert leases.claim(first, [b"a", b"b"]) == {b"a", b"b"}
    assert leases.claim(first, [b"a"]) == {b"a"}
    assert leases.claim(second, [b"b", b"c"]) == {b"c"}
    leases.disclaim(first, [b"b"])
    assert leases.claim(second, [b"a", b"b"]) == {b"b"}
    leases.release(first)
    assert leases.claim(second, [b"a"]) == {b"a"}


_HOLDER = """
import sys
from pathlib import Path
from backstory.base.mounts import mount
from backstory.storage import leases
from backstory.storage.tables.locks import running

mount(Path(sys.argv[1]), sys.argv[2])
leases.LEASE_SECONDS = float(sys.argv[3])
with running(Path(sys.argv[1]) / "data", "the other machine"):
    print("ready", flush=True)
    sys.stdin.readline()
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts another process, and waits until it is ready."""
    with starting_ready() as start:
        yield start


def test_another_machine_takes_over_from_a_process_that_was_killed(
    postgres_server: PostgresServer, tmp_path: Path, start: Start
) -> None:
    address = postgres_server.make_address()
    here, there = tmp_path / "here", tmp_path / "there"
    holder = start(_HOLDER, there, address, LONG)
    with mounted(here, address):
        tables = here / "data"
        assert is_running(tables)
        assert find_holder(tables) == "running"
        with running_if_free(tables, "not now") as is_free:
            assert not is_free
        holder.kill()
        holder.wait()
        leases = find_leases(tables)
        assert leases is not None
        with leases._database.writing() as session:  # no other machine sees that it has ended
            session.execute("UPDATE leases SET holder = 'the other machine'")
        waited: list[str] = []

        def note(found: str) -> threading.Lock:
            waited.append(found)
            with leases._database.writing() as session:  # its time passes
                session.execute("UPDATE leases SET expires = 0")
            return threading.Lock()

        with running(tables, "this machine", note):
            assert require_token(tables) == 2
        assert not is_running(tables)
        assert find_holder(tables) is None
    assert ["the other machine" in found for found in waited] == [True]


def test_a_process_of_this_machine_that_was_killed_is_taken_over_from_at_once(
    postgres_server: PostgresServer, tmp_path: Path, start: Start
) -> None:
    address = postgres_server.make_address()
    holder = start(_HOLDER, tmp_path, address, LONG)
    with mounted(tmp_path, address):
        tables = tmp_path / "data"
        holder.send_signal(signal.SIGSTOP)
        assert is_running(tables)
        leases = find_leases(tables)
        assert leases is not None
        assert isinstance(leases.try_to_take("run", MARCH, "too early"), str)
        holder.kill()
        holder.wait()
        assert not is_running(tables)
        assert find_holder(tables) == "killed"
        with running(tables, "this process"):
            assert require_token(tables) == 2
        assert find_holder(tables) is None


def test_a_worker_that_wakes_up_late_may_not_publish(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres_server.make_address()
    sleeper, rival = tmp_path / "sleeper", tmp_path / "rival"
    with mounted(sleeper, address), running(sleeper, "a run", span=MARCH):
        assert require_token(sleeper) == 1
        asleep = find_leases(sleeper)
        assert asleep is not None
        monkeypatch.setattr(asleep, "_seconds", 0.0)
        require_token(sleeper)  # the last renewal before it falls asleep
        with mounted(rival, address):
            assert isinstance(Leases(rival, LONG).try_to_take("run", EVERYTHING, "rival"), Lease)
        with raises(StaleLeaseError, "stale_lease"):
            require_token(sleeper)


def test_machines_run_at_once_over_other_partitions(shared: Path) -> None:
    one, two = shared / "one", shared / "two"
    with running(one, "a run", span=MARCH), running(two, "a run", span=APRIL):
        assert (require_token(one), require_token(two)) == (1, 2)


def test_one_machine_needs_no_lease(tmp_path: Path) -> None:
    with running(tmp_path / "data", "a run"):
        assert require_token(tmp_path / "data") is None
    assert find_leases(tmp_path) is None
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".run.lock"]


def test_a_restart_of_the_server_ends_no_lease(postgres_server: PostgresServer, shared: Path) -> None:
    leases = Leases(shared, LONG)
    lease = take(leases)
    postgres_server.stop()
    postgres_server.start()
    assert leases.require_token(lease) == lease.token


def test_leases_without_a_server_are_an_error_with_a_code(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    address = postgres_server.socket_address.replace(f"port={postgres_server.port}", "port=1")
    with (
        mounted(tmp_path, address),
        raises(LeaseError, "unreachable_database"),
        running(tmp_path / "data", "a run"),
    ):
        pytest.fail("it has no lease")


_CLAIMER = """
import sys
from pathlib import Path
from backstory.base.mounts import mount
from backstory.storage.leases import EVERYTHING, Leases

mount(Path(sys.argv[1]), sys.argv[2])
leases = Leases(Path(sys.argv[1]), float(sys.argv[3]))
leases.claim(leases.take("texts", EVERYTHING, "embedding"), [b"a", b"b"])
print("ready", flush=True)
sys.stdin.readline()
"""


def test_what_a_killed_process_of_this_machine_has_claimed_is_free_at_once(
    postgres_server: PostgresServer, tmp_path: Path, start: Start
) -> None:
    address = postgres_server.make_address()
    holder = start(_CLAIMER, tmp_path, address, LONG)
    with mounted(tmp_path, address):
        leases = Leases(tmp_path, LONG)
        lease = take(leases)
        assert leases.claim(lease, [b"b", b"c"]) == {b"c"}
        holder.kill()
        holder.wait()
        assert leases.claim(lease, [b"b", b"c"]) == {b"b", b"c"}
        leases.release(lease)
