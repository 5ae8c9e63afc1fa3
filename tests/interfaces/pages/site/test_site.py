"""The site of the small workspace: every link leads somewhere, and only what changed is written."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest

from backstory import run_pipeline
from backstory.base.errors import InputError
from backstory.base.files.atomic import temporary_path
from backstory.interfaces.pages.export.build import export_posts
from backstory.interfaces.pages.report.page import render_page
from backstory.interfaces.pages.site.build import Site, build_site
from backstory.interfaces.pages.site.library import Library, Quote
from backstory.interfaces.pages.site.pages import list_pages as list_site
from backstory.interfaces.pages.site.state import hash_inputs
from backstory.pipeline.rendered_pages import list_site_pages, remove_pages
from backstory.pipeline.run.plan import STAGES
from backstory.pipeline.stages.stage import RunResources
from backstory.pipeline.workspace import Workspace, open_workspace
from backstory.settings.models import RAGSettings, SiteSettings
from tests.browser import load_page
from tests.errors import raises
from tests.interfaces.cli.invocation import run
from tests.workspaces import SETTINGS, write_workspace

RUNS = "queries: {min_tokens: 12}\n"
WRITING = f'{SETTINGS}{RUNS}writers: {{provider: digest, feedback: "on"}}\n'

LATER = """\
20/03/2025, 09:00 - Ada Lind: Did the frost crack the plastic elbow, and do you have a spare?
20/03/2025, 09:01 - Ben Okri: Copy the photos to another disk before anything else
20/03/2025, 09:02 - Cleo Marsh: Feed the starter twice a day with flour
"""


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.anchors.add(str(values["id"]))
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Give the small workspace after a run that wrote posts, of which later windows find the earlier ones."""
    made = write_workspace(tmp_path_factory.mktemp("site") / "workspace", WRITING)
    chat = made.chats_dir / "garden.txt"
    chat.write_text(chat.read_text(encoding="utf-8") + LATER, encoding="utf-8")
    run_pipeline(made)
    return made


@pytest.fixture(scope="module")
def site(workspace: Workspace) -> Site:
    return build_site(workspace, windows=True)


def list_pages(site: Site) -> list[Path]:
    return sorted(site.index.parent.rglob("*.html"))


def find_dead_links(site: Site) -> Iterator[str]:
    pages = {path: Page(path) for path in list_pages(site)}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if parts.scheme or not target.is_file():
                yield f"{path.name}: {link}"
            elif parts.fragment and known is not None and parts.fragment not in known.anchors:
                yield f"{path.name}: {link} (no such anchor)"


def test_every_link_leads_to_a_file_and_every_page_is_reached(site: Site) -> None:
    assert list(find_dead_links(site)) == []
    reached, waiting = set(), [site.index]
    while waiting:
        path = waiting.pop()
        if path not in reached and path.suffix == ".html":
            reached.add(path)
            waiting += [
                (path.parent / urlsplit(link).path).resolve()
                for link in Page(path).links
                if urlsplit(link).path
            ]
    assert reached == set(list_pages(site))


def test_posts_show_what_they_cite_and_are_shown_where_they_are_cited(site: Site) -> None:
    folder = site.index.parent
    posts = site.library.posts
    assert len(posts) == 4
    assert all(post.cited for post in posts)
    for post in posts:
        page = (folder / "posts" / f"{post.slug}.html").read_text(encoding="utf-8")
        assert f"../windows/{post.window.window_id}.html" in page
        for use in post.cited:
            assert f'id="source-{use.number}"' in page
            earlier = site.library.written_as(use.document_id)
            there = (
                folder / "documents" / f"{use.document_id}.html"
                if earlier is None
                else folder / "posts" / f"{earlier.slug}.html"
            )
            assert f"../posts/{post.slug}.html" in there.read_text(encoding="utf-8")


def test_a_post_is_shown_where_later_posts_cite_it(site: Site) -> None:
    assert site.library.links_between_posts > 0
    [*_, last] = site.library.posts
    cited = [one for use in last.cited if (one := site.library.written_as(use.document_id))]
    page = (site.index.parent / "posts" / f"{cited[0].slug}.html").read_text(encoding="utf-8")
    assert last.title in page.partition("Later posts that cite this")[2]


