"""Random histories of a workspace: each ends as a workspace without one, whatever was run, killed or damaged meanwhile.

Chats, documents, settings, prompts and what was learned are edited, and people edit, add, copy and remove files of
posts. Written posts are documents of later windows, so that whatever goes or changes must leave those, too.

``BACKSTORY_HISTORIES`` sets the number of histories of each kind, of 3 steps each, or 15 in the long tests.
"""

import json
import os
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.pipeline.incremental.report import StageResult
from backstory.pipeline.run.plan import find_wanted
from backstory.pipeline.run.run import Run, ignore_progress
from backstory.pipeline.workspace import open_workspace
from backstory.retrieval.evidence.document_fit import FEATURES
from pipelines.materialization import materialize
from tests.forms import Share
from tests.long_tests import LONG_TESTS
from tests.models.services import chat_server
from tests.models.services.chat_server import ChatReply, ChatRequest, ChatServer
from tests.pipeline.feedback_workspaces import SETTINGS as POSTING
from tests.pipeline.feedback_workspaces import TOPICS, list_lines
from tests.workspaces import CHAT, replace_recorded, run_workspace
from tests.world import (
    ANCHOR,
    LEARNED,
    RENAMED,
    FreshWorkspaces,
    cut,
    describe,
    feedback_inputs,
    find_differences,
    first_inputs,
    list_posts,
    run,
    run_and_kill,
    run_one_day,
    write_inputs,
)

HISTORIES = int(os.environ.get("BACKSTORY_HISTORIES", "1"))
STEPS = 15 if LONG_TESTS else 3

Inputs = dict[str, str]
Edit = Callable[[Path, Inputs, random.Random], object]

SETTINGS_TRIED = (
    ("top_k: 3", "top_k: 2"),
    ("size: 6", "size: 4"),
    ("size: 2", "size: 4"),
    ("overlap: 2", "overlap: 0"),
    ("top_k: 3", "top_k: 3, strategy: mmr"),
    ("top_k: 3", "enabled: false, top_k: 3"),
    ("start: 2025-03-01", "start: 2025-03-01, grain: week"),
    ("rag: ", "chunks: {max_tokens: 24, overlap_tokens: 0}\nrag: "),
    ("rag: ", "privacy: {exclude: [Cleo Marsh, Ben Okri]}\nrag: "),
    ("folder: chats", "folder: chats, timezone: Asia/Tokyo"),
    ("feedback: 'on'", "feedback: 'off'"),
    ("feedback: 'on'", "feedback: 'on', without_context: skip"),
    ("feedback: 'on'", "feedback: 'on', feedback_scope: workspace"),
    ("feedback: 'on'", "feedback: 'on', min_characters: 120"),
    ("feedback: 'on'", "feedback: 'on', grain: week"),
    ("provider: openai", "provider: digest"),
    ("grain: week", "grain: day"),
    ("grain: week", "grain: month"),
    ("grain: week", "grains: {garden: week}"),
)
LATER = "14/03/2025, 12:00 - Eve Stone: A late message about {}\n"
PROMPT = "prompts/post.md.j2"
TEMPLATE = """\
{{% block user %}}Style {style}.
{{% for message in window.messages %}}{{{{ message.text }}}}
{{% endfor %}}{{% for document in documents %}}Earlier: {{{{ document.title }}}} [{{{{ document.number }}}}]
{{% endfor %}}{{% endblock %}}
"""


def find(inputs: Inputs, folder: str) -> list[str]:
    return [name for name in sorted(inputs) if name.startswith(folder) and name != "chats/anchor.txt"]


def choose(inputs: Inputs, folder: str, rng: random.Random) -> str:
    """Choose a file of a folder, which gets its first files back if few are left."""
    if len(find(inputs, folder)) < (3 if folder == "posts/" else 1):
        inputs.update({name: text for name, text in feedback_inputs().items() if name.startswith(folder)})
    return rng.choice(find(inputs, folder))


