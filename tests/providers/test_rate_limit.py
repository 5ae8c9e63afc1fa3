from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from backstory.providers.rate_limit import PERIOD_SECONDS, RateLimiter
from tests.providers.instant_time import InstantTime

MOST_TEXTS = 10
MOST_TOKENS = 100


def make_limiter(time: InstantTime) -> RateLimiter:
    return RateLimiter(
        texts_per_minute=MOST_TEXTS, tokens_per_minute=MOST_TOKENS, clock=time.clock, wait=time.wait
    )


@given(
    st.lists(
        st.tuples(
            st.integers(1, MOST_TEXTS),
            st.integers(1, MOST_TOKENS),
            st.floats(0, 90, allow_nan=False),
        ),
        max_size=40,
    )
)
def test_no_period_holds_more_than_the_limits(requests: list[tuple[int, int, float]]) -> None:
    time = InstantTime()
    limiter = make_limiter(time)
    granted: list[tuple[float, int, int]] = []
    for texts, tokens, pause in requests:
        limiter.acquire(texts, tokens)
        granted.append((time.clock(), texts, tokens))
        time.wait(pause)
    for start, _, _ in granted:
        period = [grant for grant in granted if start <= grant[0] < start + PERIOD_SECONDS]
        assert sum(texts for _, texts, _ in period) <= MOST_TEXTS
        assert sum(tokens for _, _, tokens in period) <= MOST_TOKENS


def test_within_the_limits_nobody_waits() -> None:
    time = InstantTime()
    limiter = make_limiter(time)

    for _ in range(5):
        limiter.acquire(2, 20)

    assert time.waits == []


def test_waits_no_longer_than_needed() -> None:
    time = InstantTime()
    limiter = make_limiter(time)
    limiter.acquire(4, 1)
    time.wait(20)
    limiter.acquire(6, 1)
    time.waits.clear()

    limiter.acquire(3, 1)

    assert time.waits == [PERIOD_SECONDS - 20]


def test_a_request_over_the_limits_is_let_through_alone() -> None:
    time = InstantTime()
    limiter = make_limiter(time)
    limiter.acquire(1, 1)

    limiter.acquire(1, MOST_TOKENS * 2)
    limiter.acquire(1, 1)

    assert time.waits == [PERIOD_SECONDS, PERIOD_SECONDS]


def test_a_pause_holds_everybody_back() -> None:
    time = InstantTime()
    limiter = make_limiter(time)
    limiter.pause(12.5)
    limiter.pause(3)

    limiter.acquire(1, 1)

    assert time.waits == [12.5]


def test_threads_share_one_limit() -> None:
    time = InstantTime()
    limiter = make_limiter(time)

    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(lambda _: limiter.acquire(5, 10), range(20)))

    assert time.clock() - 1000 >= 9 * PERIOD_SECONDS
