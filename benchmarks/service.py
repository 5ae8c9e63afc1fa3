"""What a service for many users takes: seconds of each route, processor, memory and descriptors, while many users ask.

``python -m benchmarks.service`` makes a folder of tenants: some with the example's documents and the local model, and
``large`` with documents of words by Zipf's law and the hashing embedder. It starts ``backstory serve`` as a process,
whose users are spread evenly over the tenants. A user thinks for a time, sends a request, reads the whole answer, and
thinks again. The time is drawn from an exponential distribution around ``--think`` seconds, and cut at six times as
much; with ``--think 0`` the next request follows at once, which shows how many can be answered.

Of 100 requests, 45 are questions (`message`), 15 questions whose answer is streamed, 20 searches, 10 lists of documents
and 10 of conversations. Every second question goes on with the user's conversation. No question is asked twice: those
to the example name three words of one of its paragraphs. In the middle of the time, a tenant of the example gets ten
documents and an index job. Each tenant is asked one question before the time begins, so that its workspace is open.

One JSON line with the state of the server follows each minute, or each fifth of a shorter time; the last line has all.
The client is this process. Its processor time is counted apart, and so is that of whatever else runs (``load``, the
average of a minute, at the beginning and at the end).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.loopback_client import LoopbackClient
from benchmarks.service_folder import LARGE, Member, Tenant, write_service

_MIX: Final = {"message": 45, "stream": 15, "search": 20, "documents": 10, "conversations": 10}
_LONGEST_THOUGHT: Final = 6
_ADDED: Final = 10
_JOB: Final = "job"
_EVERY: Final = 60.0
"""Seconds of the first period, and between two looks at the server."""
_PATIENCE: Final = 120.0
"""Seconds after which a request counts as failed."""
_COMMAND: Final = [sys.executable, "-c", "from backstory.interfaces.cli.app import main; main()", "serve"]
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MEGABYTE: Final = 1 << 20
_QUANTILES: Final = (50, 95, 99)


@dataclass(frozen=True)
class Load:
    """What is asked of the service.

    Attributes:
        users: Users at the same time.
        seconds: Seconds for which they ask.
        think: Mean seconds between an answer and the next request of a user; 0 for none.
        index_after: Seconds after which an index job begins; None for no job.
        requests: Most requests of a user; None for as many as the time permits.
        seed: Draws the users' choices.
    """

    users: int
    seconds: float
    think: float
    index_after: float | None = None
    requests: int | None = None
    seed: int = 1


@dataclass
class Figures:
    """What was measured.

    Attributes:
        seconds: Seconds of each answered request, by period and route. In the first minute, the model embeds most
            of the sentences that later answers compare.
        answers: Number of answers by route and status, or by the error of the connection.
        refused: Questions that the documents did not answer, by tenant.
        states: State of the server at some moments.
        index_seconds: Seconds from the request of the index job to its end; None without one.
    """

    seconds: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(dict))
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    states: list[dict[str, float]] = field(default_factory=list)
    index_seconds: float | None = None


@dataclass
class _User:
    """One user, and the conversation that they are in.

    Attributes:
        member: The user.
        tenant: The tenant whose documents they ask.
        clients: A connection for each of their tokens, which take turns.
        draw: Draws their choices.
        conversation: Id of their conversation; None before the first one.
        sent: Number of requests so far.
    """

    member: Member
    tenant: Tenant
    clients: Sequence[LoopbackClient]
    draw: random.Random
    conversation: str | None = None
    sent: int = 0

    def choose_request(self) -> tuple[str, str, str, object]:
        """Choose what to ask next: the name of the route, the method, the path and the body."""
        [name] = self.draw.choices(list(_MIX), list(_MIX.values()))
        question = self.tenant.make_question(self.draw)
        if name == "search":
            return name, "POST", "/api/search", {"query": question, "top_k": 10}
        if name == "documents":
            return name, "GET", "/api/documents?limit=50", None
        if name == "conversations":
            return name, "GET", "/api/conversations?limit=20", None
        goes_on = self.conversation is not None and self.draw.random() < 0.5
        body = {"question": question, "conversation_id": self.conversation if goes_on else None}
        return name, "POST", f"/api/chat/{name}", body

    async def ask(self, figures: Figures, period: str) -> None:
        """Send one request, and count its answer.

        Args:
            figures: Takes what is measured.
            period: When it begins.
        """
        name, method, path, body = self.choose_request()
        client = self.clients[self.sent % len(self.clients)]
        self.sent += 1
        kind = LARGE if self.tenant.name == LARGE else "example"
        route = f"{name}, {kind}"
        began = time.perf_counter()
        try:
            async with asyncio.timeout(_PATIENCE):
                reply = await client.send(method, path, body)
        except (OSError, EOFError) as error:
            figures.answers[route, type(error).__name__] += 1
            return
        taken = time.perf_counter() - began
        outcome = str(reply.status)
        if reply.status == 200:
            figures.seconds[period].setdefault(route, []).append(taken)
            if name in ("message", "stream"):
                found = json.loads(reply.body) if name == "message" else _read_end(reply.body)
                outcome = outcome if found else "unfinished stream"
                if found:
                    self.conversation = found["conversation_id"]
                    figures.refused[kind] += found["answer"]["refused"] is not None
        figures.answers[route, outcome] += 1


def _read_end(body: bytes) -> dict[str, Any] | None:
    """Read the data of the last event of a stream; None unless it is that of a whole answer."""
    name, _, data = body.strip().rpartition(b"\n\n")[2].partition(b"\ndata: ")
    found: dict[str, Any] | None = json.loads(data) if name == b"event: done" else None
    return found


def read_state(process: int, began: float) -> dict[str, float]:
    """Read the memory in MB, the open descriptors, the threads and the CPU seconds of a process and its children.

    Args:
        process: Id of the process.
        began: When the measurement began, by ``time.perf_counter``.
    """
    folder = Path("/proc", str(process))
    status = dict(line.split(":", 1) for line in (folder / "status").read_text(encoding="utf-8").splitlines())
    times = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:15]
    return {
        "second": round(time.perf_counter() - began, 1),
        "rss_mb": round(int(status["VmRSS"].split()[0]) * 1024 / _MEGABYTE, 1),
        "peak_mb": round(int(status["VmHWM"].split()[0]) * 1024 / _MEGABYTE, 1),
        "descriptors": len(list((folder / "fd").iterdir())),
        "threads": int(status["Threads"]),
        "cpu_seconds": round(sum(map(int, times)) / _TICKS, 2),
    }


@asynccontextmanager
async def serving(root: Path, key_file: Path) -> AsyncIterator[tuple[int, int, list[str]]]:
    """Serve a folder by the command; yield the id of the process, its port, and what it writes to standard error."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, "--root", str(root), "--key-file", str(key_file), "--port", "0",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said: list[str] = []
    assert process.stderr is not None
    try:
        address = (await process.stderr.readline()).decode()
        if "http://" not in address:
            raise SystemExit(f"the server did not start: {address}{(await process.stderr.read()).decode()}")
        listening = asyncio.ensure_future(_drain(process.stderr, said))
        yield process.pid, int(address.rpartition(":")[2]), said
        process.terminate()
        await process.wait()
        await listening
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _drain(stream: asyncio.StreamReader, said: list[str]) -> None:
    said.extend([line.decode().rstrip() async for line in stream])


