"""Conversations over HTTP: whose they are, their export, and feedback that becomes a set for evaluation."""

import json
from pathlib import Path

import httpx2
import pytest

from backstory.interfaces.library.evaluation import read_question_set
from tests.interfaces.service.running import QUESTION, Running


@pytest.fixture
def conversation(served_once: Running) -> str:
    with served_once.client("ben") as client:
        return str(client.post("/api/chat/message", json={"question": QUESTION}).json()["conversation_id"])


def paths_of(conversation: str) -> list[tuple[str, str]]:
    place = f"/api/conversations/{conversation}"
    return [
        ("GET", place),
        ("GET", f"{place}/export"),
        ("POST", f"{place}/turns/1/feedback"),
        ("DELETE", place),
    ]


def call(client: httpx2.Client, method: str, path: str) -> httpx2.Response:
    return client.request(method, path, json={"thumb": "up"} if method == "POST" else None)


def test_nobody_else_has_a_conversation(served_once: Running, conversation: str) -> None:
    for user, tenant in (("ada", None), ("dora", "garden"), ("dora", "workshop"), ("cleo", None)):
        with served_once.client(user, tenant) as client:
            for method, path in paths_of(conversation):
                refused = call(client, method, path)
                absent = call(client, method, path.replace(conversation, "absent"))
                assert refused.status_code == 404
                assert refused.json() == absent.json()
            listed = client.get("/api/conversations").json()["conversations"]
            assert conversation not in [each["id"] for each in listed]
            for route in ("message", "stream"):
                body = {"question": QUESTION, "conversation_id": conversation}
                asked = client.post(f"/api/chat/{route}", json=body)
                assert (asked.status_code, asked.json()["error"]["code"]) == (404, "unknown_conversation")
    with served_once.client("ben") as client:
        assert client.get(f"/api/conversations/{conversation}").status_code == 200


@pytest.mark.parametrize("name", ["%25", "' OR 1=1 --", "*", "..", "a" * 65, "%2e%2e%2fservice.sqlite"])
def test_ids_that_are_none_find_nothing(served_once: Running, conversation: str, name: str) -> None:
    with served_once.client("ben") as client:
        for method, path in paths_of("ID"):
            refused = call(client, method, path.replace("ID", name))
            assert refused.status_code in {400, 404, 405}
        assert client.get(f"/api/conversations/{conversation}").status_code == 200


def test_a_deleted_conversation_is_gone(served_once: Running, conversation: str) -> None:
    with served_once.client("ben") as client:
        deleted = client.delete(f"/api/conversations/{conversation}")
        assert (deleted.status_code, deleted.content) == (204, b"")
        assert client.get(f"/api/conversations/{conversation}").status_code == 404
        goes_on = {"question": QUESTION, "conversation_id": conversation}
        assert client.post("/api/chat/message", json=goes_on).status_code == 404


def test_pages_of_the_list_follow_each_other(served_once: Running) -> None:
    with served_once.client("cleo") as client:
        for number in range(3):
            client.post("/api/chat/message", json={"question": f"thanks {number}!"})
        first = client.get("/api/conversations", params={"limit": 2}).json()
        rest = client.get("/api/conversations", params={"limit": 2, "offset": first["next_offset"]}).json()
    assert (len(first["conversations"]), first["count"], first["next_offset"]) == (2, 3, 2)
    assert (len(rest["conversations"]), rest["next_offset"]) == (1, None)


def test_exports_hold_questions_answers_and_places(served_once: Running, conversation: str) -> None:
    with served_once.client("ben") as client:
        place = f"/api/conversations/{conversation}/export"
        markdown, values = client.get(place), client.get(place, params={"format": "json"})
        assert client.get(place, params={"format": "pdf"}).status_code == 400
    assert QUESTION in markdown.text
    assert "night-train.md" in markdown.text
    assert f"conversation-{conversation}.md" in markdown.headers["Content-Disposition"]
    assert json.loads(values.text)["history"][0]["question"] == QUESTION


def test_feedback_becomes_a_set_of_questions(served_once: Running, tmp_path: Path) -> None:
    with served_once.client("dora", "workshop") as client:
        asked = [QUESTION, "Who won the chess match in Oslo?", "What needs a plastic elbow?"]
        said = [("up", ""), ("up", "right, we do not know"), ("down", "the wrong pipe")]
        conversation = None
        for number, (question, (thumb, text)) in enumerate(zip(asked, said, strict=True), start=1):
            body = {"question": question, "conversation_id": conversation}
            conversation = client.post("/api/chat/message", json=body).json()["conversation_id"]
            place = f"/api/conversations/{conversation}/turns/{number}/feedback"
            kept = client.post(place, json={"thumb": thumb, "text": text})
            assert (kept.status_code, kept.json()["thumb"]) == (200, thumb)
        assert client.post(place.replace("/3/", "/4/"), json={"thumb": "up"}).status_code == 404
        assert client.post(place, json={"thumb": "sideways"}).status_code == 400
        assert client.post(place, json={"thumb": "up", "text": "x" * 4_001}).status_code == 400
    served_once.service.accounts.grant("ada", "workshop", "owner")
    try:
        with served_once.client("ada", "workshop") as owner:
            exported = owner.get("/api/feedback/export")
    finally:
        served_once.service.accounts.revoke("ada", "workshop")
    assert "dora" not in exported.text
    path = tmp_path / "judged.jsonl"
    path.write_text(exported.text, encoding="utf-8")
    labels = read_question_set(path)
    assert [(label.question, label.group, label.answerable) for label in labels] == [
        (asked[0], "up", True),
        (asked[1], "up", False),
        (asked[2], "down", None),
    ]
    assert labels[0].documents == ("night-train.md",)
    assert labels[0].quotes == ("A seat reservation on the night train to Lisbon.",)
    assert [turn.question for turn in labels[2].history][:1] == [asked[0]]
    assert labels[2].documents == ()
