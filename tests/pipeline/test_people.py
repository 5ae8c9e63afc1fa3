"""Names of people for readers: in contexts, posts, prompts and pages, and what changes them."""

import re
import shutil
from pathlib import Path

import pytest

from backstory.base.errors import SettingsError
from backstory.ingest.privacy.pseudonyms import make_pseudonym
from backstory.interfaces.pages.report.window_reading import read_window_report
from backstory.interfaces.pages.site.build import build_site
from backstory.interfaces.pages.site.reading import read_library
from backstory.pipeline.chats.copies import clear_copies_of_names, find_stale_copies, record_copy
from backstory.pipeline.chats.people import People, read_people
from backstory.pipeline.rendered_pages import list_site_pages
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.stages.writer_material import read_material
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.writing.prompt import load_prompt
from tests.pipeline.test_run import hash_files
from tests.workspaces import CHAT, DIGEST, write_workspace

SECRET = "ab" * 32
HEX = re.compile("member-[0-9a-f]{4}")


def open_with(root: Path, chat: str = CHAT, settings: str = DIGEST) -> Workspace:
    """Write the small workspace, with a secret that is the same in every test, unless it is there."""
    if not root.exists():
        workspace = write_workspace(root, settings)
        workspace.secret.parent.mkdir(exist_ok=True)
        workspace.secret.write_text(SECRET, encoding="ascii")
        workspace.secret.chmod(0o600)
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    (root / "chats" / "garden.txt").write_text(chat, encoding="utf-8")
    return open_workspace(root)


def name_authors(workspace: Workspace) -> dict[str, str]:
    """Return the name that readers see of each author, by a text that only this author wrote."""
    messages = workspace.tables.read("messages").drop_nulls("author")
    names = read_people(workspace).names_in("garden")
    said = {
        "Ada": "The drip",
        "Ben": "Did the frost",
        "Cleo": "My backup",
        "Dora": "I am new",
        "Zoe": "Is this",
    }
    by_text = dict(messages.select("text", "author").iter_rows())
    return {
        name: names[author]
        for name, begin in said.items()
        for text, author in by_text.items()
        if text and text.startswith(begin)
    }


