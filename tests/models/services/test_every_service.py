"""What must hold of every service, whatever it is used for: retries, time-outs, limits, budgets, errors and keys."""

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import BudgetExhaustedError, ModelError, ModelSetupError
from backstory.models.usage import CallMeter, Settle, Usage
from tests.errors import raises
from tests.long_tests import LONG_TESTS, each_of
from tests.models.known_services import Behaviour, GeminiService, OpenAIService, Service
from tests.models.service_uses import CHAT_USES, USES, Use
from tests.models.services.gemini_server import exceed
from tests.models.services.instant_time import InstantTime
from tests.pipelines.ui_process import wait_for

NEVER = "Fri, 31 Dec 2999 23:59:59 GMT"
LONG_AGO = "Mon, 01 Jan 2001 00:00:00 GMT"
OTHER_SHAPE = (
    b'{"candidates": [{"content": "none"}], "choices": "none", "embeddings": "none", "data": "none"}'
)

TRANSIENT: dict[str, Callable[[Service], Behaviour]] = {
    "408": lambda service: service.fail(408),
    "425": lambda service: service.fail(425),
    "500": lambda service: service.fail(500),
    "503": lambda service: service.fail(503),
    "429": lambda service: service.fail(429),
    "429 until a moment in the past": lambda service: service.fail(429, headers={"Retry-After": LONG_AGO}),
    "429 with an unreadable delay": lambda service: service.fail(429, headers={"Retry-After": "soon"}),
    "dropped connection": lambda _: lambda _: None,
    "HTML error": lambda service: service.send(502, b"<html><h1>Bad Gateway</h1></html>"),
    "HTML page": lambda service: service.send(200, b"<html>please log in</html>"),
    "truncated JSON": lambda service: service.send(200, b'{"candidates": [{"content": {"parts": [{"text'),
    "JSON list": lambda service: service.send(200, b"[1]"),
    "JSON of another shape": lambda service: service.send(200, OTHER_SHAPE),
    "JSON without an answer": lambda service: service.send(200, b"{}"),
    "not UTF-8": lambda service: service.send(200, b'{"embeddings": "\xff\xfe"}'),
    "empty body": lambda service: service.send(200, b""),
}


def test_what_may_pass_is_repeated(
    service: Service, use: Use, tmp_path: Path, instant_time: InstantTime
) -> None:
    call = use.connect(service, tmp_path)
    # Each use meets other ones: what is repeated is decided where both pass.
    first = int(use.group == "embedding")
    for count, (name, make) in enumerate(
        each_of([*TRANSIENT.items()][0 if LONG_TESTS else first :], 2), start=1
    ):
        service.play(*[make(service)] * 2)

        outcome = call()

        assert (outcome.value, outcome.reason) == (use.expected, None), name
        assert len(service.requests) == 3 * count, name
        assert len(instant_time.waits) >= 2 * count, name
    assert all(seconds > 0 for seconds in instant_time.waits)


def test_an_answer_that_the_sdk_cannot_parse_is_repeated(
    gemini_service: GeminiService, tmp_path: Path
) -> None:
    use = CHAT_USES["answer"]
    gemini_service.play(gemini_service.say("[" * 100_000), always=use.answer(gemini_service))
    assert use.connect(gemini_service, tmp_path)().value == use.expected
    assert len(gemini_service.requests) == 2


def test_attempts_that_are_used_up_are_an_error_of_the_stage(
    service: Service, use: Use, tmp_path: Path
) -> None:
    service.play(always=service.fail(500, "backend error"))
    with raises(ModelError, "no_answer", 4, 500, "backend error") as caught:
        use.connect(service, tmp_path, max_attempts=4)()
    assert type(caught.value) is ModelError
    assert len(service.requests) == 4

    service.play(always=service.stay_silent)
    with raises(ModelError, "no_answer", 2, "Timeout"):
        use.connect(service, tmp_path, timeout_seconds=0.1, max_attempts=2)()
    wait_for(lambda: len(service.requests) == 6, "the server has read what was sent")


def test_waits_as_long_as_the_service_asks_and_a_minute_for_a_quota_without_a_time(
    service: Service, use: Use, tmp_path: Path, instant_time: InstantTime
) -> None:
    behaviours = [
        service.fail(429, headers={"Retry-After": "7"}),
        service.fail(503, headers={"Retry-After": "11"}),
        service.fail(429),
    ]
    if service.name == "gemini":
        behaviours.append(exceed("RequestsPerMinutePerProjectPerModel", delay="3.5s"))
    service.play(*behaviours)

    assert use.connect(service, tmp_path)().value == use.expected

    assert instant_time.waits == [7.0, 11.0, 60.0, 3.5][: len(behaviours)]


def test_a_used_up_quota_stops_at_once(
    service: Service, use: Use, tmp_path: Path, instant_time: InstantTime
) -> None:
    behaviours = [
        *service.exhaust(),
        service.fail(429, headers={"Retry-After": "7200"}),
        service.fail(429, headers={"Retry-After": NEVER}),
    ]
    service.play(*behaviours)
    call = use.connect(service, tmp_path)

    for count in range(1, len(behaviours) + 1):
        with pytest.raises(BudgetExhaustedError):
            call()
        assert len(service.requests) == count
    assert instant_time.waits == []


