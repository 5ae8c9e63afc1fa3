"""Nothing that a service says or keeps of chats holds a real name, a phone number, a key or a token.

What it logs, traces and counts is searched, and every file and every cell below its folder, beside what people gave it:
documents, chats, and the questions of conversations. A real process serves, whose models repeat its keys in errors.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from pydantic import SecretStr

from backstory.base.environment import ANSWER_KEY_VARIABLE, COLLECTOR_VARIABLE, LOG_FORMAT_VARIABLE
from backstory.interfaces.service.opening import ServiceFolder, open_service_folder
from tests.environment import KEY
from tests.ingest.privacy.test_everything_written import (
    CHAT,
    OTHER_CHATS,
    PHONE,
    echo_the_key,
    find_held,
    read_cells,
)
from tests.interfaces.library.conftest import write_documents
from tests.loopback import run_server
from tests.models.services.chat_server import refuse, run_chat_server
from tests.models.services.gemini_server import run_gemini_server
from tests.pipelines.ui_process import wait_for
from tests.started_python import StartedPython

QUESTION = f"What did Ada Lind tell {PHONE} of the drip irrigation line?"
USER = "zelda77"
SETTINGS = """\
embedding: {{provider: gemini, dimension: 16}}
services:
  gemini: {{base_url: '{gemini}', texts_per_minute: 10000}}
  mine: {{kind: openai, base_url: '{model}', max_attempts: 1}}
answers: {{provider: mine, model: tiny}}
partitions: {{start: 2025-03-01}}
"""
PROGRAM = "from backstory.interfaces.cli.app import main; main()"


def write_service(root: Path, settings: str) -> tuple[ServiceFolder, str]:
    """Make a service with one tenant, whose chats are full of names, and a user; return its parts and the token."""
    parts = open_service_folder(root, root.with_name("service.key"), makes=True)
    write_documents(root / "tenants" / "acme", settings)
    chats = root / "tenants" / "acme" / "chats"
    for name, text in {"WhatsApp_Chat_with_Ada_Lind.txt": CHAT, **OTHER_CHATS}.items():
        (chats / name).parent.mkdir(parents=True, exist_ok=True)
        (chats / name).write_text(text, encoding="utf-8")
    (chats / "Ben Okri").mkdir()
    (chats / "Ben Okri" / "damaged.zip").write_bytes(b"PK\x03\x04 of Ben Okri")
    for name in ("GEMINI_API_KEY", ANSWER_KEY_VARIABLE):
        parts.keys.seal("acme", name, SecretStr(KEY))
    parts.accounts.add_user(USER)
    parts.accounts.grant(USER, "acme", "owner")
    return parts, parts.accounts.make_token(USER)


@contextmanager
def serving(root: Path, said: list[str], **variables: str) -> Iterator[str]:
    """Serve by the command, yield the address, and end it; what it says follows in a list."""
    words = ["serve", "--root", str(root), "--key-file", str(root.with_name("service.key")), "--port", "0"]
    process = StartedPython(
        ["-c", PROGRAM, *words],
        stderr=subprocess.PIPE,
        env={**os.environ, **variables, "NO_PROXY": "127.0.0.1"},
    )
    assert process.stderr is not None
    try:
        first = process.stderr.readline()
        said.append(first)
        yield f"http://127.0.0.1:{int(first.rpartition(':')[2])}"
        process.send_signal(signal.SIGTERM)
        said.append(process.communicate(timeout=60)[1])
    finally:
        process.kill()
        process.wait()


def index(client: httpx2.Client) -> str:
    """Have a job index, and return how it ended."""
    job = client.post("/api/index").json()

    def read_state() -> str:
        state: str = client.get(f"/api/jobs/{job['job_id']}").json()["state"]
        return state

    wait_for(lambda: read_state() not in ("PENDING", "PROCESSING"), "the job has ended", 120)
    return read_state()


def test_nothing_that_a_service_says_or_keeps_holds_a_name_a_number_a_key_or_a_token(tmp_path: Path) -> None:
    root, said = tmp_path / "service", list[str]()
    with run_gemini_server() as gemini, run_chat_server() as model, run_server() as collector:
        _, token = write_service(root, SETTINGS.format(gemini=gemini.url, model=model.url))
        gemini.script.append(echo_the_key)
        model.always = refuse(400, f"API key {KEY} is not valid")
        variables = {COLLECTOR_VARIABLE: collector.url, LOG_FORMAT_VARIABLE: "json"}
        headers = {"Authorization": f"Bearer {token}"}
        with (
            serving(root, said, **variables) as address,
            httpx2.Client(base_url=address, headers=headers, timeout=60) as client,
        ):
            assert index(client) == "FAILED"
            gemini.script.clear()
            index(client)
            assert client.post("/api/search", json={"query": QUESTION}).json()["hits"]
            refused = client.post("/api/chat/message", json={"question": QUESTION})
            streamed = client.post("/api/chat/stream", json={"question": QUESTION})
            assert (refused.status_code, "event: error" in streamed.text) == (503, True)
            unknown = client.get("/api/documents/Ada Lind")
            wrong = client.get("/api/documents", headers={"Authorization": f"Bearer {token[:-1]}"})
            assert (unknown.status_code, wrong.status_code) == (404, 401)
            said.append(client.get("/metrics").text)
            # Errors repeat the question and the name that their client has sent, but no key.
            assert not any(KEY in answer.text for answer in (refused, streamed, unknown, wrong))
    traces = [request.body.decode(errors="replace") for request in collector.received]
    assert any("backstory" in text for text in traces)
    assert any('"event"' in text and "[key]" in text for text in said)
    assert [find_held(text) for text in (*said, *traces)] == [[]] * (len(said) + len(traces))
    assert not any(secret in text for text in (*said, *traces) for secret in (token, USER))

    given = [root / "tenants" / "acme" / name for name in ("chats", "posts")]
    held = {}
    for path in (path for path in root.rglob("*") if path.is_file()):
        if any(path.is_relative_to(folder) for folder in given) or path.name.startswith("state.sqlite"):
            continue
        texts = [str(path.relative_to(root)), path.read_bytes().decode(errors="replace"), *read_cells(path)]
        found = {name for text in texts for name in find_held(text)}
        if found := found | {"token" for text in texts if token in text}:
            held[str(path.relative_to(root))] = found
    assert held == {}
    # The chats were read, and the search finds what they hold.
    assert (root / "tenants" / "acme" / "data" / "messages").is_dir()
    assert find_held(CHAT)
