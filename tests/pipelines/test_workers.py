"""Workers of several machines make the tables that one machine makes, and what fails between them changes nothing."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from threading import Event, Timer

import pytest

from backstory import run_pipeline
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import open_workspace
from benchmarks.synthetic_workspace import Size
from benchmarks.synthetic_workspace import write_workspace as write_year
from benchmarks.workers import hash_tables
from tests.bucket import Bucket
from tests.models.services.chat_server import ChatReply, ChatRequest, ChatServer
from tests.models.services.embedding_answers import embed
from tests.pipelines.machines import KEY, Machines, share
from tests.pipelines.ui_process import wait_for
from tests.postgres import PostgresServer
from tests.workspaces import POSTS, SETTINGS

pytestmark = pytest.mark.long

DAYS = [str(date(2025, 3, 1) + timedelta(days=place)) for place in range(40)]
DAYS_PER_RUN = 14
RUNS = 3
WORKERS = ("one", "two")
AWAY_SECONDS = 60.0
SUBJECTS = (
    "the drip line",
    "a clicking disk",
    "the sourdough",
    "the night train",
    "the wheel of the trolley",
)


@dataclass
class Embeddings:
    """A service that counts texts, and can be told to hold its answers back in the middle of the work.

    Attributes:
        chat: The server.
        held: Texts of the requests that wait for an answer.
        go_on: Set when they are answered, and no more are held.
    """

    chat: ChatServer
    held: list[str] = field(default_factory=list)
    go_on: Event = field(default_factory=Event)

    def answer(self, request: ChatRequest) -> ChatReply:
        """Answer texts of documents at once, and those of messages when it is time."""
        texts = request.body["input"]
        if not self.go_on.is_set() and any(text.startswith("On day ") for text in texts):
            self.held += texts
            self.go_on.wait()
        return embed(request)

    def find_needless(self, lost: Iterable[str] = ()) -> Counter[str]:
        """Count what was sent beyond once for each run that needs a text, and again for each answer that was lost."""
        sent = Counter(text for request in self.chat.requests for text in request.body["input"])
        return sent - Counter(lost) - Counter({text: len(find_runs(text)) for text in sent})

    def holds(self, runs: int) -> bool:
        """Return whether texts of so many runs wait for an answer."""
        return len({min(find_runs(text)) for text in list(self.held) if text.startswith("On day ")}) >= runs


def find_runs(text: str) -> set[int]:
    """Return which runs need a text, and may send it at the same moment.

    All need that of a document; that of a message is needed with its day and with the next one, which begins with it.
    """
    if not text.startswith("On day "):
        return set(range(RUNS))
    day = int(text.split()[2])
    return {day // DAYS_PER_RUN, (day + 1) // DAYS_PER_RUN}


def write_inputs(root: Path) -> None:
    """Write a chat of forty days, and documents."""
    for folder in ("chats", "posts"):
        (root / folder).mkdir(parents=True)
    lines = [
        f"{day[8:]}/{day[5:7]}/{day[:4]}, {9 + place}:00 - {('Ada Lind', 'Ben Okri')[place % 2]}: "
        f"On day {number} somebody asks about {SUBJECTS[(number + place) % len(SUBJECTS)]}"
        for number, day in enumerate(DAYS)
        for place in range(6)
    ]
    (root / "chats" / "garden.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for file, (title, day, text) in POSTS.items():
        (root / "posts" / file).write_text(
            f"---\ntitle: {title}\ndate: {day}\n---\n\n{text}\n", encoding="utf-8"
        )


def write_key(root: Path) -> None:
    """Give the workspace of one machine the key that the others have in their environment."""
    secret = root / ".backstory" / "secret.key"
    secret.parent.mkdir()
    secret.write_text(f"{KEY}\n", encoding="ascii")
    secret.chmod(0o600)


@pytest.fixture(name="embeddings")
def serve_embeddings(chat: ChatServer) -> Iterator[Embeddings]:
    """Give a service that holds nothing back."""
    embeddings = Embeddings(chat)
    embeddings.go_on.set()
    chat.always = embeddings.answer
    yield embeddings
    embeddings.go_on.set()


@pytest.fixture(name="settings")
def make_settings(embeddings: Embeddings) -> str:
    """Give settings with the service, and several runs for a backfill of all days."""
    return (
        SETTINGS.replace("hashing", "openai, model: tiny, dimension: 16").replace(
            "2025-03-01", f"2025-03-01, days_per_run: {DAYS_PER_RUN}"
        )
        + f"services: {{openai: {{base_url: '{embeddings.chat.url}', requests_per_minute: 10000, "
        "timeout_seconds: 900}}\n"  # a call that is held is not made again, however slow the machine
    )


@pytest.fixture(name="alone")
def make_alone(tmp_path: Path, settings: str, embeddings: Embeddings) -> set[str]:
    """Make the tables on one machine, and give the names of their files, which hold hashes."""
    write_inputs(tmp_path)
    (tmp_path / "backstory.yaml").write_text(settings, encoding="utf-8")
    write_key(tmp_path)
    run_pipeline(open_workspace(tmp_path))
    embeddings.chat.requests.clear()
    return hash_tables(tmp_path)


@pytest.fixture(name="machines")
def start_machines(
    open_folder: Path,
    tmp_path: Path,
    alone: set[str],
    settings: str,
    postgres_server: PostgresServer,
    bucket: Bucket,
) -> Iterator[Machines]:
    """Give machines with the inputs of the one that has worked alone; none runs yet."""
    assert alone
    with share(open_folder, tmp_path, settings, postgres_server, bucket) as machines:
        yield machines
        for name in list(machines.processes):
            machines.kill(name)
        assert machines.find_strays() == []


def start(machines: Machines) -> None:
    """Start two workers, and the daemon that gives them the runs that wait."""
    for name in WORKERS:
        machines.start_worker(name)
    machines.start_daemon()


def stop_in_the_middle(machines: Machines, embeddings: Embeddings) -> None:
    """Queue a backfill of three runs, and wait until each worker waits for vectors of one of them."""
    embeddings.go_on.clear()
    machines.backfill(DAYS)
    start(machines)
    wait_for(lambda: embeddings.holds(len(WORKERS)), "each worker executes a run")


def fetch_tables(machines: Machines) -> set[str]:
    """Read the tables as a further machine does, which has made none of them."""
    return hash_tables(machines.workspace("reader"))


def test_two_workers_make_what_one_machine_makes(
    machines: Machines, alone: set[str], embeddings: Embeddings
) -> None:
    machines.backfill(DAYS)
    start(machines)
    machines.wait_until_ended(RUNS)
    assert machines.list_failed() == {}
    times = machines.list_times()
    assert any(begin < end for (_, end), (begin, _) in pairwise(times))  # at the same time
    assert times[-1][0] > min(end for _, end in times)  # until then, the third run waits in Dagster's queue
    assert fetch_tables(machines) == alone
    assert not embeddings.find_needless()


@pytest.mark.parametrize("killed", [("one",), WORKERS], ids=["one", "both"])
def test_the_runs_of_killed_workers_are_done_again(
    machines: Machines, alone: set[str], embeddings: Embeddings, killed: tuple[str, ...]
) -> None:
    stop_in_the_middle(machines, embeddings)
    for name in killed:
        machines.kill(name)
    in_flight = list(embeddings.held)
    embeddings.go_on.set()
    if killed == WORKERS:
        for name in killed:
            machines.start_worker(name)
    machines.wait_until_ended(RUNS)
    assert machines.list_failed() == {}
    assert fetch_tables(machines) == alone
    assert not embeddings.find_needless(in_flight)


def restart_database(server: PostgresServer, _: Bucket) -> None:
    server.stop()
    server.start()


def hide_store(_: PostgresServer, bucket: Bucket) -> None:
    """Stop the store, and start it after a minute."""
    bucket.stop()
    Timer(AWAY_SECONDS, bucket.start).start()


@pytest.mark.parametrize("fail", [restart_database, hide_store])
def test_servers_that_are_away_for_a_while_change_nothing(
    machines: Machines,
    alone: set[str],
    embeddings: Embeddings,
    postgres_server: PostgresServer,
    bucket: Bucket,
    fail: Callable[[PostgresServer, Bucket], None],
) -> None:
    stop_in_the_middle(machines, embeddings)
    fail(postgres_server, bucket)
    embeddings.go_on.set()
    machines.wait_until_ended(RUNS)
    assert machines.list_failed() == {}
    assert fetch_tables(machines) == alone
    assert not embeddings.find_needless()


def test_what_has_failed_is_made_by_the_next_backfill(
    machines: Machines, alone: set[str], embeddings: Embeddings, bucket: Bucket
) -> None:
    stop_in_the_middle(machines, embeddings)
    bucket.fault = lambda *_: "refused"
    embeddings.go_on.set()
    machines.wait_until_ended(RUNS)
    failed = machines.list_failed()
    assert len(failed) == RUNS
    bucket.fault = lambda *_: None
    machines.backfill(DAYS)
    machines.wait_until_ended(2 * RUNS)
    assert machines.list_failed() == failed
    assert fetch_tables(machines) == alone
    assert not embeddings.find_needless()


def test_two_backfills_and_a_command_at_the_same_time_make_what_one_run_makes(
    machines: Machines, alone: set[str], embeddings: Embeddings
) -> None:
    machines.backfill(DAYS[: 2 * DAYS_PER_RUN])
    machines.backfill(DAYS[DAYS_PER_RUN:])
    start(machines)
    wait_for(lambda: bool(machines.runs()), "the first run of a backfill")
    command = machines.run("three", "run")
    assert command.wait() == 0
    machines.wait_until_ended(4)
    assert machines.list_failed() == {}
    assert fetch_tables(machines) == alone
    assert not embeddings.find_needless()


def test_a_year_of_two_workers_is_that_of_one_machine(
    tmp_path: Path, open_folder: Path, postgres_server: PostgresServer, bucket: Bucket
) -> None:
    root = tmp_path / "alone"
    write_year(root, Size(windows=365, messages=50, documents=400), embedder="hashing", export="whatsapp")
    settings = (root / "backstory.yaml").read_text(encoding="utf-8")
    settings = settings.replace("2025-01-01", "2025-01-01, days_per_run: 31")
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    write_key(root)
    with share(open_folder, root, settings, postgres_server, bucket) as machines:
        machines.backfill(find_partitions(open_workspace(root)))
        start(machines)
        machines.wait_until_ended(12)
        used = [machines.kill(name) for name in WORKERS]
        assert machines.list_failed() == {}
        times = machines.list_times()
        tables = fetch_tables(machines)
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "backstory", "run", "--workspace", root], check=True)
    after = getrusage(RUSAGE_CHILDREN)
    alone = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"CPU seconds of workers {used}, alone {alone}; seconds {times[-1][1] - times[0][0]}"
    )  # with pytest -s
    assert tables == hash_tables(root)
