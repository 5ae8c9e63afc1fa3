"""Spans reach a collector: what they are named, how they nest, and what they leave out."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from backstory.base import telemetry
from backstory.base.errors import InputError
from backstory.base.telemetry import observe, observe_run
from backstory.pipeline.workspace import Workspace
from tests.loopback import LoopbackServer, run_server
from tests.workspaces import run_workspace

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    telemetry._open_provider.cache_clear()
    with run_server() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running
        if provider := telemetry._open_provider():
            provider.shutdown()
    telemetry._open_provider.cache_clear()


def read_spans(collector: LoopbackServer) -> list[Span]:
    assert {request.path for request in collector.received} == {"/v1/traces"}
    requests = [ExportTraceServiceRequest.FromString(request.body) for request in collector.received]
    return [
        span
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def attributes(span: Span) -> dict[str, object]:
    return {
        pair.key.removeprefix("backstory."): getattr(pair.value, str(pair.value.WhichOneof("value")))
        for pair in span.attributes
    }


def test_a_run_is_exported_as_nested_spans_with_counts_and_without_texts(
    workspace: Workspace, collector: LoopbackServer
) -> None:
    outcome = run_workspace(workspace, DAYS)
    assert outcome.success
    spans = read_spans(collector)
    by_id = {span.span_id: span for span in spans}
    (run,) = [span for span in spans if span.name == "run"]
    assert attributes(run) == {
        "run_id": outcome.id, "first": DAYS[0], "last": DAYS[-1], "partitions": 3
    }  # fmt: skip
    stages = {str(attributes(span)["stage"]): span for span in spans if span.name == "stage"}
    assert list(stages) == [report.table for report in outcome.made.values()]
    assert {span.parent_span_id for span in stages.values()} == {run.span_id}
    assert attributes(stages["messages"])["rows"] == 12
    groups = [span for span in spans if span.name == "partitions"]
    assert {by_id[span.parent_span_id].name for span in groups} == {"stage"}
    # Embedding works in threads of its own; its spans belong to the stage all the same.
    embedded = Counter(
        attributes(ancestor)["stage"]
        for span in spans
        if span.name == "embed"
        for ancestor in ancestors(span, by_id)
        if ancestor.name == "stage"
    )
    assert set(embedded) == {"search_index", "hits"}
    sent = b"".join(request.body for request in collector.received)
    for secret in (b"Ada", b"Okri", b"irrigation", b"sourdough", b"garden.txt"):
        assert secret not in sent


def ancestors(span: Span, by_id: dict[bytes, Span]) -> Iterator[Span]:
    while found := by_id.get(span.parent_span_id):
        yield found
        span = found


def test_an_error_is_a_status_without_its_message(collector: LoopbackServer) -> None:
    with pytest.raises(InputError), observe_run([]), observe("stage", stage="messages"):
        raise InputError("Ada Lind wrote it")
    spans = read_spans(collector)
    assert [(span.name, span.status.code, span.status.message) for span in spans] == [
        ("stage", Status.STATUS_CODE_ERROR, "InputError"),
        ("run", Status.STATUS_CODE_ERROR, "InputError"),
    ]
    assert not any(span.events for span in spans)
    assert b"Ada" not in b"".join(request.body for request in collector.received)


def test_a_run_inside_a_run_adds_no_span(collector: LoopbackServer) -> None:
    with observe_run(DAYS) as outer, observe_run(DAYS, "another") as inner:
        assert inner == outer
    assert [span.name for span in read_spans(collector)] == ["run"]


def test_an_absent_extra_is_told_once_and_the_run_goes_on(
    collector: LoopbackServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    for _ in range(2):
        with observe_run(DAYS):
            pass
    (said,) = [record.getMessage() for record in caplog.records]
    assert "pip install 'backstory[otel]'" in said
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in said
    assert collector.received == []


def test_nothing_of_opentelemetry_is_loaded_unless_a_collector_is_named() -> None:
    code = (
        "import sys\nfrom backstory.base.telemetry import observe_run\nimport backstory.pipeline.run.runner\n"
        "with observe_run(['2025-03-13']): pass\nprint([name for name in sys.modules if 'opentelemetry' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
