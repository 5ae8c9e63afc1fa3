"""``search``: filters, keys, depth, and what a hit says."""

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from backstory.base.errors import InputError
from backstory.index.request import SearchRequest
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import LibraryStatus, Mode, SearchAnswer
from backstory.interfaces.library.search import SearchFilters, expand_question
from backstory.retrieval.depth import AnswerDepth, Depth
from backstory.retrieval.found import Result
from tests.errors import raises
from tests.interfaces.library.conftest import SETTINGS


def slugs(answer: SearchAnswer) -> list[str]:
    return [hit.slug for hit in answer.hits]


def test_a_hit_is_a_row_of_the_index(indexed_once: Library) -> None:
    answer = indexed_once.search("sourdough starter flour", top_k=2)
    hit = answer.hits[0]
    text = indexed_once.text(hit.uri)
    assert text.text[hit.char_start : hit.char_end] == hit.text
    assert (hit.document_id, hit.revision) == (text.document.document_id, text.document.revision)
    assert answer.index_version == indexed_once.status().index_version
    assert [one.rank for one in answer.hits] == [1, 2]
    assert hit.cite.startswith(f"{hit.uri}, ")
    assert hit.above_threshold == (hit.probability >= 0.5)


def test_neither_a_search_nor_the_start_of_the_server_loads_pandas(indexed_once: Library) -> None:
    # DuckDB imports it before it takes a parameter, which takes a third of a second.
    code = (
        "import sys\n"
        "import backstory.interfaces.mcp.server\n"
        "from backstory.interfaces.library.library import Library\n"
        "with Library.open(sys.argv[1]) as library:\n"
        "    assert library.search('sourdough').hits\n"
        "print([name for name in ('pandas', 'pandera', 'dagster') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(indexed_once.workspace.root)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_search_is_that_of_the_index(indexed_once: Library) -> None:
    workspace = indexed_once.workspace
    from backstory.index.search import open_index
    from backstory.models.embeddings.embed import embed_texts

    with open_index(workspace.index) as index:
        vectors = embed_texts(workspace.embedder, ["night train"], task="query", cache=None).vectors
        weight = index.manifest.calibration.keyword_weight
        request = SearchRequest(top_k=3, ranking="hybrid", keyword_weight=weight)
        expected = index.search(vectors, request, texts=["night train"]).hits
    answer = indexed_once.search("night train", top_k=3)
    assert [hit.chunk_id for hit in answer.hits] == expected["chunk_id"].to_list()
    assert [hit.score for hit in answer.hits] == expected["score"].to_list()
    assert [hit.keywords for hit in answer.hits] == expected["keyword_score"].to_list()


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (SearchFilters(documents=["Moths"]), {"unrelated"}),
        (SearchFilters(documents=["moths", "posts/later.md"]), None),
        (SearchFilters(documents=["unrelated.md", "later"]), {"unrelated", "later"}),
        (SearchFilters(paths=["*-train.md"]), {"night-train"}),
        (SearchFilters(tags=["sourdough"]), {"sourdough", "later"}),
        (SearchFilters(tenant="other"), set()),
        ({"tags": ["sourdough"]}, {"sourdough", "later"}),
        (SearchFilters(as_of=datetime(2024, 5, 1, tzinfo=UTC)), {"unrelated", "drip-irrigation"}),
        (SearchFilters(tags=["sourdough"], as_of=datetime(2025, 1, 1, tzinfo=UTC)), {"sourdough"}),
        (SearchFilters(pages=(1, 9)), set()),
    ],
)
def test_filters_admit_what_they_name(
    indexed_once: Library, filters: SearchFilters | dict[str, Any], expected: set[str] | None
) -> None:
    if expected is None:
        with raises(InputError, "unknown_document", "posts/later.md"):
            indexed_once.search("bread", filters=filters)
        return
    answer = indexed_once.search("bread", filters=filters)
    assert set(slugs(answer)) == expected
    assert answer.corpus_chunks == len(expected)


def test_a_name_of_several_documents_lists_them(library: Library) -> None:
    library.add(["One.", "Two."], ["one", "two"], [{"title": "Same"}, {"title": "Same"}])
    with raises(InputError, "ambiguous_document", "same"):
        library.search("one", filters=SearchFilters(documents=["same"]))


def test_a_part_of_a_name_is_no_name(indexed_once: Library) -> None:
    for part in ("sour", "ourdough.md", "night", "train.md", "e"):
        with raises(InputError, "unknown_document", part):
            indexed_once.document(part)


@pytest.mark.parametrize(
    ("filters", "code", "name"),
    [
        ({"documents": "one"}, "wrong_type", "documents"),
        ({"as_of": datetime(2024, 1, 1)}, "no_time_zone", "as_of"),
        ({"pages": (2, 1)}, "out_of_range", "pages"),
        ({"pages": (0, 1)}, "out_of_range", "pages"),
        ({"colour": "red"}, "unknown_value", "colour"),
        (["sourdough"], "unknown_value", "sourdough"),
    ],
)
def test_a_wrong_filter_is_an_error(indexed_once: Library, filters: Any, code: str, name: str) -> None:
    with raises(InputError, code, name):
        indexed_once.search("bread", filters=filters)


