"""The pages of documents over the wire: states, texts with their marks, uploads with their job, and removal."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.service.pages.passages import SHOWN_CHARACTERS, Mark, read_passage
from backstory.interfaces.service.service import ServiceLimits
from tests.ingest.documents.pdf_files import make_pdf, write_lines
from tests.interfaces.library.conftest import write_documents
from tests.interfaces.service.page_reading import Browser, Page, browsing
from tests.interfaces.service.running import QUESTION, Running, running, write_service

LIMITS = ServiceLimits(requests_per_minute=100_000, requests_at_once=10_000, upload_bytes=3_000_000)
FERRY = b"# Night ferry\n\nThe night ferry to Turku needs a cabin reservation.\n"
DOCUMENTS = "/tenants/garden/documents"


@pytest.fixture
def served(indexed_once: Library, service_root: Path) -> Iterator[Running]:
    service, tokens = write_service(service_root, indexed_once.workspace.root, LIMITS)
    with running(service, tokens) as started:
        yield started


@pytest.fixture
def dora(served: Running) -> Iterator[Browser]:
    """A browser of an editor."""
    with browsing(served, "dora") as browser:
        yield browser


def send(browser: Browser, *files: tuple[str, bytes], **fields: str) -> httpx2.Response:
    """Send a form with files, as the page of documents has it."""
    return browser.client.post(
        DOCUMENTS,
        files=[("files", file) for file in files],
        data=fields,
        headers={"Origin": str(browser.client.base_url).rstrip("/")},
        follow_redirects=True,
    )


def list_names(page: Page) -> list[str]:
    return [link.text for link in page.all("a", class_="title")]


def find(browser: Browser, name: str) -> str:
    """Find the address of a document by its name."""
    [found] = browser.get(f"{DOCUMENTS}?name={name}").all("a", class_="title")
    return found["href"]


def test_all_files_are_listed_with_their_states_and_reasons(served: Running, dora: Browser) -> None:
    posts = served.service.tenants.folder("garden") / "posts"
    (posts / "broken.pdf").write_bytes(b"no pdf at all")
    with served.service.tenants.entering("garden") as library:
        library.index()
    (posts / "added.md").write_bytes(FERRY)
    page = dora.get(DOCUMENTS)
    rows = dict(zip(list_names(page), page.texts("span", class_="state"), strict=True))
    assert (rows["posts/broken.pdf"], rows["posts/added.md"]) == ("failed", "pending")
    assert list(rows.values()).count("read") == 6
    failed = dora.get(f"{DOCUMENTS}?state=failed")
    assert list_names(failed) == ["posts/broken.pdf"]
    # The reason is in the row of the list, and on the page of the file.
    reason = failed.texts("td")[1].removeprefix("failed")
    assert reason
    assert reason in " ".join(dora.get(failed.one("a", class_="title")["href"]).one("section").text.split())
    assert list_names(dora.get(f"{DOCUMENTS}?name=ADDED")) == ["posts/added.md"]
    assert list_names(dora.get(f"{DOCUMENTS}?name=nothing-of-this-name")) == []
    part = dora.client.get(DOCUMENTS, headers={"HX-Request": "true"})
    assert "<html" not in part.text
    assert list_names(Page(part.text)) == list(rows)


def test_a_long_list_is_divided(served: Running, dora: Browser) -> None:
    posts = served.service.tenants.folder("garden") / "posts"
    for number in range(60):
        (posts / f"note-{number:02}.md").write_text(f"# Note {number}\n", encoding="utf-8")
    first = dora.get(f"{DOCUMENTS}?name=note-&state=pending")
    [further] = first.all("a", rel="next")
    second = dora.get(further["href"])
    assert len(list_names(first)) == 50
    assert len(list_names(second)) == 10
    assert sorted({*list_names(first), *list_names(second)}) == [
        f"posts/note-{number:02}.md" for number in range(60)
    ]
    assert [link["href"] for link in second.all("a", rel="prev")] == [
        f"{DOCUMENTS}?name=note-&state=pending&offset=0"
    ]


def test_an_upload_is_indexed_and_then_answers(served: Running, dora: Browser) -> None:
    form = dora.get(DOCUMENTS).one("form", id="upload")
    assert (form["action"], form["enctype"]) == (DOCUMENTS, "multipart/form-data")
    sent = send(dora, ("ferry.md", FERRY))
    assert sent.status_code == 200
    job = Page(sent.text).one("section", id="job")
    assert job["hx-get"] == "/tenants/garden/job"
    served.service.jobs.wait("garden")
    followed = dora.client.get("/tenants/garden/job", headers={"HX-Request": "true"})
    assert "hx-get" not in Page(followed.text).one("section", id="job").attributes
    assert followed.headers["hx-trigger"] == "documents-changed"
    assert list_names(dora.get(f"{DOCUMENTS}?state=read&name=ferry")) == ["Night ferry"]
    answer = dora.post("/tenants/garden/ask", question="What does the night ferry to Turku need?")
    assert "cabin reservation" in answer.texts("blockquote")[0]


def test_a_script_gets_what_became_of_each_file_and_the_job(served: Running, dora: Browser) -> None:
    headers = {"HX-Request": "true", "Origin": served.url}
    files = [("files", ("ferry.md", FERRY)), ("files", ("b.md", b"# B\n\n<script>x</script>\n"))]
    sent = dora.client.post(DOCUMENTS, files=files, headers=headers)
    assert sent.status_code == 202
    part = Page(sent.text)
    assert part.texts("li") == ["ferry.md: added", "b.md: added"]
    # The job is put in the place of the one before.
    assert part.one("section", id="job")["hx-swap-oob"] == "true"
    served.service.jobs.wait("garden")
    refused = dora.client.post(DOCUMENTS, files=[("files", ("ferry.md", b"# Other\n"))], headers=headers)
    assert (refused.status_code, refused.headers["hx-retarget"]) == (409, "#notice")
    replaced = dora.client.post(
        DOCUMENTS, files=[("files", ("ferry.md", b"# Other\n"))], data={"replace": "on"}, headers=headers
    )
    assert Page(replaced.text).texts("li") == ["ferry.md: replaced"]
    served.service.jobs.wait("garden")


@pytest.mark.parametrize(
    ("name", "status"), [("../../evil.md", 400), ("<img src=x>.exe", 400), (".hidden.md", 400), ("", 400)]
)
def test_a_file_that_cannot_be_taken_is_refused_with_its_reason(
    dora: Browser, name: str, status: int
) -> None:
    sent = send(dora, (name, FERRY))
    assert sent.status_code == status
    assert Page(sent.text).one("p", class_="notice").text
    assert "<img" not in sent.text


def test_an_upload_beyond_the_limit_is_refused_and_other_forms_stay_small(dora: Browser) -> None:
    assert send(dora, ("large.md", b"x" * 3_100_000)).status_code == 413
    assert send(dora, ("large.md", b"x" * 1_500_000)).status_code == 200


def test_a_document_is_removed_after_a_question(served: Running, dora: Browser) -> None:
    send(dora, ("ferry.md", FERRY))
    served.service.jobs.wait("garden")
    answer = dora.post("/tenants/garden/ask", question="What does the night ferry to Turku need?")
    conversation = answer.one("input", name="conversation")["value"]
    row = dora.get(f"{DOCUMENTS}?name=ferry")
    [link] = [link for link in row.all("a") if link["href"].endswith("/remove")]
    assert link["aria-label"] == "Remove Night ferry"
    form = next(form for form in dora.get(link["href"]).all("form") if form["action"] == link["href"])
    assert find(dora, "ferry")
    dora.post(form["action"])
    served.service.jobs.wait("garden")
    assert list_names(dora.get(f"{DOCUMENTS}?name=ferry")) == []
    # An answer that quoted it is gone from its conversation.
    assert dora.get(f"/tenants/garden/conversations/{conversation}").all("blockquote") == []


def test_a_reader_reads_documents_and_changes_none(served: Running) -> None:
    with browsing(served, "ben") as ben:
        page = ben.get(DOCUMENTS)
        assert page.all("form", id="upload") == []
        assert [link for link in page.all("a") if link["href"].endswith("/remove")] == []
        address = page.all("a", class_="title")[0]["href"]
        assert ben.get(address).one("div", class_="body").text.strip()
        assert send(ben, ("ferry.md", FERRY)).status_code == 403
        ben.get(f"{address}/remove", 403)
        for path in (f"{address}/remove", "/tenants/garden/index", "/tenants/garden/jobs/x/cancel"):
            ben.post(path, 403)
    assert not (served.service.tenants.folder("garden") / "posts" / "uploads").exists()


def test_the_page_of_a_pdf_stands_beside_its_text(served: Running, dora: Browser) -> None:
    pages = [
        write_lines("The first page"),
        write_lines("The night ferry to Turku needs a cabin reservation."),
    ]
    send(dora, ("ferry.pdf", make_pdf(pages)))
    served.service.jobs.wait("garden")
    address = find(dora, "ferry")
    first = dora.get(address)
    assert "first page" in first.one("div", class_="body").text
    [following] = first.all("a", rel="next")
    second = dora.get(f"{address}{following['href']}")
    picture = dora.client.get(second.one("img")["src"])
    assert (picture.headers["content-type"], picture.content[:4]) == ("image/png", b"\x89PNG")
    assert picture.content != dora.client.get(first.one("img")["src"]).content
    assert second.one("img")["alt"]
    dora.get(f"{address}?page=3", 400)
    # A citation opens its page.
    answer = dora.post("/tenants/garden/ask", question="What does the night ferry to Turku need?")
    cited = dora.get(answer.all("a", class_="badge")[0]["href"])
    assert "cabin reservation" in cited.one("mark").text
    assert cited.one("img")["src"] == second.one("img")["src"]


def test_a_passage_that_an_edit_has_moved_or_dropped_is_found_or_told(served: Running, dora: Browser) -> None:
    posts = served.service.tenants.folder("garden") / "posts"
    answer = dora.post("/tenants/garden/ask", question=QUESTION)
    address = answer.all("a", class_="badge")[0]["href"]
    quote = answer.texts("blockquote")[0]
    [file] = [path for path in posts.glob("*.md") if quote in " ".join(path.read_text("utf-8").split())]
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(quote, f"Some words before.\n\n{quote}"), encoding="utf-8")
    with served.service.tenants.entering("garden") as library:
        assert library.index().success
    assert " ".join(dora.get(address).one("mark").text.split()) == quote
    file.write_text(text.replace(quote, "Nothing of this."), encoding="utf-8")
    with served.service.tenants.entering("garden") as library:
        assert library.index().success
    # The edit drops no answer, so what it quotes is told to be no longer there.
    page = dora.get(address)
    assert page.all("mark") == []
    assert quote in page.one("p", class_="notice").text


def test_a_long_text_is_shown_in_parts_that_together_are_all_of_it(served: Running, dora: Browser) -> None:
    lines = [f"Line {number} of a long text about nothing.\n" for number in range(2_000)]
    (served.service.tenants.folder("garden") / "posts" / "long.md").write_text(
        "".join(lines), encoding="utf-8"
    )
    with served.service.tenants.entering("garden") as library:
        assert library.index().success
        [entry] = [each for each in library.documents().documents if each.uri == "long.md"]
        whole = library.text(entry.document_id).text
        place = whole.index("Line 1500 of")
        marked = read_passage(library, entry.document_id, mark=Mark(place, place + 9))
        assert (marked.marked, marked.mark_start, marked.mark_end) == ("Line 1500", place, place + 9)
        assert marked.before.startswith("Line ")
        assert marked.end - marked.start <= SHOWN_CHARACTERS
        outside = read_passage(library, entry.document_id, mark=Mark(10**9, 10**9 + 1))
        assert outside.marked == ""
    shown, address = "", f"{DOCUMENTS}/{entry.document_id}"
    for _ in range(50):
        page = dora.get(address)
        shown += page.one("div", class_="body").text
        following = page.all("a", rel="next")
        if not following:
            break
        address = following[0]["href"]
    assert shown.split() == whole.split()


def test_a_source_that_is_not_reached_is_told_without_its_place(
    served: Running, dora: Browser, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.md").write_text("# One\n\nA note from elsewhere.\n")
    with served.service.tenants.entering("garden") as library:
        library.index(notes)
    assert dora.get(DOCUMENTS).all("p", class_="notice") == []
    notes.rename(tmp_path / "moved")
    page = dora.get(DOCUMENTS)
    assert "notes" in page.one("p", class_="notice").text
    assert str(tmp_path) not in page.document


def test_before_the_first_indexing_a_question_is_answered_by_what_to_do(tmp_path: Path) -> None:
    root = tmp_path / "service"
    service, tokens = write_service(root, write_documents(tmp_path / "made"), LIMITS)
    with running(service, tokens) as served, browsing(served, "dora") as dora:
        page = dora.post("/tenants/garden/ask", question=QUESTION)
        assert page.one("div", class_="refusal").text.strip()
        file = dora.get(DOCUMENTS).all("a", class_="title")[0]
        assert dora.get(file["href"]).texts("span", class_="state") == ["pending"]
        dora.post("/tenants/garden/index")
        served.service.jobs.wait("garden")
        assert dora.post("/tenants/garden/ask", question=QUESTION).all("a", class_="badge")


def test_while_the_first_indexing_is_under_way_the_question_is_kept_in_its_form(tmp_path: Path) -> None:
    root = tmp_path / "service"
    service, tokens = write_service(root, write_documents(tmp_path / "made"), LIMITS)
    with running(service, tokens) as served, browsing(served, "dora") as dora:
        # No thread is told of this job, so it stays pending.
        service.jobs.store("garden").request("somebody")
        page = dora.post("/tenants/garden/ask", 202, question=QUESTION)
        assert page.one("textarea", name="question").text == QUESTION
        headers = {"Accept": "text/event-stream", "Origin": served.url}
        part = dora.client.post("/tenants/garden/ask", data={"question": QUESTION}, headers=headers)
        assert part.status_code == 202
        assert Page(part.text).one("p", class_="notice").text
        assert dora.get("/tenants/garden").all("article") == []
        page = dora.get(DOCUMENTS)
        [cancel] = [form for form in page.all("form") if form["action"].endswith("/cancel")]
        page = dora.post(cancel["action"])
        assert [form for form in page.all("form") if form["action"].endswith("/cancel")] == []
