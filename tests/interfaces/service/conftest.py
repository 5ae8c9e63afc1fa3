"""A service of two tenants, once for the tests that change nothing of it but conversations."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backstory.interfaces.library.job_store import JobStore, JobTurn
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.service import ServiceLimits
from tests.interfaces.library.conftest import indexed_once
from tests.interfaces.service.running import Running, running, write_service
from tests.interfaces.service.several_machines import machines

__all__ = ["indexed_once", "machines"]


@pytest.fixture(scope="session")
def served_once(indexed_once: Library, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("service")
    limits = ServiceLimits(
        requests_per_minute=100_000, requests_at_once=10_000, failures_at_once=10_000, body_bytes=100_000
    )
    service, tokens = write_service(root, indexed_once.workspace.root, limits)
    with running(service, tokens) as started:
        yield started


@pytest.fixture
def service_root(tmp_path: Path) -> Path:
    return tmp_path / "service"


@pytest.fixture
def may_go_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Have the jobs of this process wait at their first step, so that they are under way on a machine of any speed."""
    may_go_on, advance = threading.Event(), JobStore.advance

    def wait(self: JobStore, turn: JobTurn, **place: Any) -> bool:
        may_go_on.wait()
        return advance(self, turn, **place)

    monkeypatch.setattr(JobStore, "advance", wait)
    yield may_go_on
    may_go_on.set()
