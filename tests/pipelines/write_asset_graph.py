"""Writes the snapshot of the asset graph: ``python -m tests.pipelines.write_asset_graph WORKSPACE``."""

import json
import sys
from pathlib import Path

from backstory.pipeline.workspace import open_workspace
from pipelines.definitions import define
from tests.pipelines.test_definitions import SNAPSHOT, describe_graph

if __name__ == "__main__":
    graph = describe_graph(define(open_workspace(Path(sys.argv[1]))))
    SNAPSHOT.write_text(json.dumps(graph, indent=2) + "\n", encoding="utf-8")
