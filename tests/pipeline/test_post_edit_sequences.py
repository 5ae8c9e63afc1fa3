"""Random edits of a workspace whose posts are documents: each history ends as a workspace without one.

Chats, documents, settings and the prompt are edited, and people edit, add, rename and remove files of posts.
``BACKSTORY_EDIT_SEQUENCES`` sets the number of sequences in the long tests.
"""

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from backstory.index.snapshot import DOCUMENTS_FILE, VECTORS_FILE, current_version, read_manifest
from backstory.pipeline.workspace import open_workspace
from backstory.writing.post_files import inspect_file
from tests.forms import Share
from tests.long_tests import LONG_TESTS
from tests.models.services import chat_server
from tests.models.services.chat_server import ChatReply, ChatRequest, run_chat_server
from tests.pipeline.disturbed_runs import run_and_kill, run_one_day
from tests.pipeline.feedback_workspaces import SETTINGS, TOPICS, list_lines, read_all, read_files
from tests.pipeline.workspace_states import Inputs, find_leftovers, run, write_inputs

SEQUENCES = int(os.environ.get("BACKSTORY_EDIT_SEQUENCES", "1")) if LONG_TESTS else 1
STEPS = 15 if LONG_TESTS else 3
DAYS, WINDOWS = (3 if LONG_TESTS else 2), 2

PROMPT = "prompts/post.md.j2"
TEMPLATE = """\
{{% block user %}}Style {style}.
{{% for message in window.messages %}}{{{{ message.text }}}}
{{% endfor %}}{{% for document in documents %}}Earlier: {{{{ document.title }}}} [{{{{ document.number }}}}]
{{% endfor %}}{{% endblock %}}
"""
WRITER = "{{provider: openai, feedback: 'on', model: tiny, prompt: {prompt}}}"
SERVICE = "services: {{openai: {{base_url: '{url}', requests_per_minute: 10000}}}}\n"
SETTINGS_TRIED = (
    ("top_k: 3", "top_k: 1"),
    ("size: 2", "size: 4"),
    ("feedback: 'on'", "feedback: 'off'"),
    ("provider: openai", "provider: digest"),
    ("provider: openai", "provider: openai, grain: week"),
    ("provider: openai", "provider: openai, without_context: skip"),
    ("provider: openai", "provider: openai, min_characters: 120"),
    ("folder: chats", "folder: chats, timezone: Asia/Tokyo"),
    ("rag:", "privacy: {exclude: [Ben Okri]}\nrag:"),
)

Edited = dict[str, str]
Edit = Callable[[Path, Edited, random.Random], object]


def answer(request: ChatRequest) -> ChatReply | None:
    """Write a post of what was sent: the same text for the same prompt."""
    said = re.findall(r"(?:Style|How is|Worse than|Earlier:).*", request.user)
    return chat_server.post(" ".join(said), title=f"About {said[1][:60]}")(request)


@pytest.fixture(scope="module")
def first() -> Iterator[Edited]:
    """The inputs of the beginning, and a server that their settings name."""
    with pytest.MonkeyPatch.context() as patch, run_chat_server() as chat:
        patch.setenv("NO_PROXY", "127.0.0.1")
        chat.always = answer
        settings = SETTINGS.replace('{provider: digest, feedback: "on"}', WRITER.format(prompt=PROMPT))
        settings += SERVICE.format(url=chat.url)
        documents = {
            f"posts/{topic.replace(' ', '-')}.md": f"---\ntitle: {topic}\ndate: 2024-05-01\n---\n\nAll about {topic}.\n"
            for topic in TOPICS[:3]
        }
        yield {
            "backstory.yaml": settings,
            "chats/garden.txt": write_chat_text(DAYS),
            "chats/moths.txt": write_chat_text(DAYS)
            .replace("Ada Lind", "Cleo Marsh")
            .replace(":05 ", ":07 "),
            PROMPT: TEMPLATE.format(style=0),
            **documents,
        }


def write_chat_text(days: int) -> str:
    return "".join(f"{line}\n" for line in list_lines(days, windows=WINDOWS))


def edit_message(_: Path, inputs: Edited, rng: random.Random) -> None:
    before, after = rng.sample(TOPICS, 2)
    inputs["chats/garden.txt"] = inputs["chats/garden.txt"].replace(before, after, rng.randrange(1, 3))


def cut_chat(_: Path, inputs: Edited, rng: random.Random) -> None:
    lines = inputs["chats/garden.txt"].splitlines(keepends=True)
    inputs["chats/garden.txt"] = "".join(lines[: max(4, len(lines) - rng.randrange(1, 6))])


def remove_day(_: Path, inputs: Edited, rng: random.Random) -> None:
    lines = inputs["chats/garden.txt"].splitlines(keepends=True)
    days = sorted({line[:10] for line in lines})
    day = rng.choice(days[:-1] or ["none, since it is the last"])
    inputs["chats/garden.txt"] = "".join(line for line in lines if not line.startswith(day))


def restore_chat(_: Path, inputs: Edited, rng: random.Random) -> None:
    inputs["chats/garden.txt"] = write_chat_text(DAYS + rng.randrange(2))


def edit_document(_: Path, inputs: Edited, rng: random.Random) -> None:
    name = rng.choice([name for name in sorted(inputs) if name.startswith("posts/")])
    inputs[name] += f"\nMore about {rng.choice(TOPICS)}.\n"


