"""A process that embeds until its budget ends: ``python -m tests.pipeline.history.spender WORKSPACE NAME``."""

import sys
from pathlib import Path

from backstory.base.errors import BudgetExhaustedError
from backstory.pipeline.workspace import open_workspace


def main() -> None:
    workspace = open_workspace(Path(sys.argv[1]))
    calls = 0
    while True:
        try:
            workspace.embedder.embed([f"text {calls} of {sys.argv[2]}"], task="document")
        except BudgetExhaustedError as error:
            print(calls, error)
            return
        calls += 1


if __name__ == "__main__":
    main()
