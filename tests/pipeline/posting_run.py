"""A run in a process of its own: ``python -m tests.pipeline.posting_run WORKSPACE``."""

import sys
from pathlib import Path

from backstory import run_pipeline
from backstory.pipeline.workspace import open_workspace

if __name__ == "__main__":
    run_pipeline(open_workspace(Path(sys.argv[1])))
