"""``backstory run --estimate``: what it counts is what the run then does, and it writes nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.pipeline.run.estimate import Estimate, estimate_run
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.state import close_idle
from tests.interfaces.cli.invocation import run
from tests.workspaces import SETTINGS

GEMINI = SETTINGS.replace("{provider: hashing}", "{provider: gemini}")
WRITERS = "writers: {provider: gemini}\nrerank: {provider: gemini}\n"


def estimate(root: Path) -> Estimate:
    return estimate_run(open_workspace(root, writes=False), None, None)


def stamp(root: Path) -> dict[Path, int]:
    # Of folders, the names alone: whoever reads a database with a log makes, and removes, files beside it.
    close_idle()
    paths = list(root.rglob("*"))
    return {path: path.stat().st_mtime_ns if path.is_file() else 0 for path in paths}


def missing(found: Estimate) -> dict[str, int]:
    return {kind.kind: kind.texts - kind.cached for kind in found.embedding}


def test_the_first_run_embeds_what_was_estimated(workspace: Workspace) -> None:
    before = stamp(workspace.root)
    found = estimate(workspace.root)
    assert stamp(workspace.root) == before
    reports = {report.table: report.counts for report in run_pipeline(workspace)}
    assert missing(found) == {
        "documents": reports["search_index"]["embedding_computed"],
        "query chunks": reports["hits"]["embedding_computed"],
    }
    tokens = [reports[table]["embedding_tokens"] for table in ("search_index", "hits")]
    assert [kind.tokens for kind in found.embedding] == tokens
    assert found.pace.seconds > 0
    assert found.cost == 0


def test_an_unchanged_workspace_has_nothing_to_embed(made_workspace: Workspace) -> None:
    before = stamp(made_workspace.root)
    assert run("run", "--estimate", "--workspace", str(made_workspace.root)).exit_code == 0
    told = json.loads(run("run", "--estimate", "--json", "--workspace", str(made_workspace.root)).stdout)
    assert all(kind["texts"] == kind["cached"] for kind in told["embedding"])
    assert stamp(made_workspace.root) == before


def test_a_new_post_is_embedded_alone_and_the_query_chunks_are_in_the_cache(
    made_workspace: Workspace,
) -> None:
    (made_workspace.documents_dir / "frost.md").write_text(
        "# Frost\n\nFrost cracks plastic elbows.\n", encoding="utf-8"
    )
    found = estimate(made_workspace.root)
    assert missing(found) == {"documents": 1, "query chunks": 0}
    assert found.embedding[1].cached > 0


def test_an_estimate_of_services_needs_no_key_and_gives_prices(
    make_workspace: Callable[..., Workspace],
) -> None:
    found = estimate(make_workspace(GEMINI + WRITERS).root)
    tokens = sum(kind.tokens for kind in found.embedding)
    assert found.cost == pytest.approx(tokens * 0.15 / 1_000_000)
    assert found.pace.basis == "from the limits per minute in the settings"
    assert {calls.purpose: calls.calls for calls in found.calls} == {"rerank": 3, "writing": 3}
    assert all(calls.cost for calls in found.calls)


@pytest.mark.parametrize(
    ("limit", "basis"),
    [
        ("", "at best: your server's speed is not known"),
        (", texts_per_minute: 60", "from the limits per minute in the settings"),
    ],
)
def test_the_time_of_a_server_without_limits_is_called_the_least(
    make_workspace: Callable[..., Workspace], limit: str, basis: str
) -> None:
    server = f"services: {{openai: {{base_url: 'http://127.0.0.1:9/v1'{limit}}}}}\n"
    model = SETTINGS.replace("{provider: hashing}", "{provider: openai, model: tiny, dimension: 16}")
    found = estimate(make_workspace(model + server).root)
    assert found.pace.basis == basis


def test_a_model_without_a_price_is_named(make_workspace: Callable[..., Workspace]) -> None:
    root = make_workspace(GEMINI + "costs: {currency: EUR}\n").root
    result = run("run", "--estimate", "--workspace", str(root))
    assert result.exit_code == 0, result.output
    assert "no price is known" in result.output
