"""A process that writes to a history of runs, or reads it: ``python -m tests.runs.rival FILE KIND SECONDS``.

It prints how often it did so, and each different error.
"""

import sys
import time
from pathlib import Path

from backstory.errors import RunHistoryError
from backstory.runs.store import RunStore


def main() -> None:
    store, kind, end = RunStore(Path(sys.argv[1])), sys.argv[2], time.monotonic() + float(sys.argv[3])
    acts, errors = 0, set()
    if kind == "write":
        store.hold_open()
    while time.monotonic() < end:
        acts += 1
        try:
            if kind == "write":
                with store.write() as connection:
                    connection.execute(
                        "INSERT OR REPLACE INTO usage VALUES ('run', 'day', '', '', ?, 1, 1, 1, 1, 1, 0)",
                        (acts,),
                    )
            else:
                with store.read() as read:
                    assert read is not None
                    assert len(read.execute("SELECT calls FROM usage").fetchall()) <= 1
        except RunHistoryError as error:
            errors.add(str(error))
    print(acts, *sorted(errors))


if __name__ == "__main__":
    main()
