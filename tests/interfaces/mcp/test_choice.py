"""Whether the names and descriptions of the tools tell them apart: forty tasks, and a chooser that knows words alone.

``python -m tests.interfaces.mcp.test_choice`` prints the score and the tasks that were missed.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import Stemmer
from jsonschema import Draft202012Validator  # type: ignore[import-untyped] # it has no types
from mcp_types import Tool

from backstory.interfaces.library.library import Library
from backstory.interfaces.mcp.server import make_server
from backstory.interfaces.mcp.token_counts import TokenCounter
from tests.interfaces.library.conftest import write_documents
from tests.interfaces.mcp.calling import use

LEAST_RIGHT = 35
"""Tasks of the forty for which the right tool came first when the descriptions were last written."""

TASKS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "Which documents cover this chat, and which parts of it does nothing serve?",
        "cover_conversation",
        {"text": "x"},
    ),
    (
        "Divide this long message into its parts and tell which parts no document serves.",
        "cover_conversation",
        {"text": "x"},
    ),
    ("Give me passages to quote for every question in this draft.", "cover_conversation", {"text": "x"}),
    ("What covers the conversation of window 3f2a?", "cover_conversation", {"window_id": "3f2a"}),
    ("Here is a whole chat: what do the documents not tell about it?", "cover_conversation", {"text": "x"}),
    (
        "Cover this message with documents of 2024 at the latest.",
        "cover_conversation",
        {"text": "x", "as_of": "2024-12-31T00:00:00Z"},
    ),
    ("Answer my question: what does a seat reservation cost?", "answer_question", {"query": "x"}),
    (
        "And in winter? Answer this follow-up to the question before.",
        "answer_question",
        {"query": "and in winter?", "previous_question": "x"},
    ),
    (
        "Answer with quotes for each claim, or refuse if the documents do not tell.",
        "answer_question",
        {"query": "x"},
    ),
    (
        "List the windows of the chats of last week.",
        "list_windows",
        {"first": "2025-03-01", "last": "2025-03-07"},
    ),
    ("Which are the latest windows of the indexed chats?", "list_windows", {"limit": 10}),
    ("List windows with how well documents cover them.", "list_windows", {}),
    (
        "Find the documents for the question how to feed a sourdough starter.",
        "search",
        {"query": "feed a sourdough starter"},
    ),
    ("Search for documents about the night train.", "search", {"query": "night train", "top_k": 5}),
    (
        "Which document answers the question what a seat reservation costs?",
        "search",
        {"query": "seat reservation cost"},
    ),
    (
        "Find the nearest documents for a question, below notes only.",
        "search",
        {"query": "x", "filters": {"paths": ["notes/**"]}},
    ),
    ("Search the best documents tagged travel.", "search", {"query": "x", "filters": {"tags": ["travel"]}}),
    ("Read the document night-train.md.", "fetch", {"id": "night-train.md"}),
    ("Read on in that document from character 8000 on.", "fetch", {"id": "night-train.md", "start": 8000}),
    ("Fetch the document with the id 426756c58136c9b4.", "fetch", {"id": "426756c58136c9b4"}),
    ("Read the document that search gave first.", "fetch", {"id": "a1b2c3d4"}),
    ("Find every place where the text TODO occurs.", "grep", {"pattern": "TODO"}),
    (
        "Which places match the regular expression ISO-[0-9]+?",
        "grep",
        {"pattern": "ISO-[0-9]+", "regex": True},
    ),
    ("Find every place that names Ada, and the string to cite it by.", "grep", {"pattern": "Ada"}),
    ("Grep for an error code in the texts.", "grep", {"pattern": "E1042", "ignore_case": False}),
    ("List the documents with all that is known of them.", "documents", {}),
    ("Which files were not read, and for what reasons?", "documents", {}),
    ("List the next fifty documents.", "documents", {"offset": 50, "limit": 50}),
    ("What is the state of the library?", "status", {}),
    ("Have files changed since they were indexed?", "status", {}),
    ("Report whether the library is ready or why it is not.", "status", {}),
    ("Summarize the report section by section.", "summarize_document", {"file_path": "report.pdf"}),
    (
        "Give a brief summary of this document.",
        "summarize_document",
        {"file_path": "report.pdf", "summary_type": "brief"},
    ),
    (
        "Summarize the handbook as bullets.",
        "summarize_document",
        {"file_path": "handbook.md", "summary_type": "bullets"},
    ),
    ("Index the file notes/new.md.", "index_document", {"file_path": "notes/new.md"}),
    ("This file has changed: read it into the index again.", "index_document", {"file_path": "notes/new.md"}),
    (
        "Index the files of the folder guides and its subfolders.",
        "index_directory",
        {"directory_path": "guides", "recursive": True},
    ),
    (
        "Read a whole folder into the index and say what became of each of its files.",
        "index_directory",
        {"directory_path": "guides"},
    ),
    ("Write the text of the handbook into a file.", "dump_document", {"file_name": "handbook.md"}),
    (
        "Dump the document's text into dumps/out.md.",
        "dump_document",
        {"file_name": "handbook.md", "output_path": "dumps/out.md"},
    ),
]


@cache
def _stem(text: str) -> tuple[str, ...]:
    words = re.findall(r"[a-z]+", text.lower().replace("_", " "))
    stems: list[str] = Stemmer.Stemmer("english").stemWords(words)
    return tuple(stems)


def choose(task: str, tools: Sequence[Tool]) -> str:
    """Choose a tool by BM25 of the task's words in names, which count twice, and descriptions."""
    texts = [Counter(_stem(f"{tool.name} {tool.name} {tool.title} {tool.description}")) for tool in tools]
    average = sum(map(Counter.total, texts)) / len(texts)

    def score(words: Counter[str]) -> float:
        total = 0.0
        for word in set(_stem(task)):
            holding = sum(word in each for each in texts)
            rarity = math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5))
            weight = words[word] + 1.5 * (0.25 + 0.75 * words.total() / average)
            total += rarity * words[word] * 2.5 / weight
        return total

    scores = {tool.name: score(words) for tool, words in zip(tools, texts, strict=True)}
    return max(scores, key=scores.__getitem__)


