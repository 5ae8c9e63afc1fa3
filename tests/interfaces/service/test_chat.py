"""Questions over HTTP: answers, conversations that go on, streams, and what of them is kept."""

import httpx2
import pytest

from tests.interfaces.service.running import QUESTION, Running, read_events


def ask(client: httpx2.Client, question: str = QUESTION, **others: object) -> httpx2.Response:
    return client.post("/api/chat/message", json={"question": question, **others})


def test_a_claim_leads_to_its_place(served_once: Running) -> None:
    with served_once.client("ben") as client:
        told = ask(client)
    assert told.status_code == 200
    body = told.json()
    [place, *_] = body["answer"]["claims"][0]["citations"]
    assert (place["title"], place["quote"]) == (
        "Night train",
        "A seat reservation on the night train to Lisbon.",
    )
    assert body["turn"] == 1
    assert served_once.service.root.as_posix() not in told.text


def test_a_follow_up_goes_on_from_the_conversation(served_once: Running) -> None:
    with served_once.client("ben") as client:
        first = ask(client, "What is the sourdough starter made of?").json()
        second = ask(client, "and the backup disk?", conversation_id=first["conversation_id"]).json()
    assert (second["conversation_id"], second["turn"]) == (first["conversation_id"], 2)
    assert second["answer"]["rewritten"] is not None


def test_filters_choose_the_documents(served_once: Running) -> None:
    with served_once.client("ben") as client:
        told = ask(client, filters={"tags": ["moths"]}).json()
        wrong = ask(client, filters={"documents": ["absent.md"]})
        tenant = ask(client, filters={"tenant": "workshop"})
    assert {hit["title"] for hit in told["answer"]["hits"]} <= {"Moths"}
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "unknown_document")
    assert (tenant.status_code, tenant.json()["error"]["code"]) == (400, "input")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "input"),
        ({"question": ""}, "input"),
        ({"question": "  "}, "blank_text"),
        ({"question": 3}, "input"),
        ({"question": "what?", "model": "other"}, "input"),
        ({"question": "what " * 2_000}, "too_long"),
        ({"question": "what?", "as_of": "2024-01-01T00:00:00"}, "no_time_zone"),
    ],
)
@pytest.mark.parametrize("route", ["message", "stream"])
def test_a_question_that_is_none_is_refused_with_the_reason(
    served_once: Running, route: str, body: dict[str, object], code: str
) -> None:
    with served_once.client("ben") as client:
        refused = client.post(f"/api/chat/{route}", json=body)
        if refused.status_code == 200:
            [*_, (name, data)] = read_events(refused)
            assert (name, data["status"], data["error"]["code"]) == ("error", 400, code)
        else:
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)


def test_a_stream_tells_steps_checked_claims_and_the_whole_answer(served_once: Running) -> None:
    with served_once.client("ben") as client:
        with client.stream("POST", "/api/chat/stream", json={"question": QUESTION}) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            events = list(read_events(response))
        names = [name for name, _ in events]
        assert names[:2] == ["routing", "searching"]
        assert names[-2:] == ["citations", "done"]
        done = events[-1][1]
        told = "".join(data["text"] for name, data in events if name == "tokens")
        assert told == done["answer"]["markdown"]
        assert events[-2][1]["claims"] == done["answer"]["claims"]
        kept = client.get(f"/api/conversations/{done['conversation_id']}").json()
        assert kept["history"][0]["answer"] == {**done["answer"], "hits": []}


def test_small_talk_and_what_is_not_said_are_told_as_such(served_once: Running) -> None:
    with served_once.client("ben") as client:
        talk, absent = ask(client, "thanks!").json(), ask(client, "Who won the chess match in Oslo?").json()
    assert (talk["answer"]["kind"], talk["answer"]["hits"]) == ("casual", [])
    assert absent["answer"]["refused"] == "not_in_documents"


def test_search_gives_hits_of_the_tenant(served_once: Running) -> None:
    with served_once.client("ben") as client:
        found = client.post("/api/search", json={"query": "night train", "top_k": 2})
        assert (found.status_code, len(found.json()["hits"])) == (200, 2)
        assert found.json()["hits"][0]["title"] == "Night train"
        for wrong in ({"query": ""}, {"query": "x", "top_k": 0}, {"query": "x", "top_k": 101}, {}):
            assert client.post("/api/search", json=wrong).status_code == 400
