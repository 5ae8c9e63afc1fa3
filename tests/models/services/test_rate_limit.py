from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from backstory.models.usage import PERIOD_SECONDS, RateLimiter
from tests.models.services.instant_time import InstantTime

MOST_UNITS = 10
MOST_TOKENS = 100


def make(time: InstantTime) -> RateLimiter:
    return RateLimiter(MOST_UNITS, MOST_TOKENS, clock=time.clock, wait=time.wait)


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
def test_no_period_holds_more_than_the_limits(requests: list[tuple[int, int, float]]) -> None:
    time = InstantTime()
    limiter = make(time)
    granted: list[tuple[float, int, int]] = []
    for units, tokens, pause in requests:
        limiter.acquire(units, tokens)
        granted.append((time.clock(), units, tokens))
        time.wait(pause)
    for start, _, _ in granted:
        period = [grant for grant in granted if start <= grant[0] < start + PERIOD_SECONDS]
        assert sum(units for _, units, _ in period) <= MOST_UNITS
        assert sum(tokens for _, _, tokens in period) <= MOST_TOKENS


def test_nobody_waits_longer_than_needed() -> None:
    time = InstantTime()
    limiter = make(time)
    limiter.acquire(4, 1)
    time.wait(20)
    limiter.acquire(6, 1)
    assert time.waits == [20]

    limiter.acquire(3, 1)

    assert time.waits == [20, PERIOD_SECONDS - 20]


def test_a_request_over_the_limits_is_let_through_alone() -> None:
    time = InstantTime()
    limiter = make(time)
    limiter.acquire(1, 1)

    limiter.acquire(1, MOST_TOKENS * 2)
    limiter.acquire(1, 1)

    assert time.waits == [PERIOD_SECONDS, PERIOD_SECONDS]


def test_a_pause_holds_everybody_back() -> None:
    time = InstantTime()
    limiter = make(time)
    limiter.pause(12.5)
    limiter.pause(3)

    limiter.acquire(1, 1)

    assert time.waits == [12.5]


def test_threads_share_one_limit() -> None:
    time = InstantTime()
    limiter = make(time)

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda _: limiter.acquire(5, 10), range(20)))

    assert time.clock() - 1000 >= 9 * PERIOD_SECONDS