def test_the_settings_hold_where_a_filter_says_nothing(make_library: Callable[..., Library]) -> None:
    library = make_library("embedding: {provider: hashing}\nrag: {tags: [sourdough]}\n")
    library.index()
    assert set(slugs(library.search("bread"))) == {"sourdough", "later"}
    assert slugs(library.search("bread", filters=SearchFilters(tags=["moths"]))) == ["unrelated"]


def test_several_questions_are_answered_as_each_alone(indexed_once: Library) -> None:
    questions = ["night train", "a clicking disk", "moths"]
    assert indexed_once.search_many(questions, expand=True) == [
        indexed_once.search(question, expand=True) for question in questions
    ]


@pytest.mark.parametrize(
    ("question", "keys"),
    [
        ("sourdough", ("sourdough",)),
        ("What is a sourdough starter?", ("What is a sourdough starter?", "sourdough starter")),
        ("who was Ada Lind", ("who was Ada Lind", "ada lind")),
        ("?!", ("?!",)),
    ],
)  # fmt: skip
def test_the_keys_of_a_question_are_always_the_same(question: str, keys: tuple[str, ...]) -> None:
    assert expand_question(question, "english") == keys == expand_question(question, "english")


def test_keys_are_fused_by_the_best_score_of_each_chunk(indexed_once: Library) -> None:
    question = "What is the sourdough starter?"
    answer = indexed_once.search(question, expand=True, top_k=6)
    single = {
        key: {hit.chunk_id: hit.score for hit in indexed_once.search(key, top_k=6).hits}
        for key in answer.keys
    }
    assert len(answer.keys) == 2
    for hit in answer.hits:
        assert hit.score == max(scores[hit.chunk_id] for scores in single.values())
        assert single[hit.key][hit.chunk_id] == hit.score


def test_depth_grows_with_the_corpus() -> None:
    depth = Depth()
    assert [depth.count_hits(chunks) for chunks in (0, 50, 51, 100, 101, 200, 201, 10**6)] == [
        5, 5, 10, 10, 20, 20, 25, 25,
    ]  # fmt: skip
    assert Depth(steps=((10, 1),), beyond=3).count_hits(11) == 3
    with raises(InputError, "unordered_steps"):
        Depth(steps=((10, 1), (10, 2)))
    with raises(InputError, "out_of_range", "depth"):
        Depth(beyond=0)
    with raises(InputError, "out_of_range", "depth"):
        Depth(wide=AnswerDepth(of_part=24, merged=0, kept=24))


def test_the_cap_of_tokens_leaves_out_from_the_end_and_says_so(indexed_once: Library) -> None:
    answer = indexed_once.search("bread", depth=Depth(max_tokens=30))
    assert len(answer.hits) + answer.left_out == 5
    assert 1 <= len(answer.hits) < 5
    assert len(indexed_once.search("bread", depth=Depth(max_tokens=1)).hits) == 1
    assert len(indexed_once.search("bread", top_k=6, depth=Depth(max_tokens=1)).hits) == 6


@pytest.mark.parametrize("mode", ["hybrid", "dense", "keyword"])
def test_hits_without_evidence_are_counted(indexed_once: Library, mode: Mode) -> None:
    answer = indexed_once.search("moths zygote", top_k=50, mode=mode)
    assert answer.weak == sum(hit.probability < 0.5 for hit in answer.hits)
    assert all(0 <= hit.probability <= 1 for hit in answer.hits)
    nothing = indexed_once.search("zygote", mode="keyword")
    assert (nothing.hits, nothing.weak) == ((), 0)
    assert "shares a word" in nothing.reason


def test_a_probability_is_of_the_question_alone(indexed_once: Library) -> None:
    few, many = (indexed_once.search("sourdough starter flour", top_k=top_k).hits for top_k in (1, 6))
    assert few[0].probability == many[0].probability
    assert {hit.probability for hit in indexed_once.search("thanks!").hits} <= {0.0}, (
        "small talk asks nothing"
    )


def test_modes_order_by_what_they_say(indexed_once: Library) -> None:
    dense = indexed_once.search("sourdough starter", mode="dense")
    assert [hit.score for hit in dense.hits] == sorted((hit.cosine for hit in dense.hits), reverse=True)
    words = indexed_once.search("sourdough starter", mode="keyword")
    assert set(slugs(words)) == {"sourdough", "later"}
    assert all(hit.keywords for hit in words.hits)


