"""Documents that name members: what contexts, prompts, posts and pages show of them, by each rule."""

import os
import shutil
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest

from backstory.ingest.privacy.pseudonyms import find_naming_texts
from backstory.ingest.sources.listing import DocumentLinks
from backstory.interfaces.pages.site.addresses import address_post
from backstory.interfaces.pages.site.links import collect_links
from backstory.interfaces.pages.site.reading import read_library
from backstory.operations.forgetting import forget
from backstory.operations.labels import Places
from backstory.pipeline.chats.leaks import find_leaks, make_discretion
from backstory.pipeline.chats.named_documents import (
    NameView,
    find_shown_names,
    read_named_documents,
    record_named_documents,
)
from backstory.pipeline.chats.people import read_people
from backstory.pipeline.run.runner import run_pipeline
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.storage.tables.tables import WHOLE, Made
from backstory.writing.citations import find_links
from tests.ingest.privacy.test_names import ENDINGS, INITIALS, JOINED, MARKED, ORDERS
from tests.pipeline.test_people import AGREED, open_with, read_posts
from tests.pipeline.test_run import hash_files
from tests.workspaces import CHAT, DIGEST

FRONT = "---\ntitle: {title}\ndate: 2024-05-01\ntags: [drip]\n---\n\n"
DRIP = (
    "How Ada Lind laid the drip irrigation line and its plastic elbow. Ben Okri broke it in the frost. "
    "Ask A. Lind, or zoe@mail.example, or +44 7700 900123, for a spare elbow of the drip irrigation line."
)
NAMES = ("Ada Lind", "A. Lind", "Ben Okri")


def write_document(
    workspace: Workspace, text: str, title: str = "Drip of Ada Lind", name: str = "drip"
) -> None:
    for path in workspace.root.glob("posts/drip*.md"):
        path.unlink()
    path = workspace.root / "posts" / f"{name}.md"
    path.write_text(f"{FRONT.format(title=title)}{text}\n", encoding="utf-8")


def make(root: Path, settings: str = DIGEST, text: str = DRIP, **document: str) -> Workspace:
    """Make a workspace whose document names members."""
    workspace = open_with(root, settings=settings)
    write_document(workspace, text, **document)
    run_pipeline(workspace)
    return workspace


def choose(rule: str) -> str:
    return f"{DIGEST}privacy: {{documents: {rule}}}\n"


def read_shown(workspace: Workspace) -> str:
    """Return everything of contexts, posts and pages that may show a document."""
    contexts = workspace.tables.read("contexts").select("title", "tags", "content", "passage")
    texts = workspace.tables.read("window_contexts").select("text", "cited_text")
    library = read_library(workspace)
    pages = [(document.title, document.text) for document in library.documents.values()]
    return f"{contexts.to_dicts()} {texts.to_dicts()} {read_posts(workspace)} {pages}"


