"""Forgetting: nothing of it is left in any file, and no later run brings it back."""

from dataclasses import replace
from pathlib import Path

import pytest

from backstory import run_pipeline
from backstory.base.errors import InputError, WorkspaceError
from backstory.index.snapshot import current_version
from backstory.ingest.chats.merging import read_archive
from backstory.ingest.privacy.exclusions import Forgotten, Kind, OptOuts
from backstory.interfaces.pages.report.window_page import write_window_page
from backstory.models.reranker import Topic
from backstory.operations.forgetting import Forgetting, find_left, forget
from backstory.pipeline.chats.copies import pick_parts
from backstory.pipeline.stages.messages import find_partitions
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.schemas import TABLES
from tests.errors import raises
from tests.interfaces.cli.invocation import run as run_command
from tests.models.rerankers.rerank_requests import RATED
from tests.operations.forgetting.leftovers import find_files_with
from tests.pipeline.test_removals import KEEP
from tests.workspaces import CHAT, SETTINGS, build_table, copy_made, write_workspace

OTHER = """\
14/03/2025, 09:00 - Dora Quill: Only the moths were awake
14/03/2025, 09:05 - Ada Lind: A lamp for the moths, then, dear @Dora Quill
"""


@pytest.fixture(scope="module")
def made_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two conversations and the tombstone of a post, which no test changes."""
    workspace = write_workspace(tmp_path_factory.mktemp("forgetting") / "workspace")
    (workspace.chats_dir / "moths.txt").write_text(OTHER, encoding="utf-8")
    (workspace.documents_dir / "gone.md").write_text(
        "# Gone soon\n\nA post that will be deleted.\n", encoding="utf-8"
    )
    run_pipeline(workspace)
    (workspace.documents_dir / "gone.md").unlink()
    run_pipeline(open_workspace(workspace.root))
    return workspace.root


@pytest.fixture
def made(made_before: Path, tmp_path: Path) -> Workspace:
    return copy_made(made_before, tmp_path / "workspace")


def reopen(workspace: Workspace) -> Workspace:
    return open_workspace(workspace.root)


def forget_and_run_again(workspace: Workspace, kind: Kind, name: str) -> Forgetting:
    done = forget(reopen(workspace), kind, name)
    assert done.left == {}
    before = {table: workspace.tables.read(table) for table in TABLES}
    run_pipeline(reopen(workspace))
    assert all(workspace.tables.read(table).equals(before[table]) for table in TABLES)
    return done


def test_a_forgotten_conversation_is_in_no_file_and_does_not_come_back(made: Workspace) -> None:
    windows = made.tables.read("windows")
    judged = replace(RATED, topics=(Topic("Only the moths were awake", ()), *RATED.topics[1:]))
    made.judgements.put(
        {
            window["window_id"]: ("asked", judged if window["conversation_id"] == "moths" else RATED)
            for window in windows.to_dicts()
        }
    )
    assert find_files_with(made, ["Only the moths were awake"])
    done = forget_and_run_again(made, "conversation", "chats/moths.txt")
    assert 0 < made.judgements.count() < windows.height
    assert (done.rows, done.inputs) == (2, ("chats/moths.txt",))
    assert done.vectors >= 2
    assert not find_files_with(made, ["Only the moths were awake", "A lamp for the moths"])
    assert find_files_with(made, ["sluggish"])
    sources = made.tables.read("sources").filter(source="chats/moths.txt").row(0, named=True)
    assert (sources["status"], sources["rows"], sources["first"]) == ("ignored", 0, None)
    assert "backstory forget" in sources["reason"]
    assert [path.name for path in made.index.iterdir() if path.is_dir()] == [current_version(made.index)]


def test_who_wrote_in_a_forgotten_conversation_alone_is_hidden_in_the_others(workspace: Workspace) -> None:
    chats = {"dora.txt": "Dora Quist: here I am", "more.txt": "Ben Okri: welcome, Dora Quist"}
    for name, said in chats.items():
        (workspace.chats_dir / name).write_text(f"16/03/2025, 09:00 - {said}\n", "utf-8")
    run_pipeline(workspace)
    forget(reopen(workspace), "conversation", "dora")
    run_pipeline(reopen(workspace))
    [welcome] = workspace.tables.read("messages").filter(conversation_id="more")["text"]
    assert welcome.startswith("welcome, ")
    assert "Quist" not in welcome


def test_a_forgotten_file_stays_out_under_its_name_whatever_it_holds_and_says_so(made: Workspace) -> None:
    forget(reopen(made), "conversation", "garden")
    forget(reopen(made), "document", "posts/backup-disk.md")
    for name in ("garden", "allotment"):
        said = "16/03/2025, 10:00 - Ben Okri: A message that nobody has forgotten so far\n"
        (made.chats_dir / f"{name}.txt").write_text(CHAT + said, encoding="utf-8")
    with (made.documents_dir / "backup-disk.md").open("a", encoding="utf-8") as file:
        file.write("\nOne more line.\n")
    assert "would be left out" in run_command("check", "-w", str(made.root)).output
    run_pipeline(reopen(made))
    assert set(made.tables.read("messages")["conversation_id"]) == {"moths", "allotment"}
    sources = made.tables.read("sources").rows_by_key("source", named=True, unique=True)
    for source in ("chats/garden.txt", "posts/backup-disk.md"):
        assert (sources[source]["status"], sources[source]["rows"]) == ("ignored", 0)
        assert "backstory forget" in sources[source]["reason"]


@pytest.mark.parametrize("name", ["Zoe Park", "zoë park", "Zoë"])
def test_a_member_is_found_by_every_name_that_the_tables_take_for_the_same_person(
    workspace: Workspace, name: str
) -> None:
    (workspace.chats_dir / "moths.txt").write_text(
        OTHER.replace("Dora Quill", "Zoë Park 🌻"), encoding="utf-8"
    )
    build_table(workspace, "messages", find_partitions(workspace))
    done = forget(reopen(workspace), "member", name)
    assert done.rows == 1
    assert done.left == {}
    assert done.inputs == ("chats/moths.txt",)
    assert "forgotten-" in str(workspace.tables.read("messages")["text"].to_list())


@pytest.mark.parametrize("by_pseudonym", [False, True])
def test_a_forgotten_member_is_in_no_file_and_no_mention(made: Workspace, by_pseudonym: bool) -> None:
    messages = made.tables.read("messages")
    pseudonym = messages.filter(text="Only the moths were awake")["author"].item()
    done = forget_and_run_again(made, "member", pseudonym if by_pseudonym else "dora  quill")
    assert (done.rows, done.inputs) == (1, ("chats/moths.txt",))
    assert not find_files_with(made, [pseudonym, "Only the moths were awake", "Dora"])
    [mention] = made.tables.read("messages").filter(conversation_id="moths")["text"]
    assert mention.startswith("A lamp for the moths, then, dear @forgotten-")


def test_a_forgotten_document_is_in_no_file_and_no_context(made: Workspace) -> None:
    assert find_files_with(made, ["A clicking backup disk"])
    done = forget_and_run_again(made, "document", "posts/backup-disk.md")
    assert (done.rows, done.inputs) == (1, ("posts/backup-disk.md",))
    assert not find_files_with(made, ["A clicking backup disk"])
    assert "backup-disk" not in set(made.tables.read("contexts")["slug"])
    status = made.tables.read("sources").filter(source="posts/backup-disk.md")["status"].item()
    assert status == "ignored"


def test_what_was_forgotten_leaves_the_archive_too(made: Workspace) -> None:
    (made.root / "backstory.yaml").write_text(KEEP, encoding="utf-8")
    run_pipeline(reopen(made))
    (made.chats_dir / "moths.txt").write_text(
        "16/03/2025, 09:05 - Ada Lind: A quiet evening\n", encoding="utf-8"
    )
    run_pipeline(reopen(made))
    assert "Only the moths were awake" in set(read_archive(made.archive)["text"])
    author = read_archive(made.archive).filter(text="Only the moths were awake")["author"].item()
    forget_and_run_again(made, "member", author)
    assert not find_files_with(made, [author])
    forget_and_run_again(made, "conversation", "moths")
    assert set(read_archive(made.archive)["conversation_id"]) == {"garden"}
    assert "A quiet evening" not in set(made.tables.read("messages")["text"])


def test_what_was_forgotten_stays_forgotten_with_names_in_the_tables(made: Workspace) -> None:
    forget(reopen(made), "member", "Dora Quill")
    (made.root / "backstory.yaml").write_text(f"{SETTINGS}privacy: {{pseudonyms: false}}\n", encoding="utf-8")
    run_pipeline(reopen(made))
    assert not find_files_with(made, ["Dora"])
    assert "Ada Lind" in set(made.tables.read("messages")["author"])


def test_a_name_inside_a_longer_word_is_not_that_of_the_forgotten_member(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace", f"{SETTINGS}privacy: {{pseudonyms: false}}\n")
    said = "The channel meets annually, (ANN) said, and Ann's tent is there: _ann_, x.org/a%20b%2Fc"
    chat = f"16/03/2025, 09:00 - Ann: I bring a tent\n16/03/2025, 09:01 - Ben Okri: {said}\n"
    (workspace.chats_dir / "planning.txt").write_text(chat, "utf-8")
    forget(workspace, "member", "Ann")
    run_pipeline(reopen(workspace))
    messages = workspace.tables.read("messages").filter(conversation_id="planning")
    token = Forgotten.read(workspace.forgotten).token("Ann")
    told = (
        f"The channel meets annually, ({token}) said, and {token}'s tent is there: _{token}_, x.org/a%20b%2Fc"
    )
    assert told in set(messages["text"])
    assert "Ann" not in set(messages["author"])


def test_a_pseudonym_inside_a_longer_word_is_that_of_the_forgotten_member(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    chat = (
        "16/03/2025, 09:00 - Dora Quill: I bring a tent\n16/03/2025, 09:01 - Ben Okri: Thanks @DoraQuill2\n"
    )
    (workspace.chats_dir / "TripDoraQuillOslo.txt").write_text(chat, "utf-8")
    forget(workspace, "member", "Dora Quill")
    run_pipeline(reopen(workspace))
    token = Forgotten.read(workspace.forgotten).token("Dora Quill")
    messages = workspace.tables.read("messages").filter(conversation_id=f"Trip{token}Oslo")
    assert messages["text"].to_list() == [f"Thanks @{token}2"]


def test_the_list_of_the_forgotten_names_nobody(made: Workspace) -> None:
    forget(reopen(made), "member", "Dora Quill")
    text = made.forgotten.read_text(encoding="utf-8")
    assert "Dora" not in text
    assert made.forgotten.stat().st_mode & 0o077 == 0
    assert Forgotten.read(made.forgotten).list_held("member", ["~ Dora Quill"])


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"salt": "a"}', '{"salt": "a", "hashes": 3, "moments": 3}']
)
@pytest.mark.parametrize("record", [Forgotten, OptOuts])
def test_a_damaged_list_is_no_empty_one(
    tmp_path: Path, record: type[Forgotten | OptOuts], content: str
) -> None:
    path = tmp_path / "list.json"
    path.write_text(content, encoding="utf-8")
    with raises(WorkspaceError, "damaged_record", path):
        record.read(path)


def test_what_was_left_in_a_table_or_in_the_state_is_found(made: Workspace) -> None:
    [window_id] = made.tables.read("windows").filter(conversation_id="moths")["window_id"]
    made.judgements.put(
        {window_id: ("asked", replace(RATED, topics=(Topic("wide awake", ()), *RATED.topics[1:])))}
    )
    left = find_left(made, {"Only the moths", "wide awake", window_id})
    assert {"messages", "window_chunks"} <= left.keys()
    assert (left["messages"], left["windows"]) == (1, 1)
    assert any(name not in TABLES for name in left)
    assert find_left(made, {"said by nobody"}) == {}


def test_texts_that_others_hold_too_prove_nothing() -> None:
    texts = ["short", "a line of its own\nshared by two people", "x" * 100]
    assert pick_parts(texts, ["what is shared by two people"]) == {"a line of its own", "x" * 60}


def test_the_command_says_what_it_did_and_what_is_left(made: Workspace) -> None:
    window_id = made.tables.read("windows").filter(conversation_id="moths")["window_id"].item()
    write_window_page(made, window_id)
    made.dagster_home.mkdir()
    result = run_command("forget", "--conversation", "moths", "-w", str(made.root))
    assert result.exit_code == 0, result.output
    assert "Removed 2 rows" in result.output
    assert f"Deleted reports/{window_id}.html" in result.output
    assert "delete the folder .dagster" in result.output
    assert "Edit or delete chats/moths.txt yourself" in result.output
    assert not list(Path(made.root / "reports").iterdir())


@pytest.mark.parametrize("kind", ["conversation", "member", "document"])
def test_what_is_not_there_is_not_forgotten(made: Workspace, kind: Kind) -> None:
    with raises(InputError, f"unknown_{kind}", "nothing"):
        forget(reopen(made), kind, "nothing")
    assert not made.forgotten.exists()


FED_BACK = f'{SETTINGS}writers: {{provider: digest, feedback: "on"}}\n'


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("conversation", "moths"),
        pytest.param("document", "posts/drip-irrigation.md", marks=pytest.mark.long),
    ],
)
def test_what_is_forgotten_leaves_the_written_posts_too(workspace: Workspace, kind: Kind, name: str) -> None:
    (workspace.root / "backstory.yaml").write_text(FED_BACK, encoding="utf-8")
    (workspace.chats_dir / "moths.txt").write_text(OTHER, encoding="utf-8")
    run_pipeline(reopen(workspace))
    quotes = {
        "conversation": "Only the moths were awake",
        "document": "How we laid the drip irrigation line and its plastic elbow.",
    }
    told = quotes[kind]
    written = reopen(workspace).posts_dir
    edited = next(path for path in sorted(written.glob("*.md")) if "garden" in path.name)
    edited.write_text(f"{edited.read_text(encoding='utf-8')}\nA person says: {told}.\n", encoding="utf-8")
    quoting = written / "of-a-person.md"
    quoting.write_text(f"---\ntitle: Mine\ndate: 2025-03-01\n---\n\n{told}\n", encoding="utf-8")
    edited.with_name(f"{edited.stem}.draft.md").write_text(told, encoding="utf-8")
    run_pipeline(reopen(workspace))
    if kind == "conversation":
        assert told in workspace.tables.read("posts")["text"].str.join("\n").item()
    done = forget_and_run_again(workspace, kind, name)
    assert {f"written/{path.name}" for path in (edited, quoting)} <= set(done.inputs)
    left = [path.name for path in sorted(written.iterdir()) if told in path.read_text(encoding="utf-8")]
    assert left == sorted([edited.name, quoting.name])
    for table in ("documents", "posts", "contexts"):
        assert told not in str(workspace.tables.read(table).to_dicts())
    assert not any("moths" in path.name for path in written.iterdir()) or kind == "document"
    another = next(
        path
        for path in sorted(written.glob("2025-*.md"))
        if path != edited and not path.name.endswith(".draft.md")
    )
    with raises(InputError, "written_post", f"written/{another.name}"):
        forget(reopen(workspace), "document", f"written/{another.name}")
