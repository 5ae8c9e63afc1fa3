"""Imports a file of tests when its turn comes: ``-p tests.files_in_turn``, for runs of all tests by pytest-xdist.

Each worker would else import every file before its first test, which takes some six seconds of each core. Here a worker
is given files, not tests, and imports, collects and runs one after another. Options that select tests, such as ``-k``,
see the files alone.
"""

import gc
import sys
from collections.abc import Generator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

_LONGEST: Final = ("survival", "pipeline", "pipelines", "interfaces", "operations", "packaging", "hostile")
"""Folders whose tests take longest: they come first, so that short files are left when a worker is done."""

_MANY_MODULES: Final = 50


class _Unread(pytest.File):
    """A file that is not imported yet; all its tests are one item."""

    def collect(self) -> Iterator[pytest.Item]:
        yield _Turn.from_parent(self, name=self.path.name)


class _Turn(pytest.Item):
    """The turn of a file."""

    def run_tests(self, following: pytest.Item | None) -> None:
        """Collect the tests of the file, and run them."""
        session, place = self.session, self.session.items.index(self)
        _freeze_imported()
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)  # type: ignore[union-attr]
        gc.disable()  # there is no garbage among what is imported
        try:
            tests = list(session.genitems(module))
            self.config.hook.pytest_collection_modifyitems(session=session, config=self.config, items=tests)
        finally:
            gc.enable()
        try:
            for test, next_test in pairwise([*tests, following]):
                assert test is not None
                session.items[place] = (
                    test  # pytest-xdist compares what is reported with the item that it gave
                )
                self.config.hook.pytest_runtest_protocol(item=test, nextitem=next_test)
                if session.shouldfail or session.shouldstop:
                    break
        finally:
            session.items[place] = self

    def runtest(self) -> None:
        raise NotImplementedError("the tests of the file run in its place")


_frozen_modules = 0


def _freeze_imported() -> None:
    """Take what earlier files have imported out of the search for garbage, which walks through all of it each time."""
    global _frozen_modules
    if len(sys.modules) > _frozen_modules + _MANY_MODULES:
        gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.File:
    return _Unread.from_parent(parent, path=module_path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if all(isinstance(item, _Turn) for item in items):
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folders = item.path.relative_to(item.config.rootpath).parts
    return min((_LONGEST.index(folder) for folder in folders if folder in _LONGEST), default=len(_LONGEST))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, _Turn):
        return None
    item.run_tests(nextitem)
    return True


class _Progress:
    """Shows how many of the files have begun: how many tests they hold is not known before."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._files: int | None = None
        self._begun: set[str] = set()
        self._tests: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._files is None:
            self._files = self._session.testscollected
        self._begun.add(report.nodeid.partition("::")[0])
        self._tests.add(report.nodeid)
        self._session.testscollected = len(self._tests) * self._files // len(self._begun) + 1


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Start one worker more than there are cores: tests wait an eighth of the time for processes, disks and clocks."""
    return (yield) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    if session.config.pluginmanager.has_plugin("dsession"):  # the process that shows what the workers report
        session.config.pluginmanager.register(_Progress(session))
