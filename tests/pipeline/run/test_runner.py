"""A run: which days it means, what its checks stop, and what it leaves to be said."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime

import polars as pl
import pytest

from backstory.base.errors import InputError
from backstory.index.snapshot import current_version
from backstory.pipeline.checks.checks import CHECKS, CheckResult
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import STAGES, find_wanted
from backstory.pipeline.run.run import Run, RunEvent, RunPosition
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.contracts import conform
from backstory.storage.tables.schemas import TABLES, Sources
from tests.errors import raises
from tests.models.services.gemini_server import Behaviour, GeminiServer, exceed, fail, succeed
from tests.workspaces import DIGEST, find_file, replace_recorded, run_workspace

DAYS = ["2025-03-13", "2025-03-14", "2025-03-15"]


def run(workspace: Workspace, days: Sequence[str] = tuple(DAYS)) -> tuple[Run, list[RunEvent]]:
    told: list[RunEvent] = []
    return run_workspace(open_workspace(workspace.root), days, told.append), told


def test_a_run_makes_every_table_and_check_in_order_and_another_finds_nothing_to_do(
    workspace: Workspace,
) -> None:
    outcome, told = run(workspace)
    assert outcome.success
    assert [one.table for one in told if isinstance(one, StageResult)] == [stage.table for stage in STAGES]
    made = [one.check for one in told if isinstance(one, CheckResult)]
    assert sorted((check.table, check.name) for check in made) == sorted(
        (check.table, check.name) for check in CHECKS
    )
    assert outcome.computed == sum(len(DAYS) if stage.partitioned else 1 for stage in STAGES)
    assert outcome.total("embedding_computed") == outcome.total("embedding_unique") > 0
    assert outcome.total("embedding_tokens") > outcome.total("embedding_texts")
    second, told = run(workspace)
    assert (second.fresh, told) == (True, [])
    for table in ("hits", "search_index", "runs"):
        workspace.catalog.forget(table, workspace.catalog.read(table))
    third, _ = run(workspace)
    assert third.total("embedding_computed") == third.total("embedding_api_calls") == 0
    assert third.total("embedding_cached") == outcome.total("embedding_computed")


def test_a_broken_day_is_left_as_it_was_and_every_other_day_is_made(workspace: Workspace) -> None:
    run(workspace)
    messages = workspace.tables.read("messages", ["2025-03-13"])
    named = messages.head(1).with_columns(text=pl.lit("Ada Lind has tulips"))
    replace_recorded(workspace, "messages", "2025-03-13", pl.concat([named, messages[1:]]))
    before = workspace.catalog.read("windows")["2025-03-13"]
    find_file(workspace.root, "contexts", "2025-03-15").unlink()
    for _ in range(2):
        outcome, told = run(workspace)
        assert not outcome.success
        reports = {one.table: one for one in told if isinstance(one, StageResult)}
        assert list(reports) == [stage.table for stage in STAGES]
        # Windows overlap by two messages, so that those of the 14th read the 13th, too.
        assert [len(reports[table].keys) for table in ("messages", "windows", "contexts")] == [3, 1, 1]
        [failure] = outcome.failures
        assert failure.startswith("messages, check real_names: 1 found")
        assert failure.endswith("(2025-03-13)")
        assert workspace.catalog.read("windows")["2025-03-13"] == before
    assert workspace.tables.keys("contexts") == ["2025-03-13", "2025-03-15"]
    replace_recorded(workspace, "messages", "2025-03-13", messages)
    assert run(workspace)[0].success


def ask_server(server: GeminiServer, behaviour: Behaviour) -> str:
    """Give the settings of an embedder that calls the server, which then behaves like this for every request."""
    server.script.extend([behaviour] * 100)
    limits = "texts_per_minute: 100000, tokens_per_minute: 10000000"
    return (
        f"services: {{gemini: {{base_url: '{server.url}', {limits}}}}}\n"
        "embedding: {provider: gemini, dimension: 16, threads: 1}\n"
        "partitions: {rows_at_once: 1}\n"
    )


def refuse(words: str, failure: Behaviour) -> Behaviour:
    """Fail when a request holds a text with these words."""
    return lambda request: (failure if any(words in text for text in request.texts) else succeed)(request)


@pytest.mark.usefixtures("api_key")
@pytest.mark.parametrize("rows_at_once", [1, 10000])
def test_days_that_a_stage_cannot_make_are_named_and_do_not_take_others_along(
    make_workspace: Callable[..., Workspace], server: GeminiServer, rows_at_once: int
) -> None:
    settings = ask_server(server, refuse("a bad moth", fail(400)))
    workspace = make_workspace(settings.replace("rows_at_once: 1", f"rows_at_once: {rows_at_once}"))
    days = [f"2025-03-{day:02}" for day in range(11, 19)]
    bad = {"2025-03-12", "2025-03-17"}
    lines = [
        f"{day[8:]}/03/2025, 09:00 - Ada Lind: {'a bad moth' if day in bad else 'a good plum'} of the {day[8:]}th\n"
        for day in days
    ]
    (workspace.chats_dir / "garden.txt").write_text("".join(lines), encoding="utf-8")
    outcome, _ = run(workspace, days)
    assert all(failure.startswith("hits (2025-03-1") for failure in outcome.failures)
    assert all("refused the request" in failure for failure in outcome.failures)
    assert set(outcome.broken["hits"]) == bad
    assert workspace.tables.keys("window_contexts") == [day for day in days if day not in bad]
    server.script.clear()
    again, _ = run(workspace, days)
    assert again.success
    assert workspace.tables.keys("window_contexts") == days


@pytest.mark.usefixtures("api_key")
def test_a_used_up_quota_is_asked_once_and_what_was_made_before_is_served(
    make_workspace: Callable[..., Workspace], server: GeminiServer
) -> None:
    used_up = exceed("EmbedContentRequestsPerDayPerProjectPerModel-FreeTier")
    workspace = make_workspace(ask_server(server, refuse("night train to Lisbon needs", used_up)))
    outcome, _ = run(workspace)
    assert outcome.stopped is not None
    assert not outcome.failures
    refused = [one for one in server.requests if any("Lisbon needs" in text for text in one.texts)]
    assert len(refused) == 1
    assert workspace.tables.keys("window_contexts") == ["2025-03-13"]


@pytest.mark.parametrize("feedback", ["off", "on"])
def test_the_position_of_a_run_moves_from_nothing_to_its_last_step(
    make_workspace: Callable[..., Workspace], feedback: str
) -> None:
    _, told = run(make_workspace(DIGEST.replace("digest}", f'digest, feedback: "{feedback}"}}')))
    positions = [event for event in told if isinstance(event, RunPosition)]
    [total] = {position.total for position in positions}
    dones = [position.done for position in positions]
    assert dones == sorted(dones)
    assert (dones[0], dones[-1]) == (0, total - 1)


@pytest.mark.usefixtures("api_key")
def test_a_service_that_refuses_is_told_also_if_the_index_is_damaged(
    make_workspace: Callable[..., Workspace], server: GeminiServer
) -> None:
    workspace = make_workspace(ask_server(server, succeed))
    run(workspace)
    (workspace.index / current_version(workspace.index) / "manifest.json").write_text("damaged")
    (workspace.documents_dir / "new.md").write_text("# Moths\n\nA text for a wrong key.\n", encoding="utf-8")
    server.script.clear()
    ask_server(server, refuse("a wrong key", fail(401)))
    outcome, _ = run(workspace)
    [failure] = outcome.failures
    assert "401" in failure


def test_a_table_that_fails_breaks_what_reads_it_with_its_reason(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace(
        "embedding: {provider: hashing}\nchunks: {max_tokens: 16, overlap_tokens: 0}\n"
    )
    (workspace.documents_dir / "long.md").write_text(
        f"# {'a very long title ' * 6}\n\ntext\n", encoding="utf-8"
    )
    outcome, _ = run(workspace)
    [failure] = outcome.failures
    assert failure.startswith("document_chunks: ")
    assert "shorten the title" in failure
    assert workspace.tables.keys("window_chunks") == ["2025-03-13", "2025-03-15"]
    assert workspace.tables.keys("hits") == []


def test_a_run_that_would_remove_messages_makes_no_table(workspace: Workspace) -> None:
    run(workspace)
    chat = workspace.chats_dir / "garden.txt"
    chat.write_text("\n".join(chat.read_text(encoding="utf-8").splitlines()[:6]), encoding="utf-8")
    before = workspace.catalog.read_all(TABLES)
    outcome, told = run(workspace)
    assert {type(event) for event in told} == {RunPosition}
    [failure] = outcome.failures
    assert failure.startswith("messages: the run wrote nothing, since it would remove 6 messages")
    assert workspace.catalog.read_all(TABLES) == before


def test_the_message_of_every_check_names_count_examples_and_remedy(workspace: Workspace) -> None:
    """The columns that an example names are those that the check gives, whatever it finds."""
    run(workspace)
    for check in CHECKS:
        cases = check.find(workspace, None)
        case = {name: _example_of(dtype) for name, dtype in cases.schema.items()}
        message = CheckResult(check, pl.DataFrame([case, case, case], schema=cases.schema), rows=7).message
        assert message.startswith(f"3 found among 7 ({check.what}): ")
        assert message.endswith(f"; and 1 more. {check.remedy}")
        assert CheckResult(check, cases.clear()).message == "none found"


def _example_of(dtype: pl.DataType) -> object:
    if dtype == pl.String:
        return "text"
    return datetime(2025, 3, 13, tzinfo=UTC) if dtype == pl.Datetime else 1


def test_files_that_wait_for_a_person_are_found_and_do_not_stop_the_run(workspace: Workspace) -> None:
    run(workspace)
    rows: list[dict[str, object]] = [
        {"source": "chats/garden.txt", "rows": 11, "status": "read"},
        {"source": "chats/notes.rtf", "status": "unsupported", "reason": "no reader knows .rtf"},
        {"source": "chats/other.txt", "status": "set_aside", "reason": "which date order?"},
    ]
    columns: dict[str, object] = dict.fromkeys(Sources.schema)
    columns |= {"folder": "conversations", "rows": 0, "unread": 0}
    frame = pl.DataFrame([columns | row for row in rows], infer_schema_length=None)
    replace_recorded(workspace, "sources", "conversations", conform(frame, Sources))
    outcome, _ = run(workspace)
    assert outcome.success
    assert outcome.unfinished["source"].to_list() == ["chats/other.txt"]
    [check] = [check for check in CHECKS if check.name == "unread_files"]
    assert check.find(workspace, None)["source"].to_list() == ["chats/other.txt"]


def test_a_range_means_the_days_that_have_messages_in_whole_partitions(
    make_workspace: Callable[..., Workspace],
) -> None:
    workspace = make_workspace("partitions: {grain: week}\n", name="weeks")
    assert find_wanted(workspace, date(2025, 3, 12), date(2025, 3, 12)) == ["2025-03-10"]
    workspace = make_workspace("", name="far apart")
    chat = "timestamp,author,message\n1994-05-13T10:00:00Z,Ada,One\n1994-05-14T10:00:00Z,Ada,Two\n"
    (workspace.chats_dir / "long ago.csv").write_text(chat, encoding="utf-8")
    days = ["1994-05-13", "1994-05-14", DAYS[0], DAYS[-1]]
    assert find_wanted(workspace, None, None) == days == find_partitions(workspace)


@pytest.mark.parametrize(
    ("first", "last", "code"),
    [
        (date(2025, 3, 15), date(2025, 3, 13), "swapped_range"),
        (date(2025, 4, 1), None, "empty_range"),
        (None, date(2025, 2, 1), "empty_range"),
        (date(2025, 3, 14), date(2025, 3, 14), "empty_range"),
    ],
)
def test_a_range_that_cannot_be_is_named(
    workspace: Workspace, first: date | None, last: date | None, code: str
) -> None:
    with raises(InputError, code):
        find_wanted(workspace, first, last)