def read_posts(workspace: Workspace) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted(workspace.posts_dir.glob("*.md")))


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small workspace with posts after its first run, which no test changes."""
    workspace = open_with(tmp_path_factory.mktemp("named") / "workspace")
    run_pipeline(workspace)
    return workspace.root


def test_readers_see_words_and_the_tables_hold_pseudonyms(named: Path) -> None:
    workspace = open_workspace(named)
    names = name_authors(workspace)
    assert len(set(names.values())) == 3
    written = read_posts(workspace)
    assert f"**{names['Ada']}** 09:01" in written
    assert f"@{names['Ben']} do you have a spare" in written
    assert HEX.search(written) is None
    assert workspace.tables.read("messages")["author"].drop_nulls().str.contains(HEX.pattern).all()
    assert HEX.search(str(workspace.tables.read("contexts")["serves"].to_list())) is None
    [material] = read_material(workspace, "2025-03-15")
    asked = load_prompt(None).fill_in(*material, max_characters=1000)
    assert names["Ada"] in asked.user
    assert HEX.search(asked.user) is None
    report = read_window_report(workspace, material[0].window_id)
    assert names["Ada"] in {message.author for message in report.messages}
    quotes = [quote for post in read_library(workspace).posts for use in post.uses for quote in use.because]
    assert HEX.search(str([(quote.author, quote.text) for quote in quotes])) is None


JOINS = CHAT + "16/03/2025, 09:00 - Dora Quist: I am new here, hello to the tomatoes\n"
LATE = "01/03/2025, 09:00 - Zoe Adler: Is this the garden chat?\n" + CHAT


@pytest.mark.parametrize("chat", [JOINS, LATE], ids=["joins", "late"])
def test_who_joins_renames_nobody_and_a_run_of_the_change_gives_what_a_fresh_one_gives(
    named: Path, tmp_path: Path, chat: str
) -> None:
    before = name_authors(open_workspace(named))
    shutil.copytree(named, tmp_path / "changed")
    changed, fresh = open_with(tmp_path / "changed", chat), open_with(tmp_path / "fresh", chat)
    run_pipeline(changed)
    run_pipeline(fresh)
    assert before.items() <= name_authors(changed).items()
    assert read_people(changed) == read_people(fresh)
    assert hash_files(changed.tables_dir) == hash_files(fresh.tables_dir)


def test_a_word_is_given_up_when_somebody_of_that_name_joins(named: Path, tmp_path: Path) -> None:
    before = name_authors(open_workspace(named))
    shutil.copytree(named, tmp_path / "changed")
    build_site(open_workspace(tmp_path / "changed"))
    chat = f"{CHAT}16/03/2025, 09:00 - Dora {before['Ben']}: I am new here\n"
    changed, fresh = open_with(tmp_path / "changed", chat), open_with(tmp_path / "fresh", chat)
    run_pipeline(changed)
    run_pipeline(fresh)
    after = name_authors(changed)
    assert [name for name in before if before[name] != after[name]] == ["Ben"]
    assert f"**{before['Ben']}**" not in read_posts(changed)
    build_site(changed)
    pages = list_site_pages(changed.root / "site")
    assert [page.name for page in pages if before["Ben"] in page.read_text(errors="replace")] == []
    assert hash_files(changed.tables_dir) == hash_files(fresh.tables_dir)


AGREED = DIGEST + "privacy: {names: {Ada Lind: {shown: Ada, agreed: 2025-03-01}}}\n"


def test_a_name_that_a_person_agreed_to_is_shown_until_the_agreement_is_withdrawn(
    named: Path, tmp_path: Path
) -> None:
    shutil.copytree(named, tmp_path / "workspace")
    agreed = open_with(tmp_path / "workspace", settings=AGREED)
    run_pipeline(agreed)
    assert name_authors(agreed) == name_authors(open_workspace(named)) | {"Ada": "Ada"}
    assert "**Ada** 09:01" in read_posts(agreed)
    page = agreed.root / "reports" / "window.html"
    page.parent.mkdir()
    page.write_text("Ada")
    withdrawn = open_with(agreed.root)
    run_pipeline(withdrawn)
    assert "Ada" not in read_posts(withdrawn)
    assert not page.exists()
    assert hash_files(withdrawn.tables_dir) == hash_files(named / "data")


def test_a_withdrawal_that_was_cut_short_is_completed_by_the_next_run(named: Path, tmp_path: Path) -> None:
    shutil.copytree(named, tmp_path / "workspace")
    agreed = open_with(tmp_path / "workspace", settings=AGREED)
    run_pipeline(agreed)
    page = tmp_path / "elsewhere.html"
    page.write_text("Ada", encoding="utf-8")
    record_copy(agreed, page)
    # It cannot be deleted as a file, so the run ends while it clears the copies.
    obstacle = agreed.root / "reports" / "copies.html"
    obstacle.mkdir(parents=True)
    with pytest.raises(OSError, match=obstacle.name):
        run_pipeline(open_with(agreed.root))
    obstacle.rmdir()
    run_pipeline(open_with(agreed.root))
    assert [page.name in copy for copy in find_stale_copies(agreed)] == [True]


def test_a_withdrawn_name_is_looked_for_as_a_word_in_drafts_and_in_texts_of_documents(
    named: Path, tmp_path: Path
) -> None:
    workspace = open_with(shutil.copytree(named, tmp_path / "workspace"))
    workspace.dumps.mkdir()
    texts = {
        "Ask Al.": True,
        "_Al_ knows": True,
        "问Al吧": True,
        "Also Alan, total": False,
        "我问王芳了": True,
    }
    drafts = [workspace.posts_dir / f"{number}.draft.md" for number in range(len(texts))]
    dumped = [workspace.dumps / f"{number}.md" for number in range(len(texts))]
    elsewhere = [tmp_path / f"{number}.md" for number in range(len(texts))]
    for paths in (drafts, dumped, elsewhere):
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
    for path in (*dumped, *elsewhere):
        record_copy(workspace, path, "id of a document")
    assert clear_copies_of_names(workspace, ["Al", "王芳"], []) is not None
    unnamed = [not is_named for is_named in texts.values()]
    assert [path.exists() for path in drafts] == unnamed
    assert [path.exists() for path in dumped] == unnamed
    stale = find_stale_copies(workspace)
    assert [any(str(path) in copy for copy in stale) for path in elsewhere] == [*texts.values()]


def test_who_is_named_beside_a_conversation_keeps_a_chosen_name() -> None:
    ada, ben, cleo = (make_pseudonym(name, bytes(32)) for name in ("ada", "ben", "cleo"))
    seen = {"garden": [(ben, "Ada", "2025-03-04")]}
    people = People(seen, {"garden": "en"}, {"en": ["Alder", "Birch"]}, {cleo: "Cleo"})
    names = people.names_beside("garden", {ada, ben, cleo})
    assert (names[ben], names[cleo]) == ("Ada", "Cleo")
    assert names[ada] in {"Alder", "Birch"}
    assert people.names_beside("of a later export", {ada, cleo}) == {cleo: "Cleo"}


def test_a_chosen_name_of_another_member_is_refused(named: Path, tmp_path: Path) -> None:
    shutil.copytree(named, tmp_path / "workspace")
    wrong = open_with(tmp_path / "workspace", settings=AGREED.replace("shown: Ada", "shown: Ben Okri"))
    with pytest.raises(SettingsError) as refused:
        run_pipeline(wrong)
    assert refused.value.code == "name_of_another"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_a_name_counts_for_the_day_that_the_clock_of_the_conversation_shows(
    tmp_path: Path, zone: str
) -> None:
    chat = """\
03/03/2025, 12:00 - Ben Okri: Did the frost crack the plastic elbow?
04/03/2025, 01:00 - Cleo Marsh: My backup disk clicks
04/03/2025, 22:00 - Ada Lind: The drip irrigation line leaks
05/03/2025, 12:00 - Ben Okri: Good
"""
    zoned = DIGEST.replace("folder: chats", f"folder: chats, date_order: dmy, timezone: {zone}")
    assert zone in zoned
    workspace = open_with(tmp_path / "workspace", chat, zoned)
    run_pipeline(workspace)
    days = ["2025-03-03", "2025-03-04", "2025-03-05"]
    before = read_people(workspace).fingerprint(days)
    for name in ("Ada Lind", "Cleo Marsh"):
        agreed = f"{zoned}privacy: {{names: {{{name}: {{shown: {name.split()[0]}, agreed: 2025-03-01}}}}}}\n"
        run_pipeline(open_with(workspace.root, chat, agreed))
        after = read_people(workspace).fingerprint(days)
        assert [day for day in days if before[day] != after[day]] == days[1:], name