def add_chat(_: Path, inputs: Inputs, rng: random.Random) -> None:
    text = LATER.format(rng.choice(TOPICS)) + CHAT.splitlines()[-1]
    inputs[f"chats/other-{rng.randrange(3)}.txt"] = f"{text}\n"


def remove_file(_: Path, inputs: Inputs, rng: random.Random) -> None:
    del inputs[choose(inputs, rng.choice(("chats/", "posts/")), rng)]


def rename_file(_: Path, inputs: Inputs, rng: random.Random) -> None:
    name = choose(inputs, rng.choice(("chats/", "posts/")), rng)
    path = Path(name)
    inputs[f"{path.parent}/renamed-{rng.randrange(3)}{path.suffix}"] = inputs.pop(name)


def swap_documents(_: Path, inputs: Inputs, rng: random.Random) -> None:
    one, other = choose(inputs, "posts/", rng), choose(inputs, "posts/", rng)
    inputs[one], inputs[other] = inputs[other], inputs[one]


def cut_chat(_: Path, inputs: Inputs, rng: random.Random) -> None:
    """Keep the beginning or the end of a chat."""
    name = choose(inputs, "chats/", rng)
    lines = inputs[name].splitlines(keepends=True)
    at = rng.randrange(1, len(lines)) if len(lines) > 1 else 0
    inputs[name] = "".join(rng.choice((lines[:at], lines[at:])) or lines)


def remove_day(_: Path, inputs: Inputs, rng: random.Random) -> None:
    name = choose(inputs, "chats/", rng)
    lines = inputs[name].splitlines(keepends=True)
    day = rng.choice(lines)[:10]
    inputs[name] = "".join(line for line in lines if not line.startswith(day))
    if not inputs[name]:
        del inputs[name]


def restore_chat(_: Path, inputs: Inputs, rng: random.Random) -> None:
    inputs["chats/garden.txt"] = rng.choice((CHAT, write_chat_text(4)))


def edit_message(_: Path, inputs: Inputs, rng: random.Random) -> None:
    name = choose(inputs, "chats/", rng)
    word = rng.choice(("frost", "disk", "starter", "train", *TOPICS))
    inputs[name] = inputs[name].replace(word, rng.choice(TOPICS), rng.randrange(1, 4))


def append_message(_: Path, inputs: Inputs, rng: random.Random) -> None:
    anchor, later = inputs.get("chats/anchor.txt", ANCHOR), LATER.format(rng.choice(TOPICS))
    inputs["chats/anchor.txt"] = anchor.replace("16/03", f"{later}16/03", 1)


def break_line(_: Path, inputs: Inputs, rng: random.Random) -> None:
    inputs[choose(inputs, "chats/", rng)] += "31/02/2025, 10:00 - Ada Lind: no such day\n"


def add_document(_: Path, inputs: Inputs, rng: random.Random) -> None:
    topic = rng.choice(TOPICS)
    text = f"---\ntitle: On {topic}\ndate: 2024-02-01\n---\n\nAbout {topic}.\n"
    inputs[f"posts/new-{rng.randrange(3)}.md"] = text


def edit_document(_: Path, inputs: Inputs, rng: random.Random) -> None:
    inputs[choose(inputs, "posts/", rng)] += f"\nMore about {rng.choice(TOPICS)}.\n"


def edit_prompt(_: Path, inputs: Inputs, rng: random.Random) -> None:
    inputs[PROMPT] = TEMPLATE.format(style=rng.randrange(3))


def try_setting(_: Path, inputs: Inputs, rng: random.Random) -> None:
    """Change what the settings state, or begin with those of another kind again."""
    settings = inputs["backstory.yaml"]
    tried = [pair for pair in SETTINGS_TRIED if pair[0] in settings and pair[1] not in settings]
    inputs["backstory.yaml"] = settings.replace(*rng.choice(tried))


