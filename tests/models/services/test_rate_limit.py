from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backstory.base.errors import ModelError
from backstory.base.postgres import PostgresDatabase
from backstory.models.services.rate_limit import PERIOD_SECONDS, RateLimiter
from tests.errors import raises
from tests.long_tests import some
from tests.models.services.gemini_server import GeminiServer
from tests.models.services.instant_time import InstantTime
from tests.postgres import LONG_ON_SERVER, ON_FILES, PostgresServer, mounted
from tests.started_python import StartedPython

MOST_UNITS = 10
MOST_TOKENS = 100
KEY = "AIzaSyTheKeyOfThisAccount0123456789"

Make = Callable[..., RateLimiter]


@pytest.fixture
def make(tmp_path: Path, either_storage: str | None, monkeypatch: pytest.MonkeyPatch) -> Make:
    if either_storage is not None:  # the tests tell the time, in place of the server
        monkeypatch.setattr(PostgresDatabase, "read_clock", lambda _self, _session: None)

    def make_limiter(
        time: InstantTime, path: Path = tmp_path / "limits.sqlite", key: str = KEY
    ) -> RateLimiter:
        return RateLimiter(
            path,
            ["https://api", "model", key],
            units_per_minute=MOST_UNITS,
            tokens_per_minute=MOST_TOKENS,
            clock=time.clock,
            wait=time.wait,
        )

    return make_limiter


@LONG_ON_SERVER
@settings(max_examples=some(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(1, MOST_UNITS),
            st.integers(1, MOST_TOKENS),
            st.floats(0, 90, allow_nan=False),
        ),
        max_size=40,
    )
)
def test_no_period_holds_more_than_the_limits(
    tmp_path_factory: pytest.TempPathFactory, make: Make, requests: list[tuple[int, int, float]]
) -> None:
    time = InstantTime()
    limiters = [make(time, tmp_path_factory.mktemp("limits") / "limits.sqlite")] * 2
    granted: list[tuple[float, int, int]] = []
    for turn, (units, tokens, pause) in enumerate(requests):
        limiters[turn % 2].acquire(units, tokens)
        granted.append((time.clock(), units, tokens))
        time.wait(pause)
    for start, _, _ in granted:
        period = [grant for grant in granted if start <= grant[0] < start + PERIOD_SECONDS]
        assert sum(units for _, units, _ in period) <= MOST_UNITS
        assert sum(tokens for _, _, tokens in period) <= MOST_TOKENS


def test_within_the_limits_nobody_waits(make: Make) -> None:
    time = InstantTime()
    limiter = make(time)

    for _ in range(5):
        limiter.acquire(2, 20)

    assert time.waits == []


def test_waits_no_longer_than_needed(make: Make) -> None:
    time = InstantTime()
    limiter = make(time)
    limiter.acquire(4, 1)
    time.wait(20)
    limiter.acquire(6, 1)
    time.waits.clear()

    limiter.acquire(3, 1)

    assert time.waits == [PERIOD_SECONDS - 20]


def test_a_request_over_the_limits_is_let_through_alone(make: Make) -> None:
    time = InstantTime()
    limiter = make(time)
    limiter.acquire(1, 1)

    limiter.acquire(1, MOST_TOKENS * 2)
    limiter.acquire(1, 1)

    assert time.waits == [PERIOD_SECONDS, PERIOD_SECONDS]


def test_a_pause_holds_everybody_of_the_account_back(make: Make) -> None:
    time = InstantTime()
    limiter = make(time)
    limiter.pause(12.5)
    limiter.pause(3)

    make(time, key="another").acquire(1, 1)
    assert time.waits == []
    make(time).acquire(1, 1)
    assert time.waits == [12.5]


def test_threads_share_one_limit(make: Make) -> None:
    time = InstantTime()
    limiter = make(time)

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda _: limiter.acquire(5, 10), range(20)))

    assert time.clock() - 1000 >= 9 * PERIOD_SECONDS