@pytest.mark.parametrize(
    ("question", "options", "code"),
    [
        (" ", {}, "input"),
        ("word", {"top_k": 0}, "input"),
        ("word", {"mode": "vector"}, "unknown_value"),
        ("word", {"rerank": True}, "absent_setting"),
    ],
)
def test_a_wrong_question_is_an_error(
    indexed_once: Library, question: str, options: dict[str, Any], code: str
) -> None:
    with raises(InputError, code):
        indexed_once.search(question, **options)


def test_one_hit_is_not_said_to_be_reranked(make_library: Callable[..., Library]) -> None:
    unused = "services: {openai: {base_url: 'http://127.0.0.1:9'}}\nrerank: {provider: openai, model: none}\n"
    library = make_library(f"{SETTINGS}{unused}")
    library.index()
    only = library.documents().documents[0].uri
    answer = library.search("bread", filters=SearchFilters(documents=[only]), rerank=True)
    assert (len(answer.hits), answer.reranked, answer.notes) == (1, False, ())


def test_changed_files_are_said_in_every_answer(library: Library) -> None:
    assert library.search("bread").notes == ()
    (library.workspace.documents_dir / "fresh.md").write_text("Fresh bread.", encoding="utf-8")
    (library.workspace.documents_dir / "later.md").unlink()
    [note] = Library.open(library.workspace.root).search("bread").notes
    assert "2 files changed since" in note
    assert "fresh.md, later.md" in note
    assert library.status().pending == ("posts/fresh.md", "posts/later.md")
    library.index()
    assert Library.open(library.workspace.root).search("bread").notes == ()


def list_below(result: type[Result]) -> list[type[Result]]:
    return [result, *(below for each in result.__subclasses__() for below in list_below(each))]


def test_every_result_has_a_schema_that_describes_each_field() -> None:
    modules = (Result.__module__, SearchAnswer.__module__, LibraryStatus.__module__)
    described = [result for result in list_below(Result) if result.__module__ in modules]
    assert len(described) > 25
    for result in described:
        schema = TypeAdapter(result).json_schema(mode="serialization")
        assert all("description" in field for field in schema.get("properties", {}).values()), result


def test_a_result_is_frozen_and_survives_json(indexed_once: Library) -> None:
    answer = indexed_once.search("bread")
    assert TypeAdapter(SearchAnswer).validate_python(answer.to_dict()) == answer
    with pytest.raises(ValueError, match="frozen"):
        answer.query = "other"  # type: ignore[misc]


def test_a_question_that_is_longer_than_the_model_reads_is_searched_in_parts(
    make_library: Callable[..., Library],
) -> None:
    library = make_library("embedding: {provider: local}\n")
    library.index()
    filler = "We talked for a long time of this and that, and nobody took any note of it. " * 40
    question = (
        f"Which night train to Lisbon needs a seat reservation?\n\n{filler}\n\nA sluggish sourdough starter?"
    )
    answer = library.search(question, top_k=3)
    assert len(answer.keys) > 1
    assert {"night-train.md", "sourdough.md"} <= {hit.uri for hit in answer.hits}
    assert any("searched as" in note for note in answer.notes)
    assert library.search("night train").keys == ("night train",)


def test_a_glob_is_relative_to_the_source_and_one_that_matches_nothing_is_an_error(
    library: Library, tmp_path: Path
) -> None:
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    (tmp_path / "docs" / "guides" / "a.md").write_text("How to feed a starter.", encoding="utf-8")
    library.index(tmp_path / "docs")
    for pattern in ("guides/**/*.md", "docs://guides/*.md", "a.md"):
        found = library.search("starter", filters=SearchFilters(paths=[pattern]))
        assert {hit.uri for hit in found.hits} == {"docs://guides/a.md"}
    with raises(InputError, "unmatched_pattern") as raised:
        library.search("starter", filters=SearchFilters(paths=["guide/*.md"]))
    assert "docs://guides/a.md" in str(raised.value)


def test_metadata_of_added_texts_is_returned_and_filters(library: Library) -> None:
    facts: list[dict[str, Any]] = [
        {"from": "Ana", "labels": ["red", "blue"], "title": "Alpha"},
        {"from": "Ben"},
    ]
    library.add(["Quinces of alpha.", "Quinces of beta."], ["mail/1", "b"], facts)
    both = library.search("quinces")
    assert {hit.metadata["id"]: hit.metadata["from"] for hit in both.hits if hit.metadata} == {
        "mail/1": "Ana",
        "b": "Ben",
    }
    for wanted in ({"from": "Ana"}, {"labels": "red"}, {"labels": ["red", "blue"], "id": "mail/1"}):
        [hit] = library.search("quinces", filters=SearchFilters(metadata=wanted)).hits
        assert hit.metadata == {**facts[0], "id": "mail/1"}
    assert library.search("quinces", filters=SearchFilters(metadata={"from": "Cleo"})).hits == ()
    with raises(InputError, "wrong_type", "metadata"):
        SearchFilters(metadata=["from"])
