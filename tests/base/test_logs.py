"""Log lines: text shows warnings, JSON shows every event with its fields."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.base.errors import InputError
from backstory.base.telemetry import PRINTED, bind, configure_logs, log_event, observe, observe_run
from backstory.pipeline.workspace import Workspace
from tests.errors import raises
from tests.workspaces import run_workspace

logger = logging.getLogger("backstory.test")


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    """Leave the loggers as they were."""
    loggers = [logging.getLogger(name) for name in ("backstory", "pipelines", "opentelemetry")]
    before = [(found.level, list(found.handlers)) for found in loggers]
    yield
    for found, (level, handlers) in zip(loggers, before, strict=True):
        found.setLevel(level)
        found.handlers[:] = handlers


def read_lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_named_values_of_a_message_are_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    log_event(logger, "built index", rows=3, share=12.5, reason="two\nlines \u2028 \x1b[31m")
    logger.warning("%s was moved to %s", "it", "there")
    log_event(logger, "left out", level=logging.DEBUG, n=1)
    built, moved = read_lines(capsys.readouterr().err)
    assert (built["event"], built["level"], built["logger"]) == ("built index", "info", "backstory.test")
    assert (built["rows"], built["share"], built["reason"]) == (3, 12.5, "two\nlines \u2028 \x1b[31m")
    assert str(built["time"]).endswith("+00:00")
    assert (moved["event"], moved["message"]) == ("message", "it was moved to there")


def test_values_that_json_does_not_know_leave_the_line_valid(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    log_event(logger, "odd", score=float("nan"), path=Path("a"), time=5)
    (line,) = read_lines(capsys.readouterr().err)
    assert (line["score"], line["path"]) == (None, "a")
    assert line["time"] != 5  # a field replaces nothing that every line has


def test_records_carry_the_fields_of_the_work_around_them(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    with observe_run(["2025-03-13", "2025-03-14"]) as run_id, observe("stage", stage="hits"):
        bind(lambda: log_event(logger, "inside", n=1))()
    log_event(logger, "outside", n=1)
    inside, outside = read_lines(capsys.readouterr().err)
    assert {name: inside[name] for name in ("run_id", "stage", "first", "last", "partitions")} == {
        "run_id": run_id, "stage": "hits", "first": "2025-03-13", "last": "2025-03-14", "partitions": 2
    }  # fmt: skip
    assert "run_id" not in outside


def test_text_shows_the_warnings_that_no_summary_prints(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("json")
    configure_logs("text")  # the later call replaces the earlier one
    log_event(logger, "built", rows=3)
    logger.warning("moved to %s", "there")
    logger.warning("file not read", extra=PRINTED)
    assert capsys.readouterr().err == "warning: moved to there\n"


def test_the_environment_chooses_the_format(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKSTORY_LOG_FORMAT", "json")
    configure_logs()
    log_event(logger, "built", rows=3)
    assert read_lines(capsys.readouterr().err)[0]["rows"] == 3
    monkeypatch.setenv("BACKSTORY_LOG_FORMAT", "xml")
    with raises(InputError, "unknown_value", "BACKSTORY_LOG_FORMAT", "xml"):
        configure_logs()


def test_a_run_logs_every_stage_check_and_file_that_was_not_read(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace.documents_dir / "bad.md").write_text("---\ntitle: [\n---\n", encoding="utf-8")
    configure_logs("json")
    outcome = run_workspace(workspace, ["2025-03-13", "2025-03-14", "2025-03-15"])
    lines = read_lines(capsys.readouterr().err)
    assert {line["run_id"] for line in lines} == {outcome.id}
    stages = [line for line in lines if line["event"] == "materialized"]
    assert [(line["stage"], line["rows"]) for line in stages] == [
        (report.table, report.rows) for report in outcome.made.values()
    ]
    checks = [(line["table"], line["check"], line["found"]) for line in lines if line["event"] == "checked"]
    assert checks == [
        (found.check.table, found.check.name, len(found.cases)) for found in outcome.found.values()
    ]
    (unread,) = [line for line in lines if line["event"] == "file not read"]
    assert (unread["source"], unread["status"], unread["level"]) == ("posts/bad.md", "failed", "warning")
    assert lines[-1]["event"] == "run ended"
    assert lines[-1]["computed"] == outcome.computed
    assert "Ada" not in json.dumps(lines)