def edit_prompt(_: Path, inputs: Edited, rng: random.Random) -> None:
    inputs[PROMPT] = TEMPLATE.format(style=rng.randrange(3))


def try_setting(_: Path, inputs: Edited, rng: random.Random) -> None:
    inputs["backstory.yaml"] = inputs["backstory.yaml"].replace(*rng.choice(SETTINGS_TRIED))


def switch_scope(_: Path, inputs: Edited, __: random.Random) -> None:
    """Give windows the posts of all conversations, or only those of their own again."""
    settings, scope = inputs["backstory.yaml"], ", feedback_scope: workspace"
    inputs["backstory.yaml"] = (
        settings.replace(scope, "")
        if scope in settings
        else settings.replace("model: tiny", f"model: tiny{scope}")
    )


def edit_post(root: Path, inputs: Edited, rng: random.Random) -> None:
    """Edit the file of a post as a person does."""
    path = rng.choice(list_posts(root))
    text = path.read_text(encoding="utf-8")
    inputs[f"written/{path.name}"] = f"{text}\nA person adds: the {rng.choice(TOPICS)}.\n"


def rename_post(root: Path, inputs: Edited, rng: random.Random) -> None:
    path = rng.choice(list_posts(root))
    inputs[f"written/renamed-{rng.randrange(2)}.md"] = path.read_text(encoding="utf-8")


def add_own(_: Path, inputs: Edited, rng: random.Random) -> None:
    topic = rng.choice(TOPICS)
    inputs[f"written/own-{rng.randrange(2)}.md"] = (
        f"---\ntitle: My {topic}\ndate: 2025-01-0{rng.randrange(1, 4)}\n---\n\nMine is the {topic}.\n"
    )


def remove_own(_: Path, inputs: Edited, rng: random.Random) -> None:
    """Remove a file that a person edited or added; the post of a window is then written again."""
    own = [name for name in sorted(inputs) if name.startswith("written/")]
    if own:
        del inputs[rng.choice(own)]


def remove_post(root: Path, _: Edited, rng: random.Random) -> None:
    """Remove the file of a post, which changes no input: the next run writes it again."""
    rng.choice(list_posts(root)).unlink()


EDITS: tuple[Edit, ...] = (
    edit_post, switch_scope, remove_post, remove_day, edit_prompt, edit_message, rename_post, add_own, remove_own,
    cut_chat, restore_chat, edit_document, try_setting,
)  # fmt: skip
"""The edits; the short test makes the first ones in this order."""


def list_posts(root: Path) -> list[Path]:
    return sorted(path for path in (root / "written").glob("*.md") if not path.name.endswith(".draft.md"))


def write_state(root: Path, inputs: Inputs) -> None:
    """Make the inputs exactly these, the files of people in the folder of the posts among them."""
    for name in inputs:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    for path in list_posts(root):
        if f"written/{path.name}" not in inputs and (inspect_file(path) == "edited" or is_renamed(path)):
            path.unlink()
    write_inputs(root, inputs)


def is_renamed(path: Path) -> bool:
    return path.name.startswith("renamed-")


def describe(root: Path) -> dict[str, Any]:
    """Give what a reader can see, but for the snapshot that a window was searched in, which is a matter of history."""
    workspace = open_workspace(root)
    version = current_version(workspace.index)
    manifest = read_manifest(workspace.index / version)
    documents = workspace.tables.read("documents").filter(pl.col("status").is_in(["ok", "error"]))
    return {
        **{name: frame.to_dicts() for name, frame in read_all(workspace).items()},
        "documents": documents.sort("uri").to_dicts(),
        "index": (version, manifest.languages, manifest.files[VECTORS_FILE].sha256),
        "indexed documents": pl.read_ipc(workspace.index / version / DOCUMENTS_FILE).to_dicts(),
        "files": read_files(workspace),
        "leftovers": find_leftovers(root),
    }


def find_differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}


def describe_fresh(root: Path, inputs: Inputs) -> dict[str, Any]:
    write_state(root, inputs)
    assert run(root).success
    described = describe(root)
    shutil.rmtree(root)
    return described


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_a_history_of_edits_of_posts_ends_as_a_workspace_without_one(
    seed: int, first: Edited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: Share
) -> None:
    rng = random.Random(seed)
    root = tmp_path / "workspace"
    share(root)
    history = [first]
    write_state(root, first)
    assert run(root).success
    for step in range(STEPS):
        tried = dict(history[-1])
        edit = rng.choice(EDITS) if LONG_TESTS else EDITS[step]
        edit(root, tried, rng)
        write_state(root, tried)
        between = rng.choice(("nothing", "nothing", "run", "kill", "one day"))
        if between == "run":
            run(root)
        elif between == "kill":
            run_and_kill(root, rng, monkeypatch)
        elif between == "one day":
            run_one_day(root, rng)
        after = rng.choice(history) if rng.random() < 0.3 else tried
        write_state(root, after)
        history.append(after)
        outcome = run(root)
        assert outcome.success, outcome.failures
        if LONG_TESTS or step == STEPS - 1:
            differences = find_differences(describe(root), describe_fresh(tmp_path / "fresh", after))
            assert differences == {}, (step, edit.__name__, between)