def test_a_clock_that_goes_backwards_blocks_for_a_period_at_most(make: Make) -> None:
    before = InstantTime()
    before.wait(1_000_000)
    make(before).acquire(MOST_UNITS, 1)
    make(before).pause(30)

    after = InstantTime()
    make(after).acquire(1, 1)

    assert sum(after.waits) == PERIOD_SECONDS


def test_machines_share_a_limit_by_the_clock_of_their_server(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    class Waited(Exception):  # noqa: N818 - no error
        """What would be waited for."""

    def wait(seconds: float) -> None:
        raise Waited(seconds)

    def limit(machine: str, clock: float) -> RateLimiter:
        path, most = tmp_path / machine / "limits.sqlite", {"units_per_minute": 3, "tokens_per_minute": 9}
        return RateLimiter(path, [KEY], **most, clock=lambda: clock, wait=wait)

    with mounted(tmp_path, postgres_server.make_address()):
        one, two = limit("one", 0.0), limit("two", 1e9)
        one.acquire(3, 3)
        with pytest.raises(Waited) as waited:
            two.acquire(1, 1)
        assert 0 < waited.value.args[0] <= PERIOD_SECONDS
        two.pause(2 * PERIOD_SECONDS)
        with pytest.raises(Waited) as waited:
            one.acquire(1, 1)
        assert PERIOD_SECONDS < waited.value.args[0] <= 2 * PERIOD_SECONDS


@ON_FILES
def test_a_damaged_file_is_made_anew(make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "limits.sqlite"
    path.write_bytes(b"no database" * 500)

    make(InstantTime()).acquire(1, 1)

    assert "damaged" in caplog.text
    assert path.read_bytes().startswith(b"SQLite format 3")


@ON_FILES
def test_a_file_that_cannot_be_written_is_an_error_that_names_it(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    path = tmp_path / "file" / "limits.sqlite"
    with raises(ModelError, "unusable_file", path=path):
        make(InstantTime(), path).acquire(1, 1)


@ON_FILES
def test_the_file_tells_nothing_about_the_key(make: Make, tmp_path: Path) -> None:
    make(InstantTime()).acquire(1, 1)
    make(InstantTime()).pause(1)

    written = (tmp_path / "limits.sqlite").read_bytes()

    assert KEY.encode() not in written
    assert b"https://api" not in written


SPEED = 300
"""How much faster than real time the processes of the next test live, so that its minutes take 0.2 seconds."""

ASK = f"""
import sys, threading, time, urllib.request, json
from pathlib import Path
from backstory.models.services.rate_limit import RateLimiter

path, url = sys.argv[1:]
pause = threading.Event()
limiter = RateLimiter(
    Path(path), [url], units_per_minute=10, tokens_per_minute=1000,
    clock=lambda: time.monotonic() * {SPEED}, wait=lambda seconds: pause.wait(seconds / {SPEED}),
)
for number in range(12):
    before = time.monotonic()
    limiter.acquire(3, 30)
    entries = [{{"content": {{"parts": [{{"text": f"{{number}}"}}]}}, "outputDimensionality": 1}}] * 3
    body = json.dumps({{"requests": entries, "asked": before, "granted": time.monotonic()}}).encode()
    urllib.request.urlopen(urllib.request.Request(url + "/m:batchEmbedContents", body)).read()
"""


def test_two_processes_do_not_pass_the_limit_together(server: GeminiServer, tmp_path: Path) -> None:
    words = ["-c", ASK, str(tmp_path / "limits.sqlite"), server.url]

    processes = [StartedPython(words, env={}) for _ in range(2)]

    assert [process.wait(600) for process in processes] == [0, 0]
    spans = sorted((request.body["granted"], request.body["asked"]) for request in server.requests)
    assert len(spans) == 24
    # Each grant was made between "asked" and "granted"; of four in a row, which are 12 texts, the first and the last
    # are a period apart.
    for four in zip(spans, spans[1:], spans[2:], spans[3:], strict=False):
        assert four[-1][0] - min(asked for _, asked in four) >= PERIOD_SECONDS / SPEED
