"""A process that uses a history of runs: ``python -m tests.pipeline.history.rival FILE KIND SECONDS``.

It prints how often it did so, and each different error.
"""

import sys
import time
from contextlib import nullcontext
from pathlib import Path

from backstory.base.errors import RunHistoryError
from backstory.pipeline.history.store import open_store


def main() -> None:
    store, kind, end = open_store(Path(sys.argv[1])), sys.argv[2], time.monotonic() + float(sys.argv[3])
    acts, errors = 0, set()
    with store.connected() if kind == "write" else nullcontext():
        while time.monotonic() < end:
            acts += 1
            try:
                if kind == "write":
                    with store.writing() as session:
                        session.execute(
                            "INSERT OR REPLACE INTO usage VALUES ('run', 'day', '', '', ?, 1, 1, 1, 1, 1, 0)",
                            (acts,),
                        )
                else:
                    with store.reading() as session:
                        assert len(session.execute("SELECT calls FROM usage").fetchall()) <= 1
            except RunHistoryError as error:
                errors.add(str(error))
    print(acts, *sorted(errors))


if __name__ == "__main__":
    main()