def learn(_: Path, inputs: Inputs, rng: random.Random) -> None:
    """Learn something, or forget what was learned."""
    weights = {name: round(rng.uniform(-1, 1), 3) for name in FEATURES}
    gains = {"gain": 0.1, "gain_low": 0.05, "gain_high": 0.15}
    fit = {"weights": weights, "intercept": -3.0}
    learned = {
        "embedder": HashingEmbedder().id,
        **gains,
        "fit": fit,
        "windows": 20,
        "links": 60,
    }
    if inputs.pop(LEARNED, None) is None:
        inputs[LEARNED] = json.dumps(learned)


def edit_post(root: Path, inputs: Inputs, rng: random.Random) -> None:
    """Edit the file of a post, or a copy of it, as a person does."""
    for path in rng.sample(posts := list_posts(root), min(len(posts), 1)):
        name = rng.choice((path.name, f"{RENAMED}{rng.randrange(2)}.md"))
        adds = f"\nA person adds: the {rng.choice(TOPICS)}.\n"
        inputs[f"written/{name}"] = path.read_text(encoding="utf-8") + rng.choice((adds, ""))


def add_post(_: Path, inputs: Inputs, rng: random.Random) -> None:
    topic, day = rng.choice(TOPICS), rng.randrange(1, 4)
    text = f"---\ntitle: My {topic}\ndate: 2025-01-0{day}\n---\n\nMine is the {topic}.\n"
    inputs[f"written/own-{rng.randrange(2)}.md"] = text


def remove_post(root: Path, inputs: Inputs, rng: random.Random) -> None:
    """Remove the file of a post, which the next run writes again, or one that a person edited or added."""
    own = find(inputs, "written/")
    if own and rng.random() < 0.5:
        del inputs[rng.choice(own)]
    else:
        for path in rng.sample(posts := list_posts(root), min(len(posts), 1)):
            path.unlink()


EDITS: tuple[Edit, ...] = (
    edit_post, remove_day, try_setting, remove_file, edit_message, remove_post, learn, cut_chat, rename_file,
    edit_prompt, add_post, restore_chat, swap_documents, edit_document, add_chat, append_message, break_line,
    add_document,
)  # fmt: skip


def run_while_edited(root: Path, rng: random.Random, after: Inputs) -> None:
    """Change the inputs once some stages are done."""
    left = rng.randrange(8)

    def edit_later(told: object) -> None:
        nonlocal left
        left -= isinstance(told, StageResult)
        if left == 0:
            write_inputs(root, after)

    workspace = open_workspace(root)
    run_workspace(workspace, find_wanted(workspace, None, None), edit_later)


def run_in_dagster(root: Path) -> None:
    workspace = open_workspace(root)
    materialize(workspace, Run(find_wanted(workspace, None, None)), ignore_progress)


def damage(root: Path, rng: random.Random) -> None:
    """Delete or cut one of the files that runs have made."""
    made = [
        *root.glob("data/*/*.parquet"),
        *root.glob("data/*.duckdb"),
        *root.glob("index/*/*"),
        root / "index/CURRENT",
    ]
    rng.choice((Path.unlink, cut))(rng.choice(sorted(made)))


def disturb(between: str, root: Path, rng: random.Random, after: Inputs) -> None:
    """Do between an edit and the next one what happens to workspaces."""
    match between:
        case "run":
            run(root)
        case "one day":
            run_one_day(root, rng)
        case "kill":
            run_and_kill(root, rng.randrange(2500))
        case "edit during":
            run_while_edited(root, rng, after)
        case "damage":
            damage(root, rng)
        case "dagster":
            run_in_dagster(root)


BETWEEN = ("nothing", "run", "one day", "kill", "edit during", "damage", *(["dagster"] if LONG_TESTS else []))


def write_chat_text(days: int) -> str:
    return "".join(f"{line}\n" for line in list_lines(days, windows=2))


def answer(request: ChatRequest) -> ChatReply | None:
    """Write a post of what was sent: the same text for the same prompt."""
    said = re.findall(r"(?:Style|How is|Worse than|Earlier:).*", request.user)
    return chat_server.post(" ".join(said), title=f"About {said[-1][:60]}")(request)