def _make_users(port: int, tenants: Sequence[Tenant], members: Iterable[Member], load: Load) -> list[_User]:
    named = {tenant.name: tenant for tenant in tenants}
    return [
        _User(
            member,
            named[member.tenant],
            _open_clients(port, member.tokens),
            random.Random(f"{load.seed} {number}"),
        )
        for number, member in enumerate(members)
    ]


def _open_clients(port: int, tokens: Iterable[str]) -> list[LoopbackClient]:
    return [LoopbackClient(port, {"Authorization": f"Bearer {token}"}) for token in tokens]


async def _use(user: _User, load: Load, end: float, figures: Figures) -> None:
    """Let a user ask and think until the end; a request that is under way then is waited for."""
    await asyncio.sleep(user.draw.uniform(0, load.think))
    while time.perf_counter() < end and user.sent != load.requests:
        is_first = end - time.perf_counter() > load.seconds - _EVERY
        await user.ask(figures, "first minute" if is_first else "later")
        if load.think:
            thought = user.draw.expovariate(1 / load.think)
            left = max(0.0, end - time.perf_counter())
            await asyncio.sleep(min(thought, _LONGEST_THOUGHT * load.think, left))


async def _index(user: _User, client: LoopbackClient, folder: Path, after: float, figures: Figures) -> None:
    """Add documents to the tenant of a user, and request an index job, until it ends."""
    await asyncio.sleep(after)
    draw = random.Random(_ADDED)
    for number in range(_ADDED):
        text = " ".join(user.tenant.make_question(draw) for _ in range(60))
        path = folder / "posts" / f"added-{number}.md"
        path.write_text(f"# Added {number}\n\n{text}\n", encoding="utf-8")
    began = time.perf_counter()
    job = json.loads((await client.send("POST", "/api/index")).body)
    while job["state"] in ("PENDING", "PROCESSING"):
        await asyncio.sleep(1)
        job = json.loads((await client.send("GET", f"/api/jobs/{job['job_id']}")).body)
    client.close()
    figures.answers[_JOB, job["state"]] += 1
    figures.index_seconds = round(time.perf_counter() - began, 1)


