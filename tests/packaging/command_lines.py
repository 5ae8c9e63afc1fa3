"""Runs command lines in one process: ``python -m tests.packaging.command_lines``.

The argument is a list of command lines, as JSON. One that begins with ``-c`` is a program. Prints exit code and output
of each; the exit code is -1 where an absent package ended it in a traceback.
"""

import json
import sys
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from backstory.interfaces.cli import app as cli
from backstory.interfaces.cli.failure import run_command


def _run(line: Sequence[str]) -> int:
    try:
        if line[0] == "-c":
            run_command(lambda: exec(line[1], {}))
            return 0
        sys.argv = ["backstory", *line]
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    except ImportError:
        traceback.print_exc()
        return -1
    return 0


def main() -> None:
    """Run the command lines."""
    told = []
    for line in json.loads(sys.argv[1]):
        with redirect_stderr(StringIO()) as said, redirect_stdout(StringIO()) as printed:
            code = _run(line)
        told.append([code, printed.getvalue(), said.getvalue()])
    print(json.dumps(told))


if __name__ == "__main__":
    main()
