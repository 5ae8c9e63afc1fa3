"""Processes of Python that have imported the library already.

To import it takes a second of a core, which is most of what a short program does. So each test process starts one
process that imports it once, and forks a copy for each program. A copy is a process of its own in all that such a test
asks of it: it has its own number, streams, environment and folder, may be killed, and ends with its own status.
Programs whose imports, memory or options of Python are tested are started by :mod:`subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_LIBRARY = (
    "backstory.interfaces.cli.app",
    "backstory.pipeline.run.runner",
    "backstory.interfaces.library.library",
)
_DAGSTER = (*_LIBRARY, "dagster", "pipelines.definitions", "pipelines.materialization")
_MOST_BYTES = 1 << 20
_STREAMS = 3
_NUMBER = struct.Struct("q")


class StartedPython(subprocess.Popen[str]):
    """A program of Python, whose streams are texts.

    Args:
        words: What would follow ``python``: ``-c`` and a program, or ``-m`` and a module, and its arguments.
        with_dagster: Whether Dagster and the pipeline's definitions are imported, too.
        cwd: As of :class:`subprocess.Popen`, as the others are.
        env: The environment.
        start_new_session: Whether it leads a session of its own.
        streams: ``stdin``, ``stdout`` and ``stderr``.
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        with_dagster: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
        **streams: Any,
    ) -> None:
        self._forking = _start_forking(_DAGSTER if with_dagster else _LIBRARY)
        self._program = {
            "words": words,
            "folder": str(cwd or Path.cwd()),
            "environment": dict(os.environ if env is None else env),
            "leads_session": start_new_session,
            "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        }
        super().__init__(words, text=True, **streams)

    # The three methods in which `Popen` starts a process and learns of its end.

    def _execute_child(self, *given: Any) -> None:
        pipes = given[10:16]
        streams = [pipe if pipe >= 0 else own for own, pipe in enumerate((pipes[0], pipes[3], pipes[5]))]
        self._ended, ended = os.pipe()
        try:
            socket.send_fds(self._forking, [json.dumps(self._program).encode()], [*streams, ended])
        finally:
            os.close(ended)
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        [self.pid] = _NUMBER.unpack(os.read(self._ended, _NUMBER.size))
        self._child_created = True

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ended, selectors.EVENT_READ)
            if not selector.select(0 if wait_flags & os.WNOHANG else None):
                return 0, 0
        [status] = _NUMBER.unpack(os.read(self._ended, _NUMBER.size))
        os.close(self._ended)
        return self.pid, status

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


def run_python(
    words: Sequence[str],
    *,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python to its end, and return what it printed.

    Args:
        words: As of :class:`StartedPython`.
        check: Whether another status than 0 is an error.
        options: As of :class:`StartedPython`.

    Raises:
        subprocess.CalledProcessError: ``check`` is true, and the program failed.
    """
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with StartedPython(words, **(streams | options)) as process:
        printed, told = process.communicate()
    done = subprocess.CompletedProcess(words, process.returncode, printed, told)
    if check:
        done.check_returncode()
    return done


@contextmanager
def starting_ready() -> Iterator[Callable[..., StartedPython]]:
    """Yield a function that starts a program, and waits until it prints ``ready``. All are killed at the end."""
    started: list[StartedPython] = []

    def start(program: str, *arguments: object) -> StartedPython:
        words = ["-c", program, *map(str, arguments)]
        process = StartedPython(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.communicate()


def let_go(process: subprocess.Popen[str]) -> None:
    """Let a program go on that waits for a line."""
    assert process.stdin
    process.stdin.write("go\n")
    process.stdin.flush()


@cache
def _start_forking(modules: Sequence[str]) -> socket.socket:
    """Start the process that imports modules and forks, and give the socket on which it is asked."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __name__, str(theirs.fileno()), *modules]
    process = subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _fork_programs(asked: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each program, and tell of the end of each.

    Returns:
        In a forked process, its program; None after the last one.
    """
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if woken in ready:
                os.read(woken, _MOST_BYTES)
                _tell_ends(running)
            if asked.fileno() not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(asked, _MOST_BYTES, _STREAMS + 1)
            if not message:
                return None
            *streams, ended = descriptors
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for own, given in enumerate(streams):
                    os.dup2(given, own)
                for descriptor in (*descriptors, *running.values(), woken, waking, asked.detach()):
                    os.close(descriptor)
                program: dict[str, Any] = json.loads(message)
                return program
            for descriptor in streams:
                os.close(descriptor)
            os.write(ended, _NUMBER.pack(pid))
            running[pid] = ended


def _tell_ends(running: dict[int, int]) -> None:
    """Write the status of each process that has ended to whoever waits for it."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        ended = running.pop(pid)
        with suppress(BrokenPipeError):  # nobody waits for it
            os.write(ended, _NUMBER.pack(status))
        os.close(ended)


def _enter(program: Mapping[str, Any]) -> tuple[str, str]:
    """Make this process one that was started for a program, and give the option and the program."""
    os.environ.clear()
    os.environ.update(program["environment"])
    time.tzset()
    os.chdir(program["folder"])
    resource.setrlimit(resource.RLIMIT_NOFILE, tuple(program["files"]))
    if program["leads_session"]:
        os.setsid()
    option, what, *arguments = program["words"]
    sys.argv = ["-c" if option == "-c" else what, *arguments]
    return option, what


def _run(program: Mapping[str, Any]) -> int:
    """Run a program as this process, and return its status."""
    option, what = _enter(program)
    status = 0
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), main.__dict__)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - Python tells of every error of a program in this way
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    descriptor, *modules = sys.argv[1:]
    gc.disable()  # there is no garbage among what is imported
    for name in modules:
        importlib.import_module(name)
    from backstory.text.languages import detect_language

    detect_language(["So that the detector is loaded once."])
    gc.collect()
    gc.freeze()
    gc.enable()
    wanted = _fork_programs(socket.socket(fileno=int(descriptor)))
    if wanted is not None:
        # Libraries of C++ wait at the end of a process for threads of their own, which no copy has.
        os._exit(_run(wanted))