async def _watch(process: int, began: float, every: float, figures: Figures) -> None:
    while True:
        await asyncio.sleep(every)
        figures.states.append(read_state(process, began))
        print(json.dumps(figures.states[-1]), flush=True)


def summarize(figures: Figures, load: Load) -> dict[str, Any]:
    """Give the figures by name: durations in milliseconds by period and route, all others in seconds.

    Args:
        figures: What was measured, with the states of the server at the beginning and at the end.
        load: What was asked.
    """
    first, last = figures.states[0], figures.states[-1]
    requests = sum(count for (route, _), count in figures.answers.items() if route != _JOB)
    errors: Counter[str] = Counter()
    for (_, outcome), count in figures.answers.items():
        if outcome not in ("200", "COMPLETED"):
            errors[outcome] += count
    took = last["second"] - first["second"]
    used = last["cpu_seconds"] - first["cpu_seconds"]
    return {
        "users": load.users,
        "think": load.think,
        "seconds": round(took, 1),
        "requests": requests,
        "requests_per_second": round(requests / took, 2),
        "errors": dict(errors),
        "milliseconds": {
            period: {route: _describe_times(taken) for route, taken in sorted(by_route.items())}
            for period, by_route in figures.seconds.items()
        },
        "refused": dict(figures.refused),
        "index_seconds": figures.index_seconds,
        "server_cpu_seconds": round(used, 1),
        "server_cpu_ms_per_request": round(1000 * used / max(1, requests), 1),
        "states": figures.states,
    }


def _describe_times(seconds: Sequence[float]) -> dict[str, float]:
    shares = {f"p{share}": round(1000 * float(np.percentile(seconds, share)), 1) for share in _QUANTILES}
    return {"requests": len(seconds), **shares}


async def _run(
    root: Path, key_file: Path, tenants: Sequence[Tenant], members: Sequence[Member], load: Load
) -> dict[str, Any]:
    figures = Figures()
    async with serving(root, key_file) as (process, port, said):
        users = _make_users(port, tenants, members, load)
        for user in {user.tenant.name: user for user in users}.values():
            question = {"question": user.tenant.make_question(user.draw)}
            await user.clients[0].send("POST", "/api/chat/message", question)
        began, load_before, used = time.perf_counter(), os.getloadavg()[0], _count_cpu()
        figures.states.append(read_state(process, began))
        watching = asyncio.ensure_future(_watch(process, began, min(_EVERY, load.seconds / 5), figures))
        work = [_use(user, load, began + load.seconds, figures) for user in users]
        if load.index_after is not None:
            editor = users[0]
            [client] = _open_clients(port, editor.member.tokens[:1])
            folder = root / "tenants" / editor.tenant.name
            work.append(_index(editor, client, folder, load.index_after, figures))
        await asyncio.gather(*work)
        watching.cancel()
        figures.states.append(read_state(process, began))
        client_seconds = _count_cpu() - used
        for client in (client for user in users for client in user.clients):
            client.close()
    return {
        **summarize(figures, load),
        "client_cpu_seconds": round(client_seconds, 1),
        "load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "said": said[:20],
    }


def _count_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(load: Load, *, tenants: int, chunks: int) -> dict[str, Any]:
    """Make a service, and let users ask it.

    Args:
        load: What is asked.
        tenants: Tenants with the example's documents.
        chunks: Chunks of the large tenant, about.

    Returns:
        The figures by name; see :func:`summarize`.
    """
    with tempfile.TemporaryDirectory() as place:
        root, key_file = Path(place) / "service", Path(place) / "service.key"
        made, members = write_service(
            root, key_file, tenants=tenants, chunks=chunks, users=load.users, is_closed=not load.think
        )
        return asyncio.run(_run(root, key_file, made, members, load))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("--users", type=int, default=50, help="users at the same time")
    parser.add_argument("--seconds", type=float, default=300.0, help="seconds for which they ask")
    parser.add_argument("--think", type=float, default=10.0, help="mean seconds of thinking; 0 for none")
    parser.add_argument("--tenants", type=int, default=3, help="tenants with the example's documents")
    parser.add_argument("--chunks", type=int, default=10_000, help="chunks of the large tenant, about")
    parser.add_argument("--without-index", action="store_true", help="run no index job in the middle")
    options = parser.parse_args()
    after = None if options.without_index else options.seconds / 2
    load = Load(options.users, options.seconds, options.think, after)
    print(json.dumps(measure(load, tenants=options.tenants, chunks=options.chunks)))


if __name__ == "__main__":
    main()