@pytest.fixture
def kinds(chat: ChatServer) -> Mapping[str, Inputs]:
    """The inputs that histories begin with; of one, a model writes the posts."""
    chat.always = answer
    posting = {**feedback_inputs(), "chats/garden.txt": write_chat_text(3), PROMPT: TEMPLATE.format(style=0)}
    settings = POSTING.replace('"on"', "'on'")
    asking = settings.replace("digest", f"openai, model: tiny, prompt: {PROMPT}")
    service = f"services: {{openai: {{base_url: '{chat.url}', requests_per_minute: 10000}}}}\n"
    return {
        "digest": feedback_inputs(),
        "model": {**posting, "backstory.yaml": asking + service},
        "letters": {**posting, "backstory.yaml": settings.replace("'on'", "'on', grain: week")},
        "letters apart": {**posting, "backstory.yaml": settings.replace("'on'", "'off', grain: week")},
    }


@pytest.fixture(scope="module")
def fresh_workspaces(tmp_path_factory: pytest.TempPathFactory) -> FreshWorkspaces:
    return FreshWorkspaces(tmp_path_factory.mktemp("fresh"))


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize(
    "kind", ["digest", "model", "letters", pytest.param("letters apart", marks=pytest.mark.long)]
)
def test_a_history_ends_as_a_workspace_without_one(
    kind: str,
    seed: int,
    tmp_path: Path,
    kinds: Mapping[str, Inputs],
    fresh_workspaces: FreshWorkspaces,
    share: Share,
) -> None:
    rng = random.Random(f"{kind} {seed}")
    history = [kinds[kind]]
    root = tmp_path / "workspace"
    share(root)
    write_inputs(root, history[0])
    assert run(root).success
    for step in range(STEPS):
        tried = dict(history[-1])
        edit = rng.choice(EDITS)
        edit(root, tried, rng)
        write_inputs(root, tried)
        between, after = rng.choice(BETWEEN), rng.choice([*history, tried, tried, tried])
        disturb(between, root, rng, after)
        write_inputs(root, after)
        history.append(after)
        outcome = run(root)
        assert outcome.success, outcome.failures
        if LONG_TESTS or step == STEPS - 1:
            found = find_differences(describe(root), fresh_workspaces.describe(after))
            assert found == {}, (step, edit.__name__, between)


def test_an_edit_that_a_run_did_not_read_is_seen_by_the_next(
    tmp_path: Path, fresh_workspaces: FreshWorkspaces, share: Share
) -> None:
    before = first_inputs()
    share(tmp_path)
    write_inputs(tmp_path, before)
    after = dict(before)
    edit_document(tmp_path, after, random.Random(1))
    append_message(tmp_path, after, random.Random(1))

    def edit_at_once(told: object) -> None:
        if isinstance(told, StageResult) and told.table == "documents":
            write_inputs(tmp_path, after)

    workspace = open_workspace(tmp_path)
    run_workspace(workspace, find_wanted(workspace, None, None), edit_at_once)
    assert not run(tmp_path).fresh
    assert describe(tmp_path) == fresh_workspaces.describe(after)
    assert run(tmp_path).fresh


def test_a_blocked_run_is_not_fresh_though_every_stage_is_done(tmp_path: Path, share: Share) -> None:
    share(tmp_path)
    write_inputs(tmp_path, first_inputs())
    assert run(tmp_path).success
    workspace = open_workspace(tmp_path)
    day = next(key for key, entry in workspace.catalog.read("window_contexts").items() if entry.rows)
    right = workspace.tables.read("window_contexts", [day])
    wrong = right.with_columns(window_id=pl.lit("of no window"))
    replace_recorded(workspace, "window_contexts", day, wrong)
    for _ in range(2):
        outcome = run(tmp_path)
        assert not outcome.success
        assert not outcome.fresh
    replace_recorded(workspace, "window_contexts", day, right)
    assert run(tmp_path).success
    assert run(tmp_path).fresh
