"""The demo: copies the example workspace, counts which topics of its chat the contexts cover, and shows the posts.

Each window is searched once as a whole, too, by two simple methods.
"""

import hashlib
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import typer
from rich.console import Console
from rich.markdown import Markdown
from ruamel.yaml import YAML

from backstory.base.environment import SETTINGS_FILE
from backstory.base.ids import WRITTEN_PREFIX
from backstory.base.wording import count
from backstory.index.search import open_index
from backstory.interfaces.cli.failure import FAILED, run_command
from backstory.interfaces.cli.run import run_and_print
from backstory.interfaces.cli.terminal import plain, plain_line, print_table
from backstory.interfaces.pages.site.build import Site, build_site
from backstory.models.embeddings.embed import embed_texts
from backstory.operations.evaluation import ask_once, rank_distinct
from backstory.operations.inspection.windows import list_windows
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.retrieval.hits import mean_vectors
from backstory.settings.paths import OWNER_ONLY
from pipelines.__main__ import materialize

EXAMPLES = Path(__file__).resolve().parent
DEFAULT_FOLDER = EXAMPLES.parent / ".demo"

Topics = Mapping[str, Mapping[str, Sequence[str]]]
"""For each day and each of its topics, the slugs of the posts about that topic."""

BACKSTORY: Final = "backstory"
ONE_VECTOR: Final = "one vector"
ONE_KEYWORD_QUERY: Final = "keywords"
METHODS: Final = (BACKSTORY, ONE_VECTOR, ONE_KEYWORD_QUERY)
_HEADINGS: Final = {BACKSTORY: "Backstory"}
_FOLDERS: Final = ("chats", "posts")
_WIDTH: Final = 78
_HEADING: Final = re.compile(r"^#+ (.+)$", re.MULTILINE)


def prepare_demo(folder: Path) -> Workspace:
    """Copy the example chat, posts and settings, and open the copy as a workspace."""
    folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    shutil.copyfile(EXAMPLES / SETTINGS_FILE, folder / SETTINGS_FILE)
    for name in _FOLDERS:
        shutil.copytree(EXAMPLES / name, folder / name, copy_function=shutil.copyfile, dirs_exist_ok=True)
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
    days = YAML(typ="safe").load(EXAMPLES / "topics.yaml")
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


def compare_with_whole_windows(workspace: Workspace) -> pl.DataFrame:
    """Search once for each whole window by two simple methods, and return the answers together with the contexts.

    The methods are ``backstory``, the stored contexts; ``one vector``, a search by the mean of the vectors of a
    window's query chunks, weighted by their tokens; and ``keywords``, BM25 of all its words. The last two search
    exactly. They give each document once, and as many documents as the context holds, or fewer if fewer share a
    word with the window. Under ``rag.as_of`` they give none that was published after the window began. Posts that
    Backstory wrote count for none of the methods.

    Returns:
        One row per window, method and document, sorted by these, the best document first: ``window_id``,
        ``method``, ``rank`` (from 1), ``document_id``, ``slug``, ``title``.
    """
    windows = workspace.tables.read("windows").sort("started_at", "window_id")
    contexts = workspace.tables.read("contexts").sort("window_id", "rank")
    chunks = workspace.tables.read("window_chunks")
    embedded = embed_texts(
        workspace.embedder, chunks["text"].to_list(), task="query", cache=workspace.embeddings
    )
    # By their lengths, so that the cut of a window into few or many chunks hardly changes its mean.
    weighted = embedded.vectors * chunks["token_count"].to_numpy().astype(np.float32)[:, None]
    window_ids, means = mean_vectors(chunks["window_id"], weighted)
    texts = (
        pl.DataFrame({"window_id": window_ids})
        .join(_join_texts(workspace, windows), on="window_id", maintain_order="left")
        .get_column("text")
    )
    with open_index(workspace.index, embedder_id=workspace.embedder.id) as index:
        ask = partial(ask_once, index, windows, window_ids, means, as_of=workspace.settings.rag.as_of)
        found = {BACKSTORY: contexts, ONE_VECTOR: ask(), ONE_KEYWORD_QUERY: ask(texts)}
    documents = workspace.tables.read("documents").filter(status="ok")
    # A post is a mixture of topics as a window is, so one query for the whole window finds little else.
    of_people = documents.filter(~pl.col("uri").str.starts_with(WRITTEN_PREFIX))
    answers = pl.concat(
        rank_distinct(
            answer.join(of_people, on="document_id", how="semi", maintain_order="left")
        ).with_columns(method=pl.lit(method))
        for method, answer in found.items()
    )
    places = answers.filter(method=BACKSTORY).group_by("window_id").agg(places=pl.len())
    return (
        windows.select("window_id")
        .join(answers, on="window_id", maintain_order="left_right")
        .join(places, on="window_id", maintain_order="left")
        .filter(pl.col("rank") <= pl.col("places"))
        .join(documents.select("document_id", "slug", "title"), on="document_id", maintain_order="left")
        .select("window_id", "method", "rank", "document_id", "slug", "title")
    )


