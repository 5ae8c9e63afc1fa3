"""The retrievers of LangChain and LlamaIndex, run in the environments of the peers, which have these packages.

Backstory's own packages come last on the path, so that each framework meets the packages that it was installed with.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from backstory import Library
from backstory.base.errors import MissingExtraError
from backstory.base.extras import is_installed
from benchmarks.peers.environments import make_environment
from tests.benchmarks.test_peers import ENVIRONMENTS
from tests.errors import raises

ROOT = Path(__file__).resolve().parents[3]
CHANGE_FOLDER = "import os, sys; os.chdir(sys.argv[1])\n"

LANGCHAIN = """
import asyncio, json, sys
from langchain_core.output_parsers import StrOutputParser
from langchain_core.runnables import RunnableLambda
from backstory.interfaces.adapters.langchain import BackstoryRetriever
from backstory.interfaces.library.search import SearchFilters

retriever = BackstoryRetriever.open(sys.argv[1], top_k=2)
found = retriever.invoke("night train")
assert asyncio.run(retriever.ainvoke("night train")) == found
assert retriever.batch(["night train"])[0] == found
assert retriever.invoke("night train", None, top_k=1) == found[:1]
assert asyncio.run(retriever.ainvoke("night train", None, top_k=1)) == found[:1]
for wrong in (lambda: retriever.invoke("night train", k=1), lambda: BackstoryRetriever.open(sys.argv[1], topk=1)):
    try:
        wrong()
    except (TypeError, ValueError) as error:
        assert "k" in str(error)
    else:
        raise AssertionError("an unknown argument was passed over")
chain = retriever | RunnableLambda(lambda documents: documents[0].metadata["cite"]) | StrOutputParser()
cited = chain.invoke("night train")
narrow = BackstoryRetriever.open(sys.argv[1], filters=SearchFilters(paths=["sourdough*"]))
others = {document.metadata["uri"] for document in narrow.invoke("night train")}
told = [[each.id, each.page_content, each.metadata["score"], each.metadata["source"]] for each in found]
print(json.dumps([told, cited, sorted(others)]))
"""

LLAMAINDEX = """
import asyncio, json, sys
from llama_index.core.schema import MetadataMode, QueryBundle
from backstory.interfaces.adapters.llamaindex import BackstoryRetriever
from backstory.interfaces.library.search import SearchFilters

retriever = BackstoryRetriever.open(sys.argv[1], top_k=2)
found = retriever.retrieve("night train")
assert asyncio.run(retriever.aretrieve("night train")) == found
assert retriever.retrieve(QueryBundle("night train")) == found
assert found[0].node.get_content(MetadataMode.EMBED) == found[0].text
cited = found[0].metadata["cite"]
assert cited in found[0].node.get_content(MetadataMode.LLM)
narrow = BackstoryRetriever.open(sys.argv[1], filters=SearchFilters(paths=["sourdough*"]))
others = {node.metadata["uri"] for node in narrow.retrieve("night train")}
told = [[each.node_id, each.text, each.score, each.metadata["uri"]] for each in found]
print(json.dumps([told, cited, sorted(others)]))
"""


def run_in(python: Path, script: str, workspace: Path) -> str:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = python.parent.parent / "lib" / version / "site-packages"
    path = os.pathsep.join([str(ROOT), str(own), sysconfig.get_path("purelib")])
    ran = subprocess.run(
        [python, "-c", script, workspace],
        env={**os.environ, "PYTHONPATH": path, "LANGSMITH_TRACING": "false"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize(("peer", "script"), [("langchain", LANGCHAIN), ("llamaindex", LLAMAINDEX)])
def test_a_retriever_gives_the_hits_of_the_library(
    peer: str, script: str, indexed_once: Library, library: Library
) -> None:
    folder = os.environ.get(ENVIRONMENTS)
    if folder is None:
        pytest.skip(f"{ENVIRONMENTS} does not name a folder for the peers' environments")
    hits = indexed_once.search("night train", top_k=2).hits
    told, cited, others = json.loads(
        run_in(make_environment(peer, Path(folder)), script, library.workspace.root)
    )
    assert told == [[hit.chunk_id, hit.text, hit.score, hit.uri] for hit in hits]
    assert cited == hits[0].cite
    assert others == [uri for uri in others if uri.startswith("sourdough")] != []


@pytest.mark.parametrize("peer", ["langchain", "llamaindex"])
def test_the_example_of_the_page_runs(peer: str, library: Library, tmp_path: Path) -> None:
    folder = os.environ.get(ENVIRONMENTS)
    if folder is None:
        pytest.skip(f"{ENVIRONMENTS} does not name a folder for the peers' environments")
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    [code] = [
        block
        for block in re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        if f".{peer} " in block
    ]
    (tmp_path / "mychat").symlink_to(library.workspace.root)
    printed = run_in(make_environment(peer, Path(folder)), f"{CHANGE_FOLDER}{code}", tmp_path)
    assert printed.startswith("night-train.md, lines ")


@pytest.mark.parametrize("extra", ["langchain", "llamaindex"])
def test_a_retriever_without_its_framework_names_the_extra(extra: str) -> None:
    if is_installed(extra):  # type: ignore[arg-type]
        pytest.skip(f"the extra {extra} is installed here")
    with raises(MissingExtraError):
        __import__(f"backstory.interfaces.adapters.{extra}")