def test_a_second_build_writes_nothing_and_a_stale_page_goes(workspace: Workspace, site: Site) -> None:
    times = {path: path.stat().st_mtime_ns for path in list_pages(site)}
    again = build_site(workspace, windows=True).written
    assert (again.written, again.unchanged, again.removed) == (0, len(times), 0)
    assert {path: path.stat().st_mtime_ns for path in list_pages(site)} == times
    stale = site.index.parent / "posts" / "gone.html"
    stale.write_text("an earlier post", encoding="utf-8")
    site.index.write_text("damaged", encoding="utf-8")
    again = build_site(workspace, windows=True).written
    assert (again.written, again.removed, stale.exists()) == (1, 1, False)


def test_windows_are_shown_only_if_asked_for(workspace: Workspace, tmp_path: Path) -> None:
    shown = build_site(workspace, tmp_path / "site", windows=True)
    folder = shown.index.parent
    assert len(list((folder / "windows").iterdir())) == len(workspace.tables.read("windows"))
    built = build_site(workspace, folder)
    assert built.written.removed == len(workspace.tables.read("windows"))
    assert not list(folder.glob("windows/*"))
    assert not any("windows/" in path.read_text("utf-8") for path in folder.rglob("*.html"))
    assert "--windows" in run("site", "-w", str(workspace.root), "-o", str(folder)).stderr


