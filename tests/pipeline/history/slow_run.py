"""A run that stalls inside a stage, and then prints: ``python -m tests.pipeline.history.slow_run WORKSPACE``."""

import sys
import threading
from pathlib import Path

from backstory.pipeline.history.history import BY_COMMAND
from backstory.pipeline.workspace import open_workspace

DAYS = ("2025-03-13", "2025-03-14", "2025-03-15")


def main() -> None:
    runs = open_workspace(Path(sys.argv[1])).runs
    with runs.record(BY_COMMAND, DAYS):
        runs.enter("window_chunks")
        runs.advance("hits", DAYS[1], 1, 3)
        print("there", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
