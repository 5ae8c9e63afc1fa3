"""A run that ends itself by SIGKILL at one of the moments at which it touches a file.

``python -m tests.pipeline.killed_run WORKSPACE MOMENT``; a moment of -1 lets it live, and prints how many there are.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tests.pipeline.workspace_states import run

_TOUCHES = {
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.link",
    "os.rmdir",
    "shutil.rmtree",
    "sqlite3.connect",
}


def main() -> None:
    root, moment = Path(sys.argv[1]), int(sys.argv[2])
    run_count = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal run_count
        if event in _TOUCHES and str(root) in str(arguments):
            if run_count == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            run_count += 1

    sys.addaudithook(count)
    run(root)
    print(run_count)


if __name__ == "__main__":
    main()
