"""``evaluate``: whether retrieved text answers a question."""

from collections.abc import Callable

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from tests.errors import raises
from tests.workspaces import copy_made

QUESTION = "What does the night train to Lisbon need?"
ANSWER = "The night train to Lisbon needs a seat reservation."
OFF_TOPIC = "Feed the starter twice a day with flour and water, and wait until it has doubled."


@pytest.fixture(scope="module")
def local(indexed_once: Library, tmp_path_factory: pytest.TempPathFactory) -> Library:
    """The library with the local model, whose similarities mean something."""
    root = copy_made(indexed_once.workspace.root, tmp_path_factory.mktemp("local") / "workspace").root
    (root / "backstory.yaml").write_text("embedding: {provider: local}\n", encoding="utf-8")
    library = Library.open(root)
    assert library.index().success
    return library


@pytest.mark.parametrize(
    "write",
    [
        str,
        str.upper,
        lambda text: f"«{text}»!!! ({text}) …",
        lambda text: text.replace(" ", " — ").replace(".", "?!"),
        lambda text: f"{OFF_TOPIC * 40}\n\n{text}\n\n{OFF_TOPIC * 40}",
    ],
)
def test_a_verbatim_answer_suffices_and_another_subject_does_not(
    local: Library, write: Callable[[str], str]
) -> None:
    found = local.evaluate(write(QUESTION) if len(write("a")) < 50 else QUESTION, write(ANSWER))
    assert (found.sufficient, found.confidence, found.missing) == (True, "high", ())
    assert found.keyword_overlap == 1.0
    other = local.evaluate(QUESTION, write(OFF_TOPIC))
    assert (other.sufficient, other.keyword_overlap) == (False, 0.0)
    assert other.issues
    assert "Lisbon".casefold() in other.recommendation
    kin = local.evaluate("When was the company founded?", write("The company has 200 employees."))
    assert kin.sufficient is False, "a fact of another kind"


def test_nothing_retrieved_is_not_sufficient(indexed_once: Library) -> None:
    for nothing in ("", " \n", [], ["", " "]):
        found = indexed_once.evaluate(QUESTION, nothing)
        assert (found.sufficient, found.confidence, found.similarity) == (False, "high", None)
    with raises(InputError, "blank_text", "question"):
        indexed_once.evaluate(" ", ANSWER)


def test_the_answer_of_a_search_is_judged_by_its_hits(indexed_once: Library) -> None:
    assert indexed_once.evaluate(QUESTION, indexed_once.search(QUESTION)).keyword_overlap == 0.75
    assert indexed_once.evaluate(QUESTION, [ANSWER, OFF_TOPIC]).missing == ()


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is the price of a ticket to Lisbon?", "What is the name of a dog to feed?"),
        ("Who is the owner of the house?", "The colour of the sky is the colour of the sea."),
        ("What is it?", "What it is, it is."),
    ],
)
def test_stop_words_are_no_evidence(indexed_once: Library, question: str, text: str) -> None:
    found = indexed_once.evaluate(question, text)
    assert (found.sufficient, found.keyword_overlap) == (False, 0.0)


def test_words_of_any_script_count(indexed_once: Library) -> None:
    assert indexed_once.evaluate("夜行列車の予約", "夜行列車には予約が必要です。").keyword_overlap > 0.4
    assert not {"l'été", "séville"} & set(
        indexed_once.evaluate("L'été à Séville?", "L’ETE A SEVILLE").missing
    )


def test_judging_keeps_no_vector_of_the_text(library: Library) -> None:
    library.evaluate("moths", "warm")
    before = sum(library.workspace.embeddings.count_by_owner().values())
    library.evaluate("moths", "Text that lies in no document.")
    assert sum(library.workspace.embeddings.count_by_owner().values()) == before
