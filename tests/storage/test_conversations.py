"""Conversations in one file: whose they are, and what leaves the file with the documents."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from backstory.storage.conversations import ConversationStore, Feedback, KeptTurn, list_shown
from tests.caches import open_own_state
from tests.postgres import ON_FILES

pytestmark = pytest.mark.usefixtures("either_storage")
SECRET = "the valve sticks at forty degrees"
ANSWER = {
    "markdown": f"It does: {SECRET} [1]",
    "claims": [{"text": SECRET, "citations": [{"document_id": "d1", "uri": "pumps.md", "quote": SECRET}]}],
    "hits": [],
    "index_version": "v1",
}
OTHER = {"markdown": "Nothing.", "claims": [], "hits": [], "index_version": "v1"}


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    return ConversationStore(open_own_state(tmp_path))


def add(
    store: ConversationStore, question: str = "does it stick?", answer: Mapping[str, object] = ANSWER
) -> str:
    conversation = store.begin("ada", question, 1.0)
    assert store.add_turn(conversation, "ada", question, answer, list_shown(answer), 2.0) == 1
    return conversation


def shows(document: str) -> Callable[[KeptTurn], bool]:
    return lambda turn: document in turn.documents


def is_on_disk(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("state.sqlite*"))


def test_the_turns_of_a_conversation_are_read_in_their_order(store: ConversationStore) -> None:
    conversation = add(store)
    assert store.add_turn(conversation, "ada", "and cold?", OTHER, {}, 3.0) == 2
    turns = store.read_turns(conversation, "ada")
    assert turns is not None
    assert [(turn.number, turn.question, turn.documents) for turn in turns] == [
        (1, "does it stick?", {"d1": "pumps.md"}),
        (2, "and cold?", {}),
    ]
    assert turns[0].answer == ANSWER
    last = store.read_turns(conversation, "ada", last=1)
    assert last is not None
    assert [turn.number for turn in last] == [2]
    ids = [store.begin("ada", f"question {number}", float(number)) for number in range(4, 8)]
    first, total = store.list_of("ada", limit=2)
    second, _ = store.list_of("ada", limit=9, offset=2)
    assert ([each.id for each in (*first, *second)], total) == ([*ids[::-1], conversation], 5)
    found = second[-1]
    assert (found.title, found.turn_count, found.updated) == ("does it stick?", 2, 3.0)


def test_another_person_has_no_such_conversation(store: ConversationStore) -> None:
    conversation = add(store)
    for other in ("ben", "", "ad%", "' OR 1 = 1 --"):
        assert store.find(conversation, other) is None
        assert store.read_turns(conversation, other) is None
        assert store.add_turn(conversation, other, "mine?", OTHER, {}, 3.0) is None
        assert not store.give_feedback(conversation, other, 1, Feedback("up", "", 3.0))
        assert not store.remove(conversation, other)
        assert store.list_of(other, limit=10) == ([], 0)
    assert store.read_turns("%", "ada") is None
    assert store.find(conversation, "ada") is not None


@ON_FILES
def test_a_removed_conversation_leaves_the_disk(store: ConversationStore, tmp_path: Path) -> None:
    conversation, other, of_ben = add(store), add(store), store.begin("ben", "mine", 1.0)
    assert store.give_feedback(conversation, "ada", 1, Feedback("up", "yes", 3.0))
    assert store.give_feedback(conversation, "ada", 1, Feedback("down", SECRET, 4.0))
    assert not store.give_feedback(conversation, "ada", 2, Feedback("up", "", 4.0))
    [(before, judged)] = store.read_judged()
    assert (before, judged.feedback) == ([], Feedback("down", SECRET, 4.0))
    assert store.remove(conversation, "ada")
    assert store.read_turns(conversation, "ada") is None
    assert list(store.read_judged()) == []
    assert is_on_disk(tmp_path, SECRET)
    assert store.find(other, "ada") is not None
    assert store.remove_person("ada") == 1
    assert not is_on_disk(tmp_path, SECRET)
    assert (store.list_of("ada", limit=10), store.count()) == (([], 0), 1)
    assert store.find(of_ben, "ben") is not None


def test_an_answer_that_shows_a_dropped_document_leaves_the_disk(
    store: ConversationStore, tmp_path: Path
) -> None:
    passage = "Rhubarb grows behind the shed."  # found by the search, and not in the answer
    conversation = add(
        store, answer={**ANSWER, "hits": [{"document_id": "d9", "uri": "a.md", "text": passage}]}
    )
    assert not is_on_disk(tmp_path, passage)
    store.add_turn(conversation, "ada", "and cold?", OTHER, {}, 3.0)
    assert store.clear_answers(shows("d9"), {"d9", "d1"}, "v1") == 1
    turns = store.read_turns(conversation, "ada")
    assert turns is not None
    assert [(turn.question, turn.answer, turn.documents) for turn in turns] == [
        ("does it stick?", None, {}),
        ("and cold?", OTHER, {}),
    ]
    for gone in (SECRET, "d1", "pumps.md"):
        assert not is_on_disk(tmp_path, gone)


def test_a_question_and_feedback_that_hold_what_is_dropped_go_as_well(
    store: ConversationStore, tmp_path: Path
) -> None:
    conversation = add(store, f"is it true that {SECRET}?", OTHER)
    store.give_feedback(conversation, "ada", 1, Feedback("down", f"but {SECRET}", 3.0))
    assert store.clear_answers(lambda turn: SECRET in "\n".join(turn.list_texts()), (), "v1") == 1
    [turn] = store.read_turns(conversation, "ada") or []
    assert (turn.question, turn.answer, turn.feedback) == ("", None, Feedback("down", "", 3.0))
    assert not is_on_disk(tmp_path, SECRET)


def test_an_answer_from_the_snapshot_before_is_not_kept(store: ConversationStore, tmp_path: Path) -> None:
    conversation = add(store)
    store.clear_answers(shows("d1"), {"d1"}, "v1")
    assert store.add_turn(conversation, "ada", "still?", ANSWER, list_shown(ANSWER), 3.0) == 2
    written = {**ANSWER, "claims": [{"document_id": "d2", "uri": "../posts/a.md"}]}
    assert store.add_turn(conversation, "ada", "posts?", written, list_shown(written), 4.0) == 3
    assert not is_on_disk(tmp_path, "d1")
    later = {**ANSWER, "index_version": "v2"}
    store.add_turn(conversation, "ada", "later?", later, list_shown(later), 5.0)
    store.clear_answers(lambda _: False, {"../"}, "v2")
    later_posts = {**written, "index_version": "v2"}
    store.add_turn(conversation, "ada", "later posts?", later_posts, list_shown(later_posts), 6.0)
    store.clear_answers(lambda _: False, {"d1"}, "v2")
    for admitted in (set(), {"d1"}):
        store.admit_again(admitted)
        store.add_turn(conversation, "ada", "again?", later, list_shown(later), 7.0)
    kept = [turn.answer is not None for turn in store.read_turns(conversation, "ada") or []]
    assert kept == [False, False, True, True, False, False, True]


def test_nothing_is_written_where_nobody_has_asked(store: ConversationStore, tmp_path: Path) -> None:
    assert store.clear_answers(lambda _: True, {"d1"}, "v1") == 0
    assert store.remove_person("ada") == 0
    store.admit_again({"d1"})
    assert list(tmp_path.iterdir()) == []
    assert store.list_of("ada", limit=10) == ([], 0)
