"""Stored answers after what they quote has left the documents, and chat while an index is made."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from backstory.base.errors import InputError
from backstory.interfaces.library.library import Library
from backstory.interfaces.service.opening import ServiceFolder
from backstory.interfaces.service.service import ServiceLimits
from backstory.operations.forgetting import forget
from backstory.pipeline.workspace import open_workspace
from backstory.storage.conversations import Feedback
from tests.errors import raises
from tests.interfaces.service.running import QUESTION, Running, running, write_service

QUOTE = b"A seat reservation on the night train to Lisbon."


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    service, tokens = write_service(
        service_root, indexed_once.workspace.root, ServiceLimits(requests_at_once=1_000)
    )
    with running(service, tokens) as started:
        yield started


def ask(client: httpx2.Client, question: str = QUESTION) -> str:
    return str(client.post("/api/chat/message", json={"question": question}).json()["conversation_id"])


def read_file(served: Running) -> bytes:
    folder = served.service.tenants.folder("garden") / ".backstory"
    return b"".join(path.read_bytes() for path in folder.glob("state.sqlite*"))


def read_answers(client: httpx2.Client, conversation: str) -> list[bool]:
    history = client.get(f"/api/conversations/{conversation}").json()["history"]
    return [turn["answer"] is not None for turn in history]


@pytest.mark.parametrize("way", ["remove", "delete", "forget"])
def test_a_removed_document_leaves_the_answers(served: Running, way: str) -> None:
    with served.client("ben") as client:
        quoting, other = ask(client), ask(client, "thanks!")
        assert QUOTE in read_file(served)
        with served.service.tenants.entering("garden") as library:
            if way == "remove":
                assert library.remove("night-train.md").success
            elif way == "delete":
                (library.workspace.documents_dir / "night-train.md").unlink()
                assert library.index().success
            else:
                assert forget(open_workspace(library.workspace.root), "document", "night-train.md").left == {}
        assert QUOTE not in read_file(served)
        assert b"night-train" not in read_file(served)
        assert read_answers(client, quoting) == [False]
        assert read_answers(client, other) == [True]
        exported = client.get(f"/api/conversations/{quoting}/export")
        assert exported.status_code == 200
        assert "was removed" in exported.text


def test_chat_goes_on_from_the_last_snapshot_while_a_job_runs(served: Running) -> None:
    garden = served.service.tenants.folder("garden")
    with served.client("ben") as client:
        before = client.post("/api/chat/message", json={"question": QUESTION}).json()["answer"]
        for number in range(40):
            (garden / "posts" / f"more-{number}.md").write_text(
                f"# More {number}\n\nLamp {number}.\n", "utf-8"
            )
        job = served.service.jobs.submit("garden", "somebody")
        told = client.post("/api/chat/message", json={"question": QUESTION})
        assert told.status_code == 200
        assert told.json()["answer"]["claims"][0]["citations"] == before["claims"][0]["citations"]
        served.service.jobs.wait("garden")
        assert served.service.jobs.store("garden").read(job.job_id).state == "COMPLETED"


def test_the_first_indexing_is_told_with_its_progress(indexed_once: Library, service_root: Path) -> None:
    service, tokens = write_service(
        service_root, indexed_once.workspace.root, ServiceLimits(requests_at_once=1_000)
    )
    service.tenants.create("library")
    with service.tenants.entering("library") as library:
        posts = library.workspace.documents_dir
    (posts / "night-train.md").write_text(
        "# Night train\n\nA seat reservation on the night train to Lisbon.\n"
    )
    service.accounts.grant("eli", "library", "owner")
    with running(service, tokens) as started, started.client("eli") as client:
        empty = client.post("/api/chat/message", json={"question": QUESTION})
        assert (empty.status_code, empty.json()["answer"]["refused"]) == (200, "no_index")
        assert str(service.root) not in empty.text
        search = client.post("/api/search", json={"query": QUESTION})
        assert (search.status_code, search.json()["error"]["code"]) == (409, "no_index")
        # A job that nobody works on yet: the request is written before a thread takes it.
        job = service.jobs.store("library").request("eli")
        for route in ("message", "stream"):
            waiting = client.post(f"/api/chat/{route}", json={"question": QUESTION})
            assert (waiting.status_code, waiting.json()["state"]) == (202, "indexing")
            assert waiting.json()["job"]["job_id"] == job.job_id
            assert int(waiting.headers["Retry-After"]) > 0
        service.jobs.submit("library", "eli")
        service.jobs.wait("library")
        assert client.post("/api/chat/message", json={"question": QUESTION}).json()["answer"]["claims"]


def test_questions_in_many_threads_at_once_all_get_their_own_answers(served: Running) -> None:
    asked = {
        "What does the night train to Lisbon need?": "night-train.md",
        "What did the clicking backup disk hold?": "backup-disk.md",
        "How did we lay the drip irrigation line?": "drip-irrigation.md",
    }
    wrong: list[str] = []

    def ask_all(user: str) -> None:
        with served.client(user, "garden") as client:
            for question, uri in list(asked.items()) * 3:
                answer = client.post("/api/chat/message", json={"question": question}).json()["answer"]
                if uri not in [place["uri"] for claim in answer["claims"] for place in claim["citations"]]:
                    wrong.append(question)

    threads = [
        threading.Thread(target=ask_all, args=(user,)) for user in ("ada", "ben", "dora") for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_conversation_does_not_bring_a_removed_tenant_back(served: Running) -> None:
    store = served.service.conversations("workshop")
    kept = store.begin("cleo", "what?", 1.0)
    assert served.service.tenants.remove("workshop").is_complete
    with raises(InputError, "unknown_tenant"):
        store.begin("cleo", "what?", 2.0)
    with raises(InputError, "unknown_tenant"):
        store.give_feedback(kept, "cleo", 1, Feedback("up", "", 3.0))
    assert not store.remove(kept, "cleo")
    assert [path.name for path in (served.service.root / "tenants").iterdir()] == ["garden"]


def test_a_question_that_is_under_way_keeps_nothing_of_a_user_who_is_removed(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = served.service
    folder = ServiceFolder(service.accounts, service.tenants.keys, service.tenants)
    answer = Library.answer

    def answer_late(self: Library, question: str, **named: Any) -> Any:
        answered = answer(self, question, **named)
        assert folder.remove_user("ben") == 0
        return answered

    monkeypatch.setattr(Library, "answer", answer_late)
    with served.client("ben") as client:
        asked = client.post("/api/chat/message", json={"question": QUESTION})
    assert asked.json()["error"]["code"] == "unknown_conversation"
    assert service.conversations("garden").count() == 0
    assert QUESTION.encode() not in read_file(served)


def test_a_user_who_is_kept_out_while_a_question_is_answered_keeps_the_conversations_before(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts, answer = served.service.accounts, Library.answer
    kept = served.service.conversations("garden")
    [ben] = [user.user_id for user in accounts.list_users() if user.name == "ben"]
    before = kept.begin(ben, "What did I ask?", 1.0)

    def answer_late(self: Library, question: str, **named: Any) -> Any:
        answered = answer(self, question, **named)
        accounts.revoke_all("ben")
        return answered

    monkeypatch.setattr(Library, "answer", answer_late)
    with served.client("ben") as client:
        asked = client.post("/api/chat/message", json={"question": QUESTION})
    assert asked.json()["error"]["code"] == "unknown_conversation"
    assert kept.count() == 1
    assert kept.find(before, ben) is not None
