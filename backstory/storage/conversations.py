"""The conversations of people with the documents of a workspace: questions, answers, and what people say of them.

An answer quotes documents. So a run that drops documents or messages takes the answers that hold them out of the file,
and an answer from the snapshot before, which is given meanwhile, is not kept.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from backstory.storage.state import NO_LIMIT, Session, State

Thumb: TypeAlias = Literal["up", "down"]
"""Whether a person found an answer good."""

_TITLE_CHARACTERS: Final = 80
_ID_BYTES: Final = 12
_TURNS: Final = "(SELECT count(*) FROM turns WHERE conversation = id)"
_CONVERSATIONS: Final = f"SELECT id, title, created, updated, {_TURNS} FROM conversations"  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a person said of an answer: whether it is good, why, and when, in seconds since 1970."""

    thumb: Thumb
    text: str
    given: float


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """A question of a conversation, by its place from 1, and its answer as values for JSON.

    ``documents`` has the paths of those that the answer shows, by their ids.
    """

    number: int
    question: str
    answer: Mapping[str, Any] | None
    asked: float
    documents: Mapping[str, str]
    feedback: Feedback | None

    def list_texts(self) -> list[str]:
        """List all texts of the question, the answer, and what was said of it."""
        said = [] if self.feedback is None else [self.feedback.text]
        return [self.question, *(each for each in _walk(self.answer) if isinstance(each, str)), *said]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation of one person, titled by the beginning of its first question. Nobody can guess its id."""

    id: str
    title: str
    created: float
    updated: float
    turn_count: int


@dataclass(frozen=True)
class ConversationStore:
    """The conversations of a workspace, each of which only its own person reads. Any number of threads share it.

    ``holding`` keeps the workspace from being removed while something is written, which would make it again.
    """

    state: State
    holding: Callable[[], AbstractContextManager[object]] = nullcontext

    def begin(self, user_id: str, question: str, now: float) -> str:
        """Begin a conversation of a person, whose title is the beginning of a question, and return its id."""
        conversation = secrets.token_urlsafe(_ID_BYTES)
        title = " ".join(question.split())[:_TITLE_CHARACTERS]
        with self._writing() as session:
            row = (conversation, user_id, title, now, now)
            session.execute("INSERT INTO conversations VALUES (?, ?, ?, ?, ?)", row)
        return conversation

    def add_turn(
        self,
        conversation: str,
        user_id: str,
        question: str,
        answer: Mapping[str, Any],
        documents: Mapping[str, str],
        now: float,
    ) -> int | None:
        """Add a question and its answer as values for JSON; return the number of the turn, or None if it is another's.

        The passages of the search are left out, as is an answer that shows a document, whose path is given by its id,
        that has been dropped since its ``index_version``.
        """
        with self._writing() as session:
            if not _is_owned(session, conversation, user_id):
                return None
            is_dropped = _is_cleared(session, answer.get("index_version"), documents)
            kept = None if is_dropped else json.dumps({**answer, "hits": []}, ensure_ascii=False)
            named = {} if is_dropped else dict(documents)
            query = "SELECT coalesce(max(number), 0) + 1 FROM turns WHERE conversation = ?"
            number = int(session.execute(query, (conversation,)).fetchone()[0])
            row = (conversation, number, now, question, kept, json.dumps(named, ensure_ascii=False))
            session.execute("INSERT INTO turns VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, NULL)", row)
            session.execute("UPDATE conversations SET updated = ? WHERE id = ?", (now, conversation))
            return number

    def list_of(self, user_id: str, *, limit: int, offset: int = 0) -> tuple[list[Conversation], int]:
        """List some conversations of a person, the latest first, and tell the number of all of them."""
        query = f"{_CONVERSATIONS} WHERE user_id = ? ORDER BY updated DESC, id LIMIT ? OFFSET ?"
        total = "SELECT count(*) FROM conversations WHERE user_id = ?"
        with self.state.reading() as session:
            rows = session.execute(query, (user_id, limit, offset)).fetchall()
            return [Conversation(*row) for row in rows], session.execute(total, (user_id,)).fetchone()[0]

    def find(self, conversation: str, user_id: str) -> Conversation | None:
        """Find a conversation of a person; None if they have no such one."""
        query = f"{_CONVERSATIONS} WHERE id = ? AND user_id = ?"
        with self.state.reading() as session:
            row = session.execute(query, (conversation, user_id)).fetchone()
        return None if row is None else Conversation(*row)

    def read_turns(
        self, conversation: str, user_id: str, *, last: int | None = None
    ) -> list[KeptTurn] | None:
        """Read the turns of a conversation in their order, or the last ones; None if this person has no such one."""
        with self.state.reading() as session:
            if not _is_owned(session, conversation, user_id):
                return None
            return _read_turns(session, conversation, last)

    def remove(self, conversation: str, user_id: str) -> bool:
        """Remove a conversation from the disk, and tell whether this person had it."""
        return self._remove("id = ? AND user_id = ?", conversation, user_id) > 0

    def remove_person(self, user_id: str) -> int:
        """Remove all conversations of a person from the disk, and return their number."""
        return self._remove("user_id = ?", user_id)

    def give_feedback(self, conversation: str, user_id: str, number: int, feedback: Feedback) -> bool:
        """Keep what a person says of an answer, in place of before; return whether this person has such a turn."""
        with self._writing() as session:
            if not _is_owned(session, conversation, user_id):
                return False
            change = "UPDATE turns SET thumb = ?, said = ?, given = ? WHERE conversation = ? AND number = ?"
            row = (feedback.thumb, feedback.text, feedback.given, conversation, number)
            return bool(session.execute(change, row).rowcount)

    def read_judged(self) -> Iterator[tuple[list[KeptTurn], KeptTurn]]:
        """Yield each turn of any person that was judged, after the turns before it in its conversation."""
        with self.state.reading() as session:
            query = "SELECT DISTINCT conversation FROM turns WHERE given IS NOT NULL ORDER BY conversation"
            found = [conversation for (conversation,) in session.execute(query).fetchall()]
            conversations = [_read_turns(session, conversation) for conversation in found]
        for turns in conversations:
            yield from (
                (turns[:place], turn) for place, turn in enumerate(turns) if turn.feedback is not None
            )

    def count(self) -> int:
        """Return the number of conversations of all people."""
        with self.state.reading() as session:
            return int(session.execute("SELECT count(*) FROM conversations").fetchone()[0])

    def clear_answers(
        self, is_held: Callable[[KeptTurn], bool], marks: Collection[str], index_version: str | None
    ) -> int:
        """Take answers that hold what has to go, and questions and feedback that do, off the disk; return their number.

        Later answers from the snapshot of now that show the same, by id or beginning of the path, are not kept.
        """
        if not self.state.exists():
            return 0
        cleared = 0
        with self._writing() as session:
            if index_version is not None:
                session.execute("DELETE FROM cleared WHERE index_version <> ?", (index_version,))
                rows = [(index_version, _hash(mark)) for mark in marks]
                session.executemany("INSERT INTO cleared VALUES (?, ?) ON CONFLICT DO NOTHING", rows)
            for (conversation,) in session.execute("SELECT id FROM conversations").fetchall():
                for turn in filter(is_held, _read_turns(session, conversation)):
                    _clear(session, conversation, turn, is_held)
                    cleared += 1
        self.state.compact()
        return cleared

    def admit_again(self, documents: Collection[str]) -> None:
        """Keep answers that show documents, by id, which were dropped before, and are there again."""
        if documents and self.state.exists():
            with self._writing() as session:
                marks = [(_hash(one),) for one in documents]
                session.executemany("DELETE FROM cleared WHERE mark = ?", marks)

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        with self.holding(), self.state.begin() as session:
            yield session

    def _remove(self, condition: str, *parameters: str) -> int:
        if not self.state.exists():
            return 0
        with self._writing() as session:
            query = f"SELECT id FROM conversations WHERE {condition}"  # noqa: S608 - one of two above
            found = session.execute(query, parameters).fetchall()
            session.executemany("DELETE FROM turns WHERE conversation = ?", found)
            session.executemany("DELETE FROM conversations WHERE id = ?", found)
        if found:
            self.state.compact()
        return len(found)


def list_shown(answer: Mapping[str, Any]) -> dict[str, str]:
    """List the documents that an answer shows: the paths by the ids, wherever in the answer."""
    named = [each for each in _walk(answer) if isinstance(each, Mapping) and "document_id" in each]
    return {str(each["document_id"]): str(each.get("uri", "")) for each in named}


def _walk(value: Any) -> Iterator[Any]:
    """Yield a value for JSON, and all values in it."""
    yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for each in inner:
        yield from _walk(each)


def _is_owned(session: Session, conversation: str, user_id: str) -> bool:
    query = "SELECT 1 FROM conversations WHERE id = ? AND user_id = ?"
    return session.execute(query, (conversation, user_id)).fetchone() is not None


def _read_turns(session: Session, conversation: str, last: int | None = None) -> list[KeptTurn]:
    query = (
        "SELECT number, question, answer, asked, documents, thumb, said, given FROM turns "
        "WHERE conversation = ? ORDER BY number DESC LIMIT ?"
    )
    rows = session.execute(query, (conversation, NO_LIMIT if last is None else last)).fetchall()
    return [
        KeptTurn(
            number,
            question,
            None if answer is None else json.loads(answer),
            asked,
            json.loads(documents),
            None if given[0] is None else Feedback(*given),
        )
        for number, question, answer, asked, documents, *given in reversed(rows)
    ]


def _is_cleared(session: Session, index_version: Any, documents: Mapping[str, str]) -> bool:
    query = "SELECT mark FROM cleared WHERE index_version = ?"
    marks = {mark for (mark,) in session.execute(query, (index_version,)).fetchall()}
    # A beginning of paths is their first folder.
    named = {*documents, *(uri.partition("/")[0] + "/" for uri in documents.values())}
    return any(_hash(name) in marks for name in named)


def _clear(session: Session, conversation: str, turn: KeptTurn, is_held: Callable[[KeptTurn], bool]) -> None:
    """Take an answer out; its question, what was said of it and the title go if they hold it themselves."""
    question, feedback, place = turn.question, turn.feedback, (conversation, turn.number)
    if is_held(KeptTurn(turn.number, question, None, turn.asked, {}, None)):
        question = ""
        if turn.number == 1:
            session.execute("UPDATE conversations SET title = '' WHERE id = ?", (conversation,))
    if feedback is not None and is_held(KeptTurn(turn.number, "", None, turn.asked, {}, feedback)):
        session.execute("UPDATE turns SET said = '' WHERE conversation = ? AND number = ?", place)
    change = (
        "UPDATE turns SET question = ?, answer = NULL, documents = '{}' WHERE conversation = ? AND number = ?"
    )
    session.execute(change, (question, *place))


def _hash(mark: str) -> bytes:
    """Hash the id of a document, which must not stay in a file after it was forgotten."""
    return hashlib.sha256(mark.encode()).digest()