def test_a_refused_request_is_an_error_of_the_stage_at_once(
    service: Service, use: Use, tmp_path: Path
) -> None:
    call, sent = use.connect(service, tmp_path), 0
    for status in (404, 405, 400, 413, 422):
        blames_content = status in (400, 413, 422)
        service.play(always=service.fail(status, "no such thing"))

        with raises(ModelError, "refused", status, "no such thing") as caught:
            call()

        assert type(caught.value) is ModelError
        assert caught.value.blames_content == blames_content
        # An embedder sends a harmless text before it blames a text.
        sent += 2 if blames_content and use.group == "embedding" else 1
        assert len(service.requests) == sent


def test_a_redirect_is_not_followed(service: Service, use: Use, tmp_path: Path) -> None:
    call = use.connect(service, tmp_path)
    elsewhere = {"Location": f"{service.url}/elsewhere?key={service.key}"}
    for count, (status, headers) in enumerate(
        ((301, elsewhere), (302, elsewhere), (307, elsewhere), (308, elsewhere), (307, {})), start=1
    ):
        service.play(service.fail(status, headers=headers))

        with raises(ModelError, "redirected", status, "base_url") as caught:
            call()

        assert service.key not in "".join(traceback.format_exception(caught.value))
        assert len(service.requests) == count


@pytest.mark.parametrize("name", USES)
def test_a_refused_key_of_an_openai_service_names_the_variable_of_its_own_stage(
    openai_service: OpenAIService, tmp_path: Path, name: str
) -> None:
    use = USES[name]
    openai_service.play(openai_service.fail(401))

    with raises(ModelSetupError, "refused_key", *(use.key_variable, "OPENAI_API_KEY")):
        use.connect(openai_service, tmp_path)()


def test_a_key_that_the_service_repeats_is_in_no_log_and_no_error(
    service: Service, use: Use, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for logger in ("", "backstory"):
        caplog.set_level(logging.DEBUG, logger)
    call = use.connect(service, tmp_path, max_attempts=2)
    raised = (
        (400, ModelError),
        (401, ModelSetupError),
        (403, ModelSetupError),
        (429, ModelError),
        (500, ModelError),
    )
    for status, expected in raised:
        service.play(always=service.fail(status, f"the key {service.key} broke it"))

        with pytest.raises(expected) as caught:
            call()

        assert "[key]" in str(caught.value)
        assert type(caught.value) is expected
        seen = [*traceback.format_exception(caught.value), repr(caught.value), caplog.text]
        seen += [str(vars(record)) for record in caplog.records]
        assert not any(service.key in text for text in seen)
    assert {record.name.partition(".")[0] for record in caplog.records} >= {"backstory", "httpx2"}
    # An embedder sends a harmless text before it blames a text.
    assert len(service.requests) == (2 if use.group == "embedding" else 1) + 1 + 1 + 2 + 2


def test_gemini_blames_the_key_for_a_request_that_it_calls_invalid(
    gemini_service: GeminiService, tmp_path: Path
) -> None:
    gemini_service.play(gemini_service.fail(400, "API key not valid. Please pass a valid API key."))
    with raises(ModelSetupError, "refused_key", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        USES["embed"].connect(gemini_service, tmp_path)()


def test_every_minute_stays_within_the_limit(
    service: Service, use: Use, tmp_path: Path, instant_time: InstantTime
) -> None:
    moments: list[float] = []
    good = use.answer(service)

    def note_time(request: Any) -> Any:
        moments.append(instant_time.clock())
        return good(request)

    service.play(service.fail(500), always=note_time)
    limit: dict[str, Any] = {use.per_minute: 3}
    call = use.connect(service, tmp_path, **limit)

    for _ in range(7):
        call()

    assert len(moments) == 7
    assert all(sum(start <= moment < start + 60 for moment in moments) <= 3 for start in moments)


class Meter(CallMeter):
    """Allows a number of calls, and notes what each was reserved and used."""

    def __init__(self, calls: int) -> None:
        self.left = calls
        self.reserved: list[Usage] = []
        self.used: list[Usage] = []

    def reserve(self, most: Usage, *, seconds: float) -> Settle:  # noqa: ARG002
        if not self.left:
            raise BudgetExhaustedError("no more")
        self.left -= 1
        self.reserved.append(most)
        return self.used.append


def test_calls_are_metered_and_stay_within_a_budget(service: Service, use: Use, tmp_path: Path) -> None:
    meter = Meter(3)
    service.play(service.fail(404), service.fail(500))
    call = use.connect(service, tmp_path, meter)

    with pytest.raises(ModelError):
        call()
    assert call().value == use.expected
    with pytest.raises(BudgetExhaustedError):
        call()

    assert len(service.requests) == 3
    assert all(most.calls == most.texts == 1 and most.tokens_in > 0 for most in meter.reserved)
    assert meter.used[:2] == [Usage(calls=1)] * 2  # a service bills nothing for a call that it refused
    used = meter.used[2]
    assert (used.calls, used.texts) == (1, 1)
    assert used.tokens_in > 0
    if use.group != "embedding":
        assert (used.tokens_in, used.tokens_out) == service.used
