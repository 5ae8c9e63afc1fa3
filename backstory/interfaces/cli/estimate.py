"""The option ``--estimate`` of ``backstory run``: the texts that a run would embed, and its calls of models."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from backstory.base.environment import find_workspace
from backstory.base.wording import count, write_duration
from backstory.interfaces.cli.terminal import open_console, plain

if TYPE_CHECKING:
    from backstory.pipeline.run.estimate import CallsToMake, Estimate


def print_estimate(
    given: Path | None, first: date | None, last: date | None, *, accept_removals: bool
) -> None:
    """Print the texts, calls, time and price of a run. Nothing in the workspace is written.

    Args:
        given: Folder of the workspace; None for the one named by the environment, or the current folder.
        first: First day; None for the day of the first message.
        last: Last day; None for the day of the last message.
        accept_removals: Whether the run may remove messages and documents that earlier runs read.

    Raises:
        BackstoryError: The run would fail before it embeds anything.
    """
    console = open_console()
    root = find_workspace(given)
    console.print(plain(f"Reading {root}"), soft_wrap=True)
    from backstory.pipeline.run.estimate import estimate_run
    from backstory.pipeline.run.runner import find_wanted
    from backstory.pipeline.workspace import open_workspace

    workspace = open_workspace(root, accept_removals=accept_removals)
    estimate = estimate_run(workspace, lambda scratch: find_wanted(scratch, first, last))
    for line in describe_estimate(estimate, grain=workspace.settings.partitions.grain):
        console.print(plain(line), soft_wrap=True)


def describe_estimate(estimate: Estimate, *, grain: str) -> list[str]:
    """Describe an estimate.

    Args:
        estimate: The estimate.
        grain: Grain of the partitions, such as ``day``.

    Returns:
        One line per fact.
    """
    wanted = estimate.partitions
    lines = [f"Estimate for {count(len(wanted), grain)}, {wanted[0]} to {wanted[-1]}; nothing was written"]
    missing = sum(kind.missing for kind in estimate.embedding)
    lines += [
        f"  {kind.kind:<13} {kind.missing:>9,} texts to embed, {kind.tokens:>12,} tokens"
        f" ({kind.cached:,} of {kind.texts:,} in the cache)"
        for kind in estimate.embedding
    ]
    if not missing:
        lines.append(f"No text needs to be embedded by {estimate.embedder}.")
    else:
        seconds = estimate.pace.seconds
        takes = f"about {write_duration(seconds)} ({estimate.pace.basis})" if seconds else estimate.pace.basis
        lines.append(f"Embedding by {estimate.embedder}: {takes}")
        if estimate.is_paid:
            lines.append(f"Price of embedding: {_describe_price(estimate.cost, estimate.currency)}")
    lines += [_describe_calls(calls, estimate.currency) for calls in estimate.calls]
    return lines


def _describe_calls(calls: CallsToMake, currency: str) -> str:
    purpose = {"rerank": "Reranking", "writing": "Writing posts"}[calls.purpose]
    written = f" and {calls.tokens_out:,} written" if calls.tokens_out else ""
    return (
        f"{purpose} by {calls.model}: at most {calls.calls:,} calls without retries, {calls.tokens_in:,} tokens sent"
        f"{written}, {_describe_price(calls.cost, currency)}"
    )


def _describe_price(cost: float | None, currency: str) -> str:
    if cost is None:
        return "no price is known; write it into `costs.prices`"
    return f"{cost:,.2f} {currency}"
