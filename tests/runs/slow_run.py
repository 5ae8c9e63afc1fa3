"""A run that stops moving inside a stage: ``python -m tests.runs.slow_run WORKSPACE``; it prints when it is there."""

import sys
import threading
from pathlib import Path

from backstory.runs import BY_COMMAND
from backstory.workspace import open_workspace

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
