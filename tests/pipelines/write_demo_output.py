"""Writes what the demo prints into the README: ``python -m tests.pipelines.write_demo_output WORKSPACE``.

The workspace is one that ``python -m examples.demo`` has made.
"""

import io
import os
import re
import sys
from pathlib import Path

from rich.console import Console

from backstory.pipeline.workspace import Workspace, open_workspace
from examples import demo

README = Path(__file__).resolve().parents[2] / "README.md"
SHOWN = re.compile(r"(?<=```text\n).*?(?=\n```)", re.DOTALL)


def print_demo(workspace: Workspace) -> str:
    """Give what the demo prints about a workspace of it."""
    stream = io.StringIO()
    demo.show_demo(workspace, Console(file=stream, width=80))
    return "\n".join(line.rstrip() for line in stream.getvalue().strip().splitlines())


if __name__ == "__main__":
    workspace = open_workspace(Path(sys.argv[1]))
    os.chdir(workspace.root.parent)
    demo.DEFAULT_FOLDER = workspace.root
    printed = print_demo(workspace)
    README.write_text(
        SHOWN.sub(lambda _: printed, README.read_text(encoding="utf-8"), count=1), encoding="utf-8"
    )