@pytest.fixture(scope="module")
def replaced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose document names members, after its first run, which no test changes."""
    return make(tmp_path_factory.mktemp("replaced") / "workspace").root


def test_names_in_documents_are_those_that_readers_see_and_the_documents_stay(replaced: Path) -> None:
    workspace = open_workspace(replaced)
    shown = read_shown(workspace)
    assert not [name for name in NAMES if name in shown]
    ada, ben = find_authors(workspace)
    assert f"How {ada} laid the drip irrigation line" in shown
    assert f"{ben} broke it" in shown
    assert f"Drip of {ada}" in shown
    named = read_named_documents(workspace).sort("times").select("uri", "place", "times")
    assert named.rows() == [("drip.md", "text", 1), ("drip.md", "text", 3)]
    stored = workspace.tables.read("documents").filter(uri="drip.md")
    assert "Ada Lind" in stored["text"].item()
    assert find_shown_names(workspace).is_empty()


SURNAMES = {
    "Lind, of Ada Lind, laid it. In Lind\u2019s words, Lind's **Lind** elbow; *Okri*, not Ben Okri.": (
        "{ada}, of {ada}, laid it. In {ada}\u2019s words, {ada}'s **{ada}** elbow; *{ben}*, not {ben}."
    ),
    "Ada Lind's elbow. The lind tree, Lindy, @lind, linda, Lind-Berg, https://x.example/Lind and Linden.": (
        "{ada}'s elbow. The lind tree, Lindy, @lind, linda, Lind-Berg, https://x.example/Lind and Linden."
    ),
    "<b>Lind</b>&nbsp;asks Ada Lind.": "<b>{ada}</b>&nbsp;asks {ada}.",
    "Ada Lind asks Karl Lind. Lind laid it.": "{ada} asks Karl Lind. Lind laid it.",
    "Ada Lind asks K. Lind. Lind laid it.": "{ada} asks K. Lind. Lind laid it.",
    "Ada Lind is Dr. Lind. CEO Lind laid it. Often she did, often Lind did. Often Lind.": (
        "{ada} is Dr. {ada}. CEO {ada} laid it. Often she did, often {ada} did. Often {ada}."
    ),
    "Ada Lind and Ida Lind. Lind laid it.": "{ada} and {ida}. Lind laid it.",
    "Ada Lind under a lind or a lind. Lind is a wood.": "{ada} under a lind or a lind. Lind is a wood.",
    "Lind laid it, and Ben Okri paid.": "Lind laid it, and {ben} paid.",
    "The Linds, Ada Lind first. Bob Linds came to the Banks.": "The {ada}, {ada} first. Bob Linds came to the Banks.",
    "Zoe Banks paid Banks's bill. The 'pump of Zoe Banks' is there.": (
        "{zoe} paid {zoe}'s bill. The 'pump of {zoe}' is there."
    ),
}


def test_a_surname_alone_is_of_the_one_person_whom_its_document_names_with_it(tmp_path: Path) -> None:
    chat = f"{CHAT}16/03/2025, 09:00 - Ida Lind: hello\n16/03/2025, 09:01 - Zoe Banks: hello\n"
    workspace = open_with(tmp_path / "workspace", chat)
    for path in workspace.root.glob("posts/*.md"):
        path.unlink()
    for number, text in enumerate(SURNAMES):
        front = FRONT.format(title=f"Drip {number}")
        (workspace.root / "posts" / f"{number:02}.md").write_text(f"{front}{text}\n", encoding="utf-8")
    run_pipeline(workspace)
    ada, ben = find_authors(workspace)
    people = read_people(workspace).names_in("garden")
    authors = workspace.tables.read("messages").filter(text="hello")["author"]
    ida, zoe = (people[author] for author in authors)
    documents = workspace.tables.read("documents").sort("uri")
    view = NameView(workspace, "readers")
    shown = [
        view.show(document_id, text, "garden")
        for document_id, text in documents.select("document_id", "text").iter_rows()
    ]
    assert [str(text).strip() for text in shown] == [
        text.format(ada=ada, ben=ben, ida=ida, zoe=zoe) for text in SURNAMES.values()
    ]
    named = read_named_documents(workspace).filter(place="text")
    assert sorted(named.filter(uri="00.md")["times"]) == [2, 5]
    assert named.filter(uri="08.md")["times"].sum() == 1


def test_the_run_says_which_documents_name_members(tmp_path: Path, replaced: Path) -> None:
    shutil.copytree(replaced, tmp_path / "workspace")
    workspace = open_with(tmp_path / "workspace", f"{CHAT}16/03/2025, 09:00 - Night Train: hello\n")
    reports = {report.table: report for report in run_pipeline(workspace)}
    counts = reports["contexts"].counts
    assert (counts["documents_with_names"], counts["names_in_documents"]) == (2, 7)
    assert "drip.md (4), night-train.md (3)" in str(counts["notice"])


def test_contact_data_becomes_markers_in_posts_and_on_their_pages_alone(replaced: Path) -> None:
    workspace = open_workspace(replaced)
    assert "zoe@mail.example" in str(workspace.tables.read("contexts")["passage"].to_list())
    library = read_library(workspace)
    pages = str([post.uses for post in library.posts]), str(library.documents)
    assert not [word for word in ("zoe@mail", "900123") if word in read_posts(workspace)]
    assert not [page for page in pages if "zoe@mail" in page]
    assert "[email]" in "".join(pages)


def test_a_post_may_name_whom_a_kept_document_names_and_nobody_else(tmp_path: Path) -> None:
    workspace = make(
        tmp_path / "workspace", choose("keep"), "Drip irrigation line and plastic elbow of Ada Lind"
    )
    rows = workspace.tables.read("posts")
    assert set(rows["status"]) == {"written"}
    assert "Ada Lind" in read_shown(workspace)
    assert find_shown_names(workspace).rows() == [("drip.md", 2)]
    find_leaks = make_discretion(workspace).find_leaks
    assert set(find_leaks(["Ada Lind laid it", "Ben Okri laid it"])) == {"Ben Okri laid it"}


def test_a_post_that_holds_a_name_is_rejected_and_names_the_document(tmp_path: Path) -> None:
    workspace = make(tmp_path / "workspace", choose("reject"))
    [row] = workspace.tables.read("posts").filter(status="rejected").to_dicts()
    assert row["reason"].startswith("leak: ")
    assert "posts/drip.md" in row["reason"]
    assert "Ada Lind" in str(workspace.tables.read("contexts")["passage"].to_list())


def test_contact_data_is_a_leak_where_it_is_rejected(tmp_path: Path) -> None:
    workspace = open_with(tmp_path / "workspace", settings=choose("reject"))
    run_pipeline(workspace)
    discretion = make_discretion(workspace)
    assert set(discretion.find_leaks(["ask zoe@mail.example", "ask Zoe"])) == {"ask zoe@mail.example"}
    assert make_discretion(open_with(workspace.root)).scrub("ask zoe@mail.example") == "ask [email]"


def test_no_post_links_to_a_document_whose_path_names_a_member(tmp_path: Path) -> None:
    workspace = make(tmp_path / "workspace", name="drip-ada-lind")
    rows = workspace.tables.read("posts")
    assert set(rows["status"]) == {"written"}
    assert "drip-ada-lind" not in read_posts(workspace)
    assert find_shown_names(workspace)["uri"].to_list() == ["drip-ada-lind.md"]


def test_posts_link_to_files_of_a_source_elsewhere_unless_its_folder_names_a_member(tmp_path: Path) -> None:
    def open_at(name: str, folder: str) -> Workspace:
        source = f"documents: {{sources: [{{path: '../{folder}', name: notes}}]}}\n"
        return open_with(tmp_path / name, settings=f"{DIGEST}{source}")

    def list_linked(workspace: Workspace) -> set[str]:
        texts = "\n".join(workspace.tables.read("posts")["text"])
        return {os.path.normpath(workspace.posts_dir / unquote(link)) for link in find_links(texts)}

    notes = tmp_path / "my notes (1)" / "drip line.md"
    notes.parent.mkdir()
    notes.write_text(
        f"{FRONT.format(title='Drip')}The elbow of the drip irrigation line broke in the frost.\n", "utf-8"
    )
    workspace = open_at("workspace", notes.parent.name)
    run_pipeline(workspace)
    linked = list_linked(workspace)
    assert str(notes) in linked
    assert all(Path(path).is_file() for path in linked)
    library = read_library(workspace)
    post, use = next(
        (post, use) for post in library.posts for use in post.uses if use.title == "Drip" and use.cited
    )
    [address] = {link for link in find_links(post.text) if "drip%20line" in link}
    links = collect_links(library)
    here = address_post(post.slug)
    number = links.resolve_citation(here, post, address, f"[{use.number}]")
    words = links.resolve_citation(here, post, address, "Drip")
    assert number is not None
    assert words is not None
    assert (number.address, words.address) == (f"#source-{use.number}", links.point(here, use.document_id))
    documents = workspace.tables.read("documents").filter(status="ok")
    places = Places.of_documents(documents, "posts", DocumentLinks(workspace).link)
    assert use.document_id in places.find_linked(post.text, post.path)

    shutil.move(notes.parent, tmp_path / "Ada Lind")
    moved, fresh = open_at("workspace", "Ada Lind"), open_at("fresh", "Ada Lind")
    for each in (moved, fresh):
        run_pipeline(each)
    assert not [path for path in list_linked(moved) if "drip line" in path]
    assert read_posts(moved) == read_posts(fresh)


def test_a_run_of_a_few_days_leaves_no_name_of_a_new_member_on_others(replaced: Path, tmp_path: Path) -> None:
    workspace = open_workspace(shutil.copytree(replaced, tmp_path / "workspace"))
    write_document(workspace, f"{DRIP} Zed Quist paid for the elbow of the drip irrigation line.")
    run_pipeline(open_workspace(workspace.root))
    assert "Zed Quist" in read_shown(workspace)
    joined = open_with(workspace.root, f"{CHAT}16/03/2025, 09:00 - Zed Quist: hello\n")
    run_pipeline(joined, ["2025-03-16"])
    assert "Zed Quist" not in read_posts(joined)
    assert find_leaks(open_workspace(workspace.root), "posts").is_empty()


CHANGES = {
    "no name": (CHAT, DIGEST, "Drip irrigation line and its plastic elbow."),
    "a new member": (CHAT + "16/03/2025, 09:00 - Zed Quist: hello\n", DIGEST, DRIP + " Zed Quist paid."),
    "a name less": (CHAT.replace("Ben Okri", "Bo Stone"), DIGEST, DRIP),
    "a surname": (CHAT, DIGEST, DRIP + " Lind paid for Okri's spare elbow of the drip irrigation line."),
    "a shared surname": (CHAT + "16/03/2025, 09:00 - Bo Lind: hello\n", DIGEST, DRIP + " Lind paid."),
    "kept": (CHAT, choose("keep"), DRIP),
    "agreed": (CHAT, AGREED, DRIP),
}
QUICK_CHANGES = ("no name", "a new member", "a name less", "agreed")


@pytest.mark.parametrize(
    ("chat", "settings", "document"),
    [
        pytest.param(*change, id=name, marks=() if name in QUICK_CHANGES else pytest.mark.long)
        for name, change in CHANGES.items()
    ],
)
def test_a_run_of_a_change_gives_what_a_fresh_one_gives(
    replaced: Path, tmp_path: Path, chat: str, settings: str, document: str
) -> None:
    shutil.copytree(replaced, tmp_path / "changed")
    changed, fresh = (open_with(tmp_path / name, chat, settings) for name in ("changed", "fresh"))
    for workspace in (changed, fresh):
        write_document(workspace, document)
        run_pipeline(workspace)
    hashes = [hash_files(workspace.tables_dir) for workspace in (changed, fresh)]
    for one in hashes:
        del one["documents/all.parquet"]  # it holds earlier revisions
    assert hashes[0] == hashes[1]
    assert read_posts(changed) == read_posts(fresh)


def test_a_forgotten_member_has_no_name_in_documents(replaced: Path, tmp_path: Path) -> None:
    shutil.copytree(replaced, tmp_path / "workspace")
    workspace = open_workspace(tmp_path / "workspace")
    done = forget(workspace, "member", "Ada Lind")
    assert done.left == {}
    reopened = open_workspace(workspace.root)
    run_pipeline(reopened)
    shown = read_shown(reopened)
    assert "How forgotten-" in shown
    assert not [name for name in NAMES if name in shown]


def test_a_revision_of_another_text_is_searched_again(replaced: Path, tmp_path: Path) -> None:
    """A reader of another version reads another text in the same file."""
    workspace = open_workspace(shutil.copytree(replaced, tmp_path / "workspace"))
    text = pl.when(uri="night-train.md").then(pl.lit("The train of Cleo Marsh")).otherwise("text")
    documents = workspace.tables.read("documents").with_columns(text=text)
    workspace.tables.commit({("documents", WHOLE): Made(documents, "read by another version")})
    record_named_documents(workspace)
    assert sorted(set(read_named_documents(workspace)["uri"])) == [
        "drip.md",
        "night-train.md",
    ]


def test_what_people_write_into_the_folder_of_posts_is_searched(replaced: Path, tmp_path: Path) -> None:
    workspace = open_workspace(shutil.copytree(replaced, tmp_path / "workspace"))
    fed_back = DIGEST.replace("provider: digest", "provider: digest, feedback: 'on'")
    run_pipeline(open_with(workspace.root, settings=fed_back))
    assert set(read_named_documents(workspace)["uri"]) == {"drip.md"}
    edited = min(workspace.posts_dir.glob("*.md"))
    edited.write_text(f"{edited.read_text(encoding='utf-8')}\nAda Lind told me.\n", encoding="utf-8")
    own = workspace.posts_dir / "own.md"
    own.write_text(FRONT.format(title="Mine") + DRIP, encoding="utf-8")
    run_pipeline(open_with(workspace.root, settings=fed_back))
    assert sorted(set(read_named_documents(workspace)["uri"])) == [
        f"../written/{edited.name}",
        "../written/own.md",
        "drip.md",
    ]
    contexts = workspace.tables.read("contexts")
    assert "../written/own.md" in contexts["uri"]
    shown = contexts.select("title", "content", "passage").to_dicts()
    texts = workspace.tables.read("posts")["text"].to_list()
    assert not [name for name in NAMES if name in f"{shown} {texts}"]


def test_names_that_a_run_finds_are_replaced_day_by_day_where_posts_are_documents(tmp_path: Path) -> None:
    fed_back = DIGEST.replace("provider: digest", "provider: digest, feedback: 'on'")
    days = "".join(
        f"{day}/04/2025, 09:0{minute} - {name}: The drip irrigation line and its plastic elbow, day {day}\n"
        for day in range(13, 17)
        for minute, name in enumerate(("Ada Lind", "Ben Okri"))
    )
    text = "Zed Quist laid the drip irrigation line and its plastic elbow."
    changed, fresh = tmp_path / "changed", tmp_path / "fresh"
    joined = f"{days}17/04/2025, 09:00 - Zed Quist: The plastic elbow of the drip irrigation line\n"
    for root, chats in ((changed, (days, joined)), (fresh, (joined,))):
        for chat in chats:
            workspace = open_with(root, chat, fed_back)
            write_document(workspace, text, title="Drip irrigation")
            run_pipeline(workspace)
    assert "Zed Quist" not in read_shown(workspace)
    assert read_posts(open_workspace(changed)) == read_posts(workspace)
    assert not [report for report in run_pipeline(open_workspace(changed)) if report.computed]


FORMS = [*ORDERS, *JOINED, *ENDINGS, *INITIALS, *MARKED]


def test_every_form_of_a_name_in_a_document_is_replaced(tmp_path: Path) -> None:
    parts = {"first": "Cleo", "last": "Marshall", "FIRST": "CLEO", "LAST": "MARSHALL", "f": "C", "F": "C"}
    written = [form.format(**parts) for form in FORMS]
    text = "\n\n".join(f"The plastic elbow of the drip irrigation line {name} ok" for name in written)
    workspace = open_with(tmp_path / "workspace", CHAT.replace("Cleo Marsh", "Cleo Marshall"))
    write_document(workspace, text, title="Drip irrigation")
    run_pipeline(workspace)
    assert read_named_documents(workspace)["times"].sum() >= len(FORMS)
    shown = workspace.tables.read("contexts").filter(title="Drip irrigation")
    assert len(shown)
    texts = [*shown["content"], *shown["passage"], read_posts(workspace)]
    assert not find_naming_texts(texts, ["Cleo Marshall"])


def find_authors(workspace: Workspace) -> tuple[str, str]:
    """Return the names under which readers see Ada and Ben."""
    names = read_people(workspace).names_in("garden")
    messages = workspace.tables.read("messages").drop_nulls("author")
    authors = dict(messages.select("text", "author").iter_rows())
    return (
        names[authors["Book the train reservation early"]],
        names[authors["Did the frost crack the plastic elbow?"]],
    )


def test_a_renewed_view_knows_who_joined_after_names_were_first_read(replaced: Path, tmp_path: Path) -> None:
    workspace = open_workspace(shutil.copytree(replaced, tmp_path / "workspace"))
    document = workspace.tables.read("documents").filter(uri="drip.md")["document_id"][0]
    view = NameView(workspace, "agent")
    assert view.show(None, "Zed Quist and Ada Lind") != "Zed Quist and Ada Lind"
    run_pipeline(open_with(workspace.root, f"{CHAT}16/03/2025, 09:00 - Zed Quist: hello\n"))
    view.show(document, "Ada Lind")
    assert "Zed Quist" not in str(view.renew().show(None, "Zed Quist paid"))
