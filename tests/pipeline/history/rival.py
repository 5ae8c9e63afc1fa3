"""A process that uses a history of runs: ``python -m tests.pipeline.history.rival FOLDER KIND SECONDS``.

It prints how often it did so, and each different error.
"""

import sys
import time
from pathlib import Path

from backstory.base.errors import StateError
from tests.caches import open_own_state


def main() -> None:
    state, kind, end = open_own_state(Path(sys.argv[1])), sys.argv[2], time.monotonic() + float(sys.argv[3])
    acts, errors = 0, set()
    while time.monotonic() < end:
        acts += 1
        try:
            if kind == "write":
                with state.begin() as session:
                    session.execute(
                        "INSERT OR REPLACE INTO usage VALUES ('run', 'day', '', '', '', 0, ?, 1, 1, 1, 1, 1, 0)",
                        (acts,),
                    )
            else:
                with state.reading() as session:
                    assert len(session.execute("SELECT calls FROM usage").fetchall()) <= 1
        except StateError as error:
            errors.add(str(error))
    print(acts, *sorted(errors))


if __name__ == "__main__":
    main()
