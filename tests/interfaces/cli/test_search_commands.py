"""``search``, ``grep`` and ``ask``, and the commands on documents."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from backstory.interfaces.cli import app as cli
from backstory.interfaces.cli import search as search_command
from backstory.interfaces.library.library import Library
from backstory.pipeline.workspace import Workspace
from tests.interfaces.cli.invocation import run


def test_search_asks_the_index(made: Path) -> None:
    answer = json.loads(run("search", "a clicking disk", "-w", str(made), "--json").stdout)
    assert answer["hits"][0]["slug"] == "disk"
    assert answer["engine"] == "exact"
    shown = run("search", "a clicking disk", "-w", str(made)).stdout.splitlines()
    assert shown[0] == "1. Disk"
    assert re.match(r"   disk\.md, \w+ [\d-]+, undated, probability 0\.", shown[1])


def test_search_marks_what_is_no_evidence(made: Path) -> None:
    shown = run("search", "xylophone zygote", "-w", str(made)).stdout
    assert shown.startswith("No hit is evidence")
    assert shown.count("*\n") == 2


@pytest.fixture
def found(made_workspace: Workspace) -> Any:
    """Give a function that searches the workspace of six posts; it gives their slugs."""

    def search(*options: str) -> list[str]:
        result = run("search", "sourdough bread", *options, "-w", str(made_workspace.root), "--json")
        assert result.exit_code == 0, result.output
        return [row["slug"] for row in json.loads(result.stdout)["hits"]]

    return search


def test_search_gives_as_many_hits_as_are_wanted(found: Any) -> None:
    assert len(found()) == 5
    assert len(found("-k", "1")) == 1
    assert len(found("--top-k", "100")) == 6


def test_search_takes_filters(found: Any) -> None:
    assert set(found("--as-of", "2024-06-01", "-k", "100")) == {"drip-irrigation", "backup-disk", "unrelated"}
    assert "backup-disk" not in found("--as-of", "2024-05-31", "-k", "100")
    assert set(found("--tag", "sourdough")) == {"sourdough", "later"}
    assert set(found("--tag", "sourdough", "--tag", "moths")) == {"sourdough", "later", "unrelated"}
    assert found("-d", "Moths") == ["unrelated"]
    assert set(found("--path", "*a*.md", "--kind", "post")) == {
        *("drip-irrigation", "backup-disk", "night-train", "later", "unrelated"),
    }
    assert found("--pages", "1-2") == []
    assert set(found("--mode", "keyword")) == {"sourdough", "later"}


def test_a_terminal_gets_marked_words_and_links(made_workspace: Workspace) -> None:
    printed = io.StringIO()
    console = Console(file=printed, force_terminal=True, width=60, highlight=False)
    with Library(made_workspace) as library:
        answer = library.search("sluggish starters", top_k=1)
        search_command.print_answer(library, console, answer)
        search_command.print_matches(library, console, library.grep("sluggish"))
    text = printed.getvalue()
    assert "\x1b[1;33msluggish\x1b[0m" in text
    assert "\x1b[1;33mstarter\x1b[0m" in text
    assert (made_workspace.documents_dir / "sourdough.md").as_uri() in text
    visible = re.sub(r"\x1b\[[\d;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", text)
    assert max(map(len, visible.splitlines())) <= 60


def test_grep_says_like_search_that_files_have_changed(made_workspace: Workspace) -> None:
    post = made_workspace.documents_dir / "sourdough.md"
    post.write_text(post.read_text("utf-8") + "\nAnother line.\n", "utf-8")
    where = ("-w", str(made_workspace.root))
    notes = [run(*words, *where).stderr for words in (("search", "sourdough"), ("grep", "sourdough"))]
    assert notes[0]
    assert notes[0] == notes[1]


def test_grep_counts_and_pages(made_workspace: Workspace) -> None:
    where = ("-w", str(made_workspace.root))
    shown = run("grep", "Sourdough", "-n", "1", *where).stdout.splitlines()
    assert shown[0].startswith("later.md: line 2: ")
    assert shown[1:] == ["4 matches in 2 documents", "Next matches: --offset 1"]
    assert run("grep", "sourdough", "--case", *where).stdout.endswith("1 match in 1 document\n")
    assert json.loads(run("grep", "^# m", "--regex", "--json", *where).stdout)["count"] == 1
    assert run("grep", "nowhere", *where).stdout == "0 matches\n"


def test_show_prints_a_text_and_dump_writes_it(
    made_workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ("-w", str(made_workspace.root))
    monkeypatch.chdir(tmp_path)
    shown = run("show", "moths", *where).stdout
    assert "A quiet evening with moths" in shown
    assert json.loads(run("show", "moths", "--json", *where).stdout)["text"] == shown
    assert run("dump", "moths", *where).stdout == f"{tmp_path / 'unrelated.txt'}\n"
    assert (tmp_path / "unrelated.txt").read_text(encoding="utf-8") == shown
    assert "already exists" in str(run("dump", "moths", *where).exception)
    assert run("dump", "moths", "--force", *where).exit_code == 0
    own = made_workspace.documents_dir / "unrelated.md"
    assert "the document itself" in str(run("dump", "moths", "-o", str(own), "--force", *where).exception)


def test_a_workspace_of_documents_is_made_filled_and_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, root = tmp_path / "my notes", tmp_path / "library"
    notes.mkdir()
    (notes / "rye.md").write_text("# Rye\n\nRye bread wants a hot oven.\n", encoding="utf-8")
    root.mkdir()
    monkeypatch.chdir(root)
    assert run("init", "--documents", str(notes)).exit_code == 0
    settings = root / "backstory.yaml"
    settings.write_text(
        f"{settings.read_text(encoding='utf-8')}embedding: {{provider: hashing}}\n", encoding="utf-8"
    )
    assert sorted(path.name for path in root.iterdir()) == ["backstory.yaml", "posts"]
    for command in (["search", "oven"], ["run"]):
        assert "`backstory add`" in str(run(*command).exception)
    assert "pending" in run("documents").stdout
    added = run("add")
    assert added.exit_code == 0, added.output
    assert "1 indexed" in added.stdout
    assert "undated" not in added.stdout
    assert "rye.md" in run("search", "hot oven").stdout
    (notes / "broken.md").write_text("---\ntitle: [\n---\n", encoding="utf-8")
    more = run("add", "--json")
    assert (more.exit_code, json.loads(more.stdout)["failed"]) == (3, 1)
    assert run("add", str(tmp_path / "absent")).exception is not None
    removed = run("remove", "rye.md")
    assert "exclude" in str(removed.exception)
    forgotten = run("forget", "--document", "my-notes://rye.md")
    assert forgotten.exit_code == 0, forgotten.output
    assert "rye.md" not in run("search", "hot oven").stdout
    names = next(line for line in run("doctor").stdout.splitlines() if "real names" in line)
    assert names.startswith("ok")
    assert (notes / "rye.md").is_file()
    assert run("init").exit_code == 2
    assert "no folder" in str(run("init", str(tmp_path / "other"), "--documents", "absent").exception)


def test_a_conversation_reads_questions_to_the_end(made: Path) -> None:
    lines = "hi\n\nlist all documents\n"
    told = CliRunner().invoke(cli.app, ["ask", "--json", "-w", str(made)], input=lines)
    assert told.exit_code == 0, told.output
    decoder, rest, kinds = json.JSONDecoder(), told.stdout.strip(), []
    while rest:
        answer, end = decoder.raw_decode(rest)
        kinds.append(answer["kind"])
        rest = rest[end:].strip()
    assert kinds == ["casual", "list"]