def _join_texts(workspace: Workspace, windows: pl.DataFrame) -> pl.DataFrame:
    """Join the texts of each window's messages: ``window_id``, ``text``."""
    messages = workspace.tables.read("messages").select("message_id", "text").drop_nulls("text")
    named = windows.select("window_id", message_id="message_ids").explode("message_id")
    said = named.join(messages, on="message_id", maintain_order="left")
    return said.group_by("window_id", maintain_order=True).agg(pl.col("text").str.join("\n\n"))


def show_demo(workspace: Workspace, console: Console) -> None:
    """Print the topics that each method covers, the post of the window with the largest difference, and next steps.

    The site of the posts is built.
    """
    topics = read_topics()
    answers = compare_with_whole_windows(workspace)
    counted = count_topics(answers, pl.DataFrame(list_windows(workspace)), topics)
    _show_counts(counted, console)
    gain = pl.col(BACKSTORY) - pl.col(ONE_VECTOR)
    clearest = counted.sort(
        [gain, BACKSTORY, ONE_KEYWORD_QUERY, "started_at"], descending=[True, True, False, False]
    ).row(0, named=True)
    console.print()
    site = build_site(workspace)
    _show_posts(site, clearest["window_id"], console)
    _show_ways_on(workspace, site.index, clearest["short_id"], console)


def _show_counts(counted: pl.DataFrame, console: Console) -> None:
    headings = [_HEADINGS.get(method, method) for method in METHODS]
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


def _show_posts(site: Site, window_id: str, console: Console) -> None:
    """Print the number of posts, the targets of their links, and the first topic of the post of a window."""
    posts = site.library.posts
    between = site.library.links_between_posts
    links = sum(len(post.cited) for post in posts)
    documents = len({use.document_id for post in posts for use in post.cited})
    earlier = f"; {between} of the links lead to its own earlier posts" if between else ""
    told = (
        f"A writer without a model has written {count(len(posts), 'post')}, one for each window, with "
        f"{count(links, 'link')} to {count(documents, 'document')}{earlier}. One begins so:"
    )
    console.print(plain(textwrap.fill(told, _WIDTH)), end="\n\n")
    post = next(post for post in posts if post.window.window_id == window_id)
    beginning, *topics = post.text.split("\n## ")
    shown = "\n## ".join([beginning, *topics[:1]])
    console.print(plain_line(post.title, "bold"), end="\n\n")
    console.print(Markdown(_HEADING.sub(r"**\1**", shown)), width=_WIDTH)
    if more := topics[1:]:
        console.print(plain(f"\n... and {count(len(more), 'more topic')}, in {post.path}", "dim"))


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
    if not run_and_print(workspace.root, execute=materialize).success:
        raise typer.Exit(FAILED)
    show_demo(workspace, console)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    run_command(app)
