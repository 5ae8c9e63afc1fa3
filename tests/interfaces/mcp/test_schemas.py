"""The names, order, selections, annotations and JSON Schemas of all tools, as the snapshot ``tools.json`` has them.

``python -m tests.interfaces.mcp.test_schemas`` writes the snapshot anew.
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.registry import SELECTIONS
from backstory.interfaces.mcp.server import make_server
from tests.interfaces.library.conftest import write_documents
from tests.interfaces.mcp.calling import EVERY, use

SNAPSHOT = Path(__file__).with_name("tools.json")


def describe(library: Library) -> list[dict[str, Any]]:
    server = make_server(library, allow_write=True, tools=EVERY)
    tools = use(server, lambda client: client.list_tools()).tools
    return [
        {
            "selections": [name for name, names in SELECTIONS.items() if tool.name in names],
            **tool.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        for tool in tools
    ]


def test_the_tools_are_those_of_the_snapshot(indexed_once: Library) -> None:
    described = describe(indexed_once)
    assert described == json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    assert describe(indexed_once) == described


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        found = describe(Library.open(write_documents(Path(folder) / "workspace")))
    SNAPSHOT.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
