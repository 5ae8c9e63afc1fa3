"""A process that embeds text after text until its budget ends: ``python -m tests.runs.spender WORKSPACE NAME``."""

import sys
from pathlib import Path

from backstory.errors import BudgetExhaustedError
from backstory.workspace import open_workspace


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
