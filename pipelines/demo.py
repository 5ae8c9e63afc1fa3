"""The demo: copies the example workspace, counts which topics of its chat the contexts cover, and shows the posts."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import typer
from rich.console import Console
from ruamel.yaml import YAML

from backstory.base.environment import SETTINGS_FILE
from backstory.interfaces.cli.failure import FAILED, run_command
from backstory.interfaces.cli.run import execute_and_print
from backstory.interfaces.cli.terminal import print_table
from backstory.interfaces.pages.site.build import build_site
from backstory.operations.inspection.windows import list_windows
from backstory.pipeline.run.run import Run
from backstory.pipeline.run.runner import find_wanted
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.paths import OWNER_ONLY
from pipelines.__main__ import materialize
from pipelines.demo_comparison import BACKSTORY, METHODS, ONE_KEYWORD_QUERY, ONE_VECTOR
from pipelines.demo_comparison import compare_with_whole_windows as compare
from pipelines.demo_posts import show_posts

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NEWSLETTER = EXAMPLES / "newsletter"  # a project of its own, not part of a workspace
DEFAULT_FOLDER = EXAMPLES.parent / ".demo"

Topics = Mapping[str, Mapping[str, Sequence[str]]]
"""For each day and each of its topics, the slugs of the posts about that topic."""

_TOPICS_FILE = "topics.yaml"
_HEADINGS = {BACKSTORY: "Backstory", ONE_VECTOR: "one vector", ONE_KEYWORD_QUERY: "keywords"}


def prepare_demo(folder: Path) -> Workspace:
    """Copy the example chat, posts and settings, and open the copy as a workspace."""
    folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    for source in sorted({*EXAMPLES.rglob("*")} - {NEWSLETTER, *NEWSLETTER.rglob("*")}):
        target = folder / source.relative_to(EXAMPLES)
        if source.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        elif source.parent != EXAMPLES or source.name == SETTINGS_FILE:
            shutil.copyfile(source, target)
    workspace = open_workspace(folder)
    _fix_pseudonyms(workspace.secret)
    return workspace


def _fix_pseudonyms(secret: Path) -> None:
    """Write a fixed secret, so that every copy gives equal contexts. The people of the example are fictional."""
    if not secret.exists():
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.touch(mode=0o600)
        secret.write_text(f"{hashlib.sha256(b'Quarry Lane, Plot 14').hexdigest()}\n", encoding="ascii")


def read_topics() -> Topics:
    """Read the topics of each day of the example chat, and the posts about each topic."""
    days = YAML(typ="safe").load(EXAMPLES / _TOPICS_FILE)
    return {day.isoformat(): topics for day, topics in days.items()}


def count_topics(answers: pl.DataFrame, windows: pl.DataFrame, topics: Topics) -> pl.DataFrame:
    """Count the topics of each window that each method covers by at least one document about the topic.

    Returns:
        The windows, with a column ``topics`` (number of topics) and a column per method (number of covered topics).
    """
    given = answers.group_by("window_id", "method").agg("slug")
    slugs = {(window_id, method): set(found) for window_id, method, found in given.iter_rows()}
    counts = [
        [
            sum(
                not posts.isdisjoint(slugs.get((window_id, method), ()))
                for posts in map(set, topics[day].values())
            )
            for window_id, day in windows.select("window_id", "partition").iter_rows()
        ]
        for method in METHODS
    ]
    return windows.with_columns(
        pl.Series("topics", [len(topics[day]) for day in windows["partition"]]),
        *(pl.Series(method, values) for method, values in zip(METHODS, counts, strict=True)),
    )


def show_demo(workspace: Workspace, console: Console) -> None:
    """Print the topics that each method covers, the post of the window with the largest difference, and next steps.

    The site of the posts is built.
    """
    topics = read_topics()
    answers = compare(workspace)
    counted = count_topics(answers, pl.DataFrame(list_windows(workspace)), topics)
    _show_counts(counted, console)
    gain = pl.col(BACKSTORY) - pl.col(ONE_VECTOR)
    clearest = counted.sort(
        [gain, BACKSTORY, ONE_KEYWORD_QUERY, "started_at"], descending=[True, True, False, False]
    ).row(0, named=True)
    console.print()
    site = build_site(workspace)
    show_posts(site, clearest["window_id"], console)
    _show_ways_on(workspace, site.index, clearest["short_id"], console)


def _show_counts(counted: pl.DataFrame, console: Console) -> None:
    headings = [_HEADINGS[method] for method in METHODS]
    totals = (str(counted[name].sum()) for name in ["topics", *METHODS])
    row = (f"{counted.height} days, a window each", *totals)
    console.print()
    print_table(console, ("chat", "topics", *headings), [row], right=("topics", *headings))
    console.print(
        "\nA method covers a topic if it finds a document about it. All methods find the\n"
        "same number of documents, none newer than the window. Backstory searches for\n"
        "every part of a window; the others search once for the whole window.",
        highlight=False,
    )


def _show_ways_on(workspace: Workspace, index: Path, window: str, console: Console) -> None:
    here = Path.cwd()
    root = workspace.root.relative_to(here) if workspace.root.is_relative_to(here) else workspace.root
    chosen = "" if workspace.root == DEFAULT_FOLDER else f" WORKSPACE={root}"
    console.print(
        f"\nAll posts:     {root / index.relative_to(workspace.root)}, for your browser\n"
        f"Its context:   .venv/bin/backstory context {window} -w {root}\n"
        f"As a picture:  .venv/bin/backstory report {window} -w {root} --open\n"
        f"All tables:    {root / 'data' / '<table>'}, as views in {root / 'data' / 'backstory.duckdb'}\n"
        f"Dagster UI:    make ui{chosen}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )


def main(folder: Path) -> None:
    """Copy the example workspace to FOLDER, run the pipeline on it, and count the topics that it covers."""
    console = Console()
    console.print(f"Running the pipeline on a copy of the example in {folder}", highlight=False)
    workspace = prepare_demo(folder)
    if not execute_and_print(
        console, workspace, Run(find_wanted(workspace, None, None)), materialize
    ).success:
        raise typer.Exit(FAILED)
    show_demo(workspace, console)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    run_command(app)