def test_pages_are_rendered_again_only_if_something_changed(
    workspace: Workspace, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[Library] = []

    def render(library: Library, *others: Any) -> Mapping[str, Any]:
        rendered.append(library)
        return list_site(library, *others)

    monkeypatch.setattr("backstory.interfaces.pages.site.build.list_pages", render)
    assert build_site(workspace, windows=True).library == site.library
    assert not rendered
    post = workspace.root / site.library.posts[0].path
    before = post.read_bytes()
    post.write_bytes(before + b"\nSaid by a person.\n")
    build_site(workspace, windows=True)
    assert len(rendered) == 1
    post.write_bytes(before)
    settings = workspace.settings.model_copy(update={"rag": RAGSettings(top_k=4)})
    build_site(replace(workspace, settings=settings), windows=True)
    build_site(workspace, windows=True)
    assert len(rendered) == 3
    list_pages(site)[-1].unlink()
    assert build_site(workspace, windows=True).written.written == 1
    assert len(rendered) == 4


def test_what_was_learned_is_an_input_of_the_pages(workspace: Workspace) -> None:
    before = hash_inputs(workspace)
    workspace.learned.write_text("{}", encoding="utf-8")
    learned = hash_inputs(workspace)
    workspace.learned.unlink()
    assert learned.common != before.common
    assert before == hash_inputs(workspace)


def test_two_builds_are_equal_byte_by_byte(workspace: Workspace, site: Site, tmp_path: Path) -> None:
    other = build_site(open_workspace(workspace.root), tmp_path / "elsewhere", windows=True)
    names = [path.relative_to(site.index.parent) for path in list_pages(site)]
    assert names == [path.relative_to(other.index.parent) for path in list_pages(other)]
    assert all(
        (site.index.parent / name).read_bytes() == (tmp_path / "elsewhere" / name).read_bytes()
        for name in names
    )
    assert list(find_dead_links(other)) == []


def test_pages_open_from_disk_without_a_message_in_the_console(site: Site, tmp_path: Path) -> None:
    dom, console = load_page(site.index, tmp_path / "profile")
    assert console == []
    assert dom.count('class="entry"') == 4
    assert 'class="search-box" role="search"' in dom  # the script has run: the box is no longer hidden
    post = site.index.parent / "posts" / f"{site.library.posts[-1].slug}.html"
    dom, console = load_page(post, tmp_path / "profile")
    assert console == []
    assert dom.count('class="card"') == len(site.library.posts[-1].uses)


def test_the_search_finds_posts_by_beginnings_of_words(site: Site, tmp_path: Path) -> None:
    page = site.index.with_name("search.html")
    for question, found in {"STARTER feed": 2, "plast elb": 2, "zzz": 0, "élbow": 2}.items():
        dom, console = load_page(page, tmp_path / "profile", f"q={question}")
        assert console == []
        assert dom.count('class="title"') == found, question
        assert f"{found} of 4 posts" in dom


def test_a_folder_of_other_files_is_not_touched(workspace: Workspace) -> None:
    before = sorted(workspace.documents_dir.iterdir())
    with raises(InputError, "foreign_folder", workspace.documents_dir):
        build_site(workspace, workspace.documents_dir, windows=True)
    assert sorted(workspace.documents_dir.iterdir()) == before


def test_removing_the_pages_leaves_none(workspace: Workspace, tmp_path: Path) -> None:
    own = tmp_path / "site"
    own.mkdir()
    (own / "index.html").write_text("a site of somebody else", encoding="utf-8")
    assert remove_pages(tmp_path) == ()
    site = build_site(workspace, windows=True)
    count = len(list_pages(site))
    left = site.index.with_name(".index.html.tmp")
    left.write_text("left by a killed process", encoding="utf-8")
    assert remove_pages(workspace.root) == (f"the {count + 1} pages in site/",)
    assert list_pages(site) == []
    assert not left.exists()
    assert build_site(workspace, windows=True).written.written == count


def test_without_posts_the_index_says_why(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace")
    with raises(InputError, "no_windows"):
        build_site(workspace, windows=True)
    run_pipeline(workspace)
    site = build_site(workspace, windows=True)
    index = site.index.read_text(encoding="utf-8")
    assert "There are no posts yet" in index
    assert index.count("no writer is chosen") == len(workspace.tables.read("windows"))
    assert list(find_dead_links(site)) == []


def test_an_edited_post_is_shown_as_the_person_left_it(tmp_path: Path) -> None:
    workspace = write_workspace(tmp_path / "workspace", WRITING.replace('"on"', '"off"'))
    run_pipeline(workspace)
    row = workspace.tables.read("posts").row(0, named=True)
    path = workspace.root / row["path"]
    path.write_text(path.read_text(encoding="utf-8") + "\nA line by a person.\n", encoding="utf-8")
    run_pipeline(open_workspace(workspace.root))
    page = build_site(workspace, windows=True).index.parent / "posts" / f"{row['slug']}.html"
    html = page.read_text(encoding="utf-8")
    assert "A line by a person." in html
    assert "A person has edited this post" in html


def test_the_command_prints_the_first_page(workspace: Workspace, site: Site) -> None:
    result = run("site", "-w", str(workspace.root))
    assert result.stdout == f"{site.index}\n"
    assert "4 posts" in result.stderr


def test_a_site_between_two_stages_of_a_run_leaves_out_windows_without_a_context(tmp_path: Path) -> None:
    made = write_workspace(tmp_path / "workspace", f"{SETTINGS}writers: {{provider: digest}}\n")
    run_pipeline(made)
    chat = made.chats_dir / "garden.txt"
    later = "13/03/2025, 09:22 - Ben Okri: Feed mine, too\n"
    chat.write_text(chat.read_text(encoding="utf-8") + later, encoding="utf-8")
    begun = open_workspace(made.root)
    for stage in STAGES[: [stage.table for stage in STAGES].index("windows") + 1]:
        stage(RunResources(begun), ["2025-03-13", "2025-03-14", "2025-03-15"]).build()
    library = build_site(begun, windows=True).library
    windows = begun.tables.read("windows")
    assert {post.window.window_id for post in library.posts} < set(windows["window_id"])
    assert len(library.posts) + len(library.without_post) == len(windows)


BASE = "https://example.org/blog"


@pytest.fixture
def published(workspace: Workspace, tmp_path: Path) -> Path:
    """Give the folder of the site with an address."""
    named = SiteSettings(base_url=f"{BASE}/", title="The Plot")
    settings = workspace.settings.model_copy(update={"site": named})
    return build_site(
        replace(workspace, settings=settings), tmp_path / "published", windows=True
    ).index.parent


def test_a_site_with_an_address_has_feeds_a_sitemap_and_previews(published: Path, site: Site) -> None:
    posts = [f"{BASE}/posts/{post.slug}.html" for post in reversed(site.library.posts)]
    feed = ElementTree.parse(published / "feed.xml").getroot()
    atom = "{http://www.w3.org/2005/Atom}"
    assert feed.findtext(f"{atom}title") == "The Plot"
    assert [entry.findtext(f"{atom}id") for entry in feed.iter(f"{atom}entry")] == posts
    read = json.loads((published / "feed.json").read_text(encoding="utf-8"))
    assert [item["url"] for item in read["items"]] == posts
    for entry, item in zip(feed.iter(f"{atom}entry"), read["items"], strict=True):
        content = entry.findtext(f"{atom}content") or ""
        assert content == item["content_html"]
        links = re.findall('href="([^"]*)"', content)
        assert links
        assert all(link.startswith(f"{item['url']}#source-") for link in links)
    listed = {
        loc.text for loc in ElementTree.parse(published / "sitemap.xml").iter() if loc.tag.endswith("loc")
    }
    pages = {path.relative_to(published).as_posix() for path in published.rglob("*.html")}
    assert listed == {f"{BASE}/{page}" for page in pages if not page.startswith("windows/")}
    for slug in (post.slug for post in site.library.posts):
        html = (published / "posts" / f"{slug}.html").read_text(encoding="utf-8")
        assert f'<link rel="canonical" href="{BASE}/posts/{slug}.html">' in html
    assert not (site.index.parent / "feed.xml").exists()


def test_the_index_opens_on_the_post_whose_documents_serve_most_messages(site: Site) -> None:
    best = site.library.best
    assert best is not None
    assert best.served == max(post.served for post in site.library.posts)
    index = site.index.read_text(encoding="utf-8")
    assert f'<h2 id="best-heading"><a class="title" href="posts/{best.slug}.html">' in index
    assert "archive/2025-03.html" in index


def test_a_page_is_made_again_only_if_what_it_shows_has_changed(tmp_path: Path) -> None:
    made = write_workspace(tmp_path / "workspace", WRITING)
    chat = made.chats_dir / "garden.txt"
    before = chat.read_text(encoding="utf-8")
    run_pipeline(made)
    build_site(made, windows=True)
    chat.write_text(before + LATER, encoding="utf-8")
    run_pipeline(open_workspace(made.root))
    grown = open_workspace(made.root)
    built = build_site(grown, windows=True)
    folder = built.index.parent
    read = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.html")}
    scratch = build_site(grown, tmp_path / "scratch", windows=True).index.parent
    assert read == {path.relative_to(scratch): path.read_bytes() for path in scratch.rglob("*.html")}
    [first, *_] = built.library.posts
    document = made.root / first.cited[0].path
    document.write_text(
        f"---\nurl: {BASE}\n---\n{document.read_text(encoding='utf-8').split('---')[-1]}", "utf-8"
    )
    made_again = []
    make = render_page

    def count_pages(template: str, **values: Any) -> str:
        made_again.append(template)
        return make(template, **values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("backstory.interfaces.pages.site.pages.render_page", count_pages)
        changed = build_site(open_workspace(made.root), windows=True).written
    assert sorted(made_again) == ["document.html", "index.html", "post.html", "post.html"]
    assert changed.written < changed.unchanged
    assert f'href="{BASE}"' in (folder / "posts" / f"{first.slug}.html").read_text(encoding="utf-8")
    scratch = build_site(open_workspace(made.root), tmp_path / "again", windows=True).index.parent
    assert {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.html")} == {
        path.relative_to(scratch): path.read_bytes() for path in scratch.rglob("*.html")
    }


def test_the_command_exports_only_what_changed_and_leaves_other_files(
    workspace: Workspace, tmp_path: Path
) -> None:
    folder = tmp_path / "blog"
    folder.mkdir()
    (folder / "eleventy.config.js").write_text("export default {};", encoding="utf-8")
    command = ("export", "--format", "eleventy", "-o", str(folder), "-w", str(workspace.root))
    first = run(*command)
    assert first.stdout == f"{folder}\n"
    written = list(folder.rglob("*.md"))
    assert f"Files: {len(written)} written, 0 unchanged, 0 removed" in first.stderr
    mine = folder / "posts" / "mine.md"
    mine.write_text("by hand", encoding="utf-8")
    written[0].unlink()
    again = run(*command)
    assert f"Files: 1 written, {len(written) - 1} unchanged, 0 removed" in again.stderr
    assert mine.is_file()
    assert set(list_site_pages(folder)) == set(written)
    left = temporary_path(written[0])
    left.write_text("left by a killed process", encoding="utf-8")
    assert set(list_site_pages(folder)) == {*written, left}
    assert "0 written" in run(*command).stderr
    assert not left.exists()


def test_an_export_overwrites_nothing_of_others(workspace: Workspace, tmp_path: Path) -> None:
    taken = tmp_path / "posts.mbox"
    taken.write_text("mails of somebody else", encoding="utf-8")
    with raises(InputError, "foreign_file", tmp_path):
        export_posts(workspace, "mbox", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["posts.mbox"]
    with raises(InputError, "foreign_folder", workspace.root):
        export_posts(workspace, "hugo", workspace.root)


def test_messages_that_look_the_same_are_counted_each(site: Site) -> None:
    post = site.library.posts[-1]
    first = post.window.messages[0]
    same = replace(post.window, messages=(first,) * 4)
    quotes = tuple(Quote(place, first.sent_at, "Somebody", "as readers see it") for place in (1, 2))
    drawn = replace(post, window=same, uses=(replace(post.uses[0], because=quotes, cited=True),))
    assert drawn.served == 2
