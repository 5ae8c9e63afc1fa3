"""The names of the original design: all there, with its parameters and its defaults."""

import inspect
from typing import Any

import pytest

import backstory
from backstory import RagContext, RAGSettings, VectorStore

REQUIRED = inspect.Parameter.empty

FUNCTIONS: dict[str, dict[str, Any]] = {
    "consolidate_messages_to_markdown": {"table": REQUIRED},
    "chunk_markdown": {"content": REQUIRED, "max_tokens": 1800, "overlap_tokens": 150},
    "query_rag_per_chunk": {
        "chunks": REQUIRED,
        "store": REQUIRED,
        "embedding_model": REQUIRED,
        "top_k": 5,
        "min_similarity_threshold": 0.7,
        "retrieval_mode": "ann",
        "retrieval_nprobe": None,
        "retrieval_overfetch": None,
    },
    "deduplicate_by_document": {"results": REQUIRED, "n": 1},
    "query_rag_for_context": {
        "table": REQUIRED,
        "client": REQUIRED,
        "rag_dir": REQUIRED,
        "embedding_model": REQUIRED,
        "retrieval_mode": "ann",
        "retrieval_nprobe": None,
        "retrieval_overfetch": None,
        "return_records": False,
    },
}

SETTINGS = {
    "enabled": True,
    "top_k": 5,
    "mode": "ann",
    "nprobe": None,
    "overfetch": None,
    "chunks_per_query": 5,
    "dedup_strategy": "document",
    "dedup_max_per_doc": 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_takes_what_it_took(name: str) -> None:
    parameters = inspect.signature(getattr(backstory, name)).parameters
    expected = FUNCTIONS[name]
    assert {key: parameters[key].default for key in list(parameters)[: len(expected)]} == expected
    # What was added since is never needed, and never in the place of another.
    added = list(parameters.values())[len(expected) :]
    assert all(
        parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not REQUIRED for parameter in added
    )


def test_the_options_of_the_context_are_given_by_name() -> None:
    parameters = inspect.signature(backstory.query_rag_for_context).parameters.values()
    by_place = [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
    assert by_place == ["table", "client", "rag_dir"]


def test_a_store_is_opened_by_its_path_and_searched_by_the_same_names() -> None:
    assert list(inspect.signature(VectorStore).parameters) == ["path"]
    searched = list(inspect.signature(VectorStore.search).parameters)
    assert searched == [
        "self",
        "query_vec",
        "top_k",
        "min_similarity_threshold",
        "mode",
        "nprobe",
        "overfetch",
    ]


def test_a_context_is_made_of_text_and_records() -> None:
    context = RagContext(text="a", records=[{"similarity": 0.8}])
    assert (context.text, context.records) == ("a", [{"similarity": 0.8}])


def test_the_settings_have_their_defaults() -> None:
    assert {name: getattr(RAGSettings(), name) for name in SETTINGS} == SETTINGS
