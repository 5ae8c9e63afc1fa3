"""Pages that are generated are up to date; commands, code and figures of the pages are what they claim to be."""

import importlib.util
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

import duckdb
import pytest
from typer.testing import CliRunner

from backstory.interfaces.cli.app import app
from tests.workspaces import CHAT, POSTS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.md")),
]
OWN_CHAT = README.partition("\n## Your own chat and posts\n")[2].partition("\n## ")[0]


@cache
def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def list_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def list_commands(text: str) -> list[list[str]]:
    """Give the words of every `backstory` command in console blocks and inline code."""
    lines = [line[2:] for block in list_blocks(text, "console") for line in block.splitlines()]
    inline = [" ".join(code.split()) for code in re.findall(r"`(backstory [^`]+)`", text)]
    commands = [shlex.split(line, comments=True) for line in [*lines, *inline]]
    return [words[1:] for words in commands if words[:1] == ["backstory"]]


def test_every_generated_page_follows_the_code() -> None:
    assert load_generator().PAGES
    for name, write in load_generator().PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == write(), "run `python docs/generate.py`"


def test_the_tools_of_the_server_follow_the_code() -> None:
    page = (ROOT / "docs" / "reference" / "mcp.md").read_text(encoding="utf-8")
    assert load_generator().put_tools_into(page) == page, "run `python docs/generate.py`"


def test_every_target_that_the_readme_names_is_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|\$ )make ([a-z]+)", README))
    assert named == {"demo", "serve", "test", "ui"}
    assert named <= set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))


def anchors_of(page: Path) -> set[str]:
    """Give the anchors of the headings of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_page_and_its_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    dead = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text):
        leads_to = (page.parent / target).resolve() if target else page
        if not leads_to.exists() or (anchor and anchor not in anchors_of(leads_to)):
            dead.append(f"{target}#{anchor}")
    assert dead == []


def test_every_page_that_code_and_examples_name_exists() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, cwd=ROOT, check=True,
    ).stdout.splitlines()  # fmt: skip
    named = {
        (name, page)
        for name in listed
        if (ROOT / name).suffix in (".py", ".toml", ".yaml", ".service", ".md") and (ROOT / name).is_file()
        for page in re.findall(r"\bdocs/[\w/-]+\.md", (ROOT / name).read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    assert sorted((name, page) for name, page in named if not (ROOT / page).is_file()) == []


def test_every_file_that_a_page_names_exists() -> None:
    roots = "assets|backstory|benchmarks|examples|pipelines|tests"
    named = {
        (page.name, path)
        for page in PAGES
        for path in re.findall(rf"`((?:{roots})/[\w/.-]+)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 40
    assert sorted((page, path) for page, path in named if not (ROOT / path).exists()) == []


def test_a_newcomers_path_has_twelve_pages_and_at_most_20_000_words() -> None:
    path = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")]
    assert len(path) == 12
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in path) <= 20_000


def test_the_readme_names_every_command_that_a_newcomer_needs() -> None:
    named = {words[0] for words in list_commands(README)}
    assert {"init", "run", "windows", "context", "report", "search", "site", "doctor"} <= named


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, with a browser that opens nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("webbrowser.open", lambda _address: True)
    return tmp_path


def put_own_chat_into(workspace: Path) -> None:
    """Do what the `cp` lines do, and choose an embedder that loads no model."""
    (workspace / "backstory.yaml").write_text("embedding: {provider: hashing}\n", encoding="utf-8")
    (workspace / "chats" / "us.txt").write_text(CHAT, encoding="utf-8")
    for name, (title, date, text) in POSTS.items():
        front = f"---\ntitle: {title}\ndate: {date}\n---\n"
        (workspace / "posts" / name).write_text(f"{front}{text}\n", encoding="utf-8")


def test_the_commands_code_and_query_for_ones_own_chat_work(here: Path) -> None:
    printed = {}
    for words in list_commands(
        "".join(f"```console\n{block}```\n" for block in list_blocks(OWN_CHAT, "console"))
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, f"{words}: {result.output} {result.exception}"
        printed[words[0]] = result.stdout
        if words[0] == "init":
            put_own_chat_into(here / words[1])
    assert "2025-03-15" in printed["windows"]
    assert "Related Previous Posts" in printed["context"]
    assert Path(printed["report"].strip()).is_file()
    assert printed["search"].startswith("1. Night train")

    [code] = list_blocks(OWN_CHAT, "python")
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["reports"]

    [query] = list_blocks(OWN_CHAT, "sql")
    [database] = re.findall(r"^-- duckdb (\S+)$", query, re.MULTILINE)
    with duckdb.connect(str(here / database), read_only=True) as connection:
        assert len(connection.sql(query).fetchall()) == 2


def test_the_figures_of_the_readme_are_those_of_the_quality_page() -> None:
    quality = (ROOT / "docs" / "quality.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| [^|]+ \| ([^|]+) \| (\d+) \| \*\*([.\d]+)\*\* \| ([.\d]+) \|$", README, re.MULTILINE
    )
    assert len(rows) == 6
    for name, windows, own, baseline in rows:
        measured = re.search(
            rf"^\| {re.escape(name)} \| {windows} \| \*\*{own}\*\*[^|]+\|(.*)$", quality, re.MULTILINE
        )
        assert measured is not None, name
        assert max(map(float, measured[1].split("|")[:2])) == float(baseline)
