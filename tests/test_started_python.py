"""Programs that are forked from a process that has imported the library: they are processes of their own."""

import os
import signal
import subprocess
from pathlib import Path

from tests.started_python import StartedPython, run_python

SAYS = """
import os, sys
print(os.getpid(), os.getcwd(), os.environ.get("GIVEN"), sys.argv[1:], "backstory.pipeline.run.runner" in sys.modules)
sys.exit(int(sys.argv[1]))
"""


def test_a_program_has_its_own_number_folder_environment_words_and_status(tmp_path: Path) -> None:
    done = run_python(["-c", SAYS, "3"], cwd=tmp_path, env={"GIVEN": "x"})
    pid, *said = done.stdout.split(maxsplit=1)
    assert int(pid) not in (os.getpid(), os.getppid())
    assert said == [f"{tmp_path} x ['3'] True\n"]
    assert done.returncode == 3
    assert "GIVEN" not in os.environ


def test_an_error_is_told_as_python_tells_it() -> None:
    done = run_python(["-c", "raise ValueError('what is wrong')"])
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: what is wrong"


def test_one_that_is_killed_ends_by_the_signal_and_one_beside_it_goes_on() -> None:
    words = ["-c", "import sys; print('ready', flush=True); print(sys.stdin.read())"]
    killed, other = (
        StartedPython(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(2)
    )
    with killed, other:
        for process in (killed, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert os.getpgid(process.pid) == process.pid
        assert killed.poll() is None
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
        assert other.communicate("goes on")[0] == "goes on\n"
        assert other.returncode == 0
    assert killed.pid != other.pid


def test_what_a_program_imports_and_changes_is_not_seen_by_the_next() -> None:
    changes = "import backstory, symtable, sys; backstory.changed = 1; print('symtable' in sys.modules)"
    looks = "import backstory, sys; print(hasattr(backstory, 'changed'), 'symtable' in sys.modules)"
    assert run_python(["-c", changes], check=True).stdout == "True\n"
    assert run_python(["-c", looks], check=True).stdout == "False False\n"