def list_tools(library: Library) -> list[Tool]:
    return use(make_server(library, allow_write=True), lambda client: client.list_tools()).tools


def find_missed(tools: Sequence[Tool]) -> list[tuple[str, str, str]]:
    chosen = [(task, right, choose(task, tools)) for task, right, _ in TASKS]
    return [each for each in chosen if each[1] != each[2]]


def test_names_and_descriptions_tell_the_tools_apart(indexed_once: Library) -> None:
    missed = find_missed(list_tools(indexed_once))
    assert len(TASKS) == 40
    assert len(TASKS) - len(missed) >= LEAST_RIGHT, missed


def test_the_expected_arguments_fit_the_tools(indexed_once: Library) -> None:
    schemas = {tool.name: tool.input_schema for tool in list_tools(indexed_once)}
    for task, right, arguments in TASKS:
        assert Draft202012Validator(schemas[right]).is_valid(arguments), task


def test_every_argument_is_described_and_all_results_take_few_tokens(indexed_once: Library) -> None:
    tools = list_tools(indexed_once)
    assert all(
        "description" in argument or "$ref" in argument
        for tool in tools
        for argument in tool.input_schema["properties"].values()
    )
    schemas = [json.dumps(tool.output_schema, separators=(",", ":")) for tool in tools]
    assert sum(map(TokenCounter().count, schemas)) < 3000


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        found = find_missed(list_tools(Library.open(write_documents(Path(folder) / "workspace"))))
    for task, right, chosen in found:
        print(f"{task} -> {chosen}, not {right}")
    print(f"{len(TASKS) - len(found)} of {len(TASKS)} right")
