"""The ten tools of agents: documented keys, true numbers, one shape of errors, and roots."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backstory.base.errors import InputError
from backstory.interfaces.agents.document_tools import DocumentTools, register_rag_tools
from backstory.interfaces.library.library import Library
from backstory.interfaces.library.search import DocumentFilters
from tests.errors import raises
from tests.ingest.documents.pdf_files import make_pdf, write_lines
from tests.interfaces.library.conftest import SETTINGS


class Agent(DocumentTools):
    def __init__(self, library: Library) -> None:
        self.library = library


@pytest.fixture
def agent(library: Library) -> Agent:
    return Agent(library)


@pytest.fixture
def reader(indexed_once: Library) -> Agent:
    """An agent over documents that no test changes."""
    return Agent(indexed_once)


def assert_failure(result: dict[str, Any], code: str, *words: str) -> None:
    assert (set(result), result["status"], result["code"]) == (
        {"status", "code", "message", "hint"},
        "error",
        code,
    )
    assert result["hint"]
    assert all(word in result["message"] for word in words)


def allow(library: Library, root: Path) -> Agent:
    settings = library.workspace.root / "backstory.yaml"
    settings.write_text(
        f"{settings.read_text()}agents: {{roots: [{json.dumps(str(root))}]}}\n", encoding="utf-8"
    )
    return Agent(Library.open(library.workspace.root))


def test_a_query_gives_the_documented_keys(reader: Agent) -> None:
    found = reader.query_documents("What is the night train?")
    assert set(found) == {
        "status", "message", "chunks", "num_chunks", "search_keys_used", "source_files", "instruction", "degraded",
        "debug_info",
    }  # fmt: skip
    assert (found["status"], found["degraded"], found["debug_info"]) == ("success", None, None)
    assert found["num_chunks"] == len(found["chunks"])
    assert set(found["chunks"][0]) == {
        "chunk_id", "_debug_chunk_index", "document_id", "title", "cite", "heading", "metadata", "line", "page",
        "page_end", "content", "relevance_score", "source_file",
    }  # fmt: skip
    assert found["chunks"][0]["source_file"] == found["source_files"][0] == "night-train.md"
    assert found["search_keys_used"][0] == "What is the night train?"
    json.dumps(found)


def test_debug_tells_what_each_key_found(reader: Agent) -> None:
    found = reader.query_documents("What is sourdough bread?", debug=True)
    told = found["debug_info"]
    assert list(told["per_key_hits"]) == found["search_keys_used"]
    assert len(found["search_keys_used"]) > 1
    assert sum(told["per_key_hits"].values()) == told["hits_before_dedup"] > told["hits_after_dedup"]
    scores = [chunk["relevance_score"] for chunk in found["chunks"]]
    assert (told["score_max"], told["score_min"]) == (max(scores), min(scores))
    assert told["score_mean"] == pytest.approx(sum(scores) / len(scores))
    assert {chunk["_debug_chunk_index"] for chunk in found["chunks"]} == {0}
    plain = reader.query_documents("What is sourdough bread?")["chunks"]
    assert plain == [{**chunk, "_debug_chunk_index": None} for chunk in found["chunks"]]


def test_a_query_without_evidence_is_weak_and_without_an_index_nothing(
    reader: Agent, make_library: Callable[..., Library]
) -> None:
    assert reader.query_documents("xylophone zygote")["status"] == "weak"
    nothing = Agent(make_library()).query_documents("night train")
    assert (nothing["status"], nothing["num_chunks"], nothing["chunks"]) == ("no_documents", 0, [])
    assert "nothing can be said" in nothing["instruction"]
    unmet = reader.query_documents("night train", filters=DocumentFilters(pages=[1, 9]))
    assert (unmet["status"], unmet["chunks"]) == ("nothing_found", [])
    assert "Nothing in the index is about 'night train'" in unmet["instruction"]


def test_where_nothing_is_indexed_no_document_is_listed_and_every_error_says_so(
    make_library: Callable[..., Library],
) -> None:
    empty = Agent(make_library())
    listed = empty.list_indexed_documents()
    assert (listed["documents"], listed["total_indexed_files"]) == ([], 0)
    assert "nothing is indexed" in listed["message"]
    for failure in (
        empty.search_indexed_chunks("train"),
        empty.evaluate_retrieval("What train?", "The night train."),
        empty.summarize_document("night-train.md"),
        empty.dump_document("night-train.md"),
    ):
        assert_failure(failure, "no_index")


def test_improbable_chunks_are_counted_in_the_message(reader: Agent, library: Library) -> None:
    answer = library.search("What is sourdough bread?", expand=True)
    assert 0 < answer.weak < len(answer.hits)
    found = reader.query_documents("What is sourdough bread?")
    assert found["status"] == "success"
    assert f"{answer.weak} of them {'is' if answer.weak == 1 else 'are'} no evidence" in found["message"]
    assert "none of them" in reader.query_documents("xylophone zygote")["message"]


def test_one_file_is_searched_by_a_whole_name_only(reader: Agent) -> None:
    assert reader.query_specific_file("later.md", "starter")["source_files"] == ["later.md"]
    for part in ("late", "train.md", "night", ".md", "sour"):
        assert_failure(reader.query_specific_file(part, "starter"), "unknown_document", part)


def test_a_query_takes_the_filters_of_a_search_and_the_number_of_chunks(reader: Agent) -> None:
    query = "sourdough bread"
    both = DocumentFilters(paths=["*.md"], tags=["sourdough"])
    assert set(reader.query_documents(query, filters=both)["source_files"]) == {"sourdough.md", "later.md"}
    assert reader.query_documents(query, filters=both, max_chunks=1)["num_chunks"] == 1
    assert reader.query_documents(query, filters=both, top_k=1)["num_chunks"] == 1
    assert_failure(reader.query_documents(query, max_chunks=1, top_k=2), "input", "same number")
    early = datetime(2025, 1, 1, tzinfo=UTC)
    assert reader.query_documents(query, filters=both, as_of=early)["source_files"] == ["sourdough.md"]
    unmatched = reader.query_documents(query, filters=DocumentFilters(paths=["sour/**"]))
    assert_failure(unmatched, "unmatched_pattern", "sour/**")
    assert "sourdough.md" in unmatched["hint"]


def test_a_chunk_has_a_short_id_that_the_other_tools_take(reader: Agent) -> None:
    [chunk] = reader.query_documents("night train", max_chunks=1)["chunks"]
    name = chunk["chunk_id"]
    assert len(name) < 16
    assert (chunk["title"], chunk["cite"], chunk["line"]) == ("Night train", "night-train.md, lines 2-4", 2)
    assert reader.query_specific_file(name, "seat")["source_files"] == ["night-train.md"]
    assert reader.summarize_document(name)["document"] == "night-train.md"
    read = reader.library.chunk(name)
    assert read.text == chunk["content"]
    with raises(InputError, "unknown_chunk"):
        reader.library.chunk(name.replace("#0", "#7"))
    places = [(chunk["document_id"], read.char_start), (chunk["document_id"], 10**9)]
    assert reader.library.chunks(places) == [read, None]


def test_all_ten_tools_have_a_status_and_a_message(agent: Agent) -> None:
    for answer in (
        agent.query_documents("night train seat reservation"),
        agent.query_specific_file("later.md", "sourdough starter flour"),
        agent.search_indexed_chunks("train"),
        agent.evaluate_retrieval("What train?", "The night train."),
        agent.index_document("later.md"),
        agent.index_directory("posts"),
        agent.list_indexed_documents(),
        agent.summarize_document("later.md"),
        agent.dump_document("later.md"),
        agent.rag_status(),
    ):
        assert answer["status"] == "success"
        assert answer["message"]
    assert agent.search_indexed_chunks("xylophone")["status"] == "nothing_found"


def test_the_tools_are_registered_with_an_agent(indexed_once: Library) -> None:
    class Framework:
        def __init__(self) -> None:
            self.tools: dict[str, Callable[..., dict[str, Any]]] = {}

        def tool_plain(self, tool: Callable[..., dict[str, Any]]) -> None:
            self.tools[tool.__name__] = tool

    class Plain:
        library = indexed_once

    framework, plain = Framework(), Plain()
    register_rag_tools(framework, indexed_once)
    register_rag_tools(plain)
    assert len(framework.tools) == 10
    for query in (framework.tools["query_documents"], plain.query_documents):  # type: ignore[attr-defined]
        assert query("night train")["source_files"][0] == "night-train.md"
    with raises(InputError, "no_library"):
        register_rag_tools(Framework())


def test_matches_are_counted_truly_and_shown_by_the_hundred(agent: Agent) -> None:
    agent.library.add(["\n".join(f"row {number} quince" for number in range(1, 251))], ["rows"])
    first = agent.search_indexed_chunks("quince")
    assert set(first) == {"status", "pattern", "matches", "count", "showing", "next_offset", "message"}
    assert (first["count"], first["showing"], len(first["matches"]), first["next_offset"]) == (
        250,
        100,
        100,
        100,
    )
    last = agent.search_indexed_chunks("quince", offset=200)
    assert (last["count"], last["showing"], last["next_offset"]) == (250, 50, None)
    lines = [match["line"] for match in [*first["matches"], *last["matches"]]]
    text = agent.library.text("rows").text.split("\n")
    assert all("quince" in text[line - 1] for line in lines)
    assert set(first["matches"][0]) == {
        *("file", "title", "page", "line", "text", "cite"),
        *("chunk_id", "chunk_text"),
    }
    assert all("quince" in match["chunk_text"] for match in first["matches"])


@pytest.mark.parametrize("mark", ["", "?", "!!", "…", " ?\n"])
def test_a_verbatim_answer_is_sufficient_and_another_text_is_not(reader: Agent, mark: str) -> None:
    question = f"What needs a seat reservation on the night train to Lisbon{mark}"
    good = reader.evaluate_retrieval(
        question, "«A seat reservation», on the night-train, to: Lisbon; needs nothing."
    )
    assert set(good) == {
        *("status", "message"),
        *("sufficient", "confidence", "keyword_overlap", "recommendation", "issues"),
    }
    assert good["sufficient"]
    assert good["keyword_overlap"] == 1
    bad = reader.evaluate_retrieval(question, "Moths circled round another lamp!")
    assert (bad["sufficient"], bad["keyword_overlap"]) == (False, 0)
    assert bad["issues"]


def test_a_changed_file_is_indexed_again_and_an_unchanged_one_is_not(agent: Agent) -> None:
    posts = agent.library.workspace.documents_dir
    unchanged = agent.index_document("posts/night-train.md")
    assert set(unchanged) == {
        "file_name", "file_type", "file_size_mb", "num_pages", "num_chunks", "total_indexed_files", "total_chunks",
        "from_cache", "already_indexed", "reindexed", "note", "status", "message", "vlm_pages",
    }  # fmt: skip
    assert (unchanged["already_indexed"], unchanged["reindexed"], unchanged["from_cache"]) == (
        True,
        False,
        True,
    )
    (posts / "night-train.md").write_text("# Night train\n\nThe sleeper to Porto.", encoding="utf-8")
    changed = agent.index_document("posts/night-train.md")
    assert (changed["already_indexed"], changed["reindexed"], changed["from_cache"]) == (False, True, False)
    assert "Porto" in agent.query_documents("sleeper to Porto")["chunks"][0]["content"]
    (posts / "fresh.md").write_text("Quinces ripen late.", encoding="utf-8")
    fresh = agent.index_document(str(posts / "fresh.md"))
    assert (fresh["already_indexed"], fresh["reindexed"], fresh["total_indexed_files"]) == (False, False, 7)
    assert round(fresh["file_size_mb"] * 1_000_000) == len("Quinces ripen late.")


def test_a_file_that_cannot_be_indexed_is_an_error_with_the_reason(agent: Agent) -> None:
    posts = agent.library.workspace.documents_dir
    (posts / "broken.md").write_text("---\ntitle: [\n---\ntext", encoding="utf-8")
    (posts / "empty.md").write_text("", encoding="utf-8")
    assert_failure(agent.index_document("posts/broken.md"), "read", "broken.md")
    assert_failure(agent.index_document("posts/empty.md"), "read", "empty.md")
    assert_failure(agent.index_document("posts/absent.md"), "input", "no file")
    assert_failure(agent.index_document(" "), "blank_text", "blank")
    for path in ("~nobody-of-this-name/x", "a" * 300, "a\0b", "\ud800"):
        assert_failure(agent.index_document(path), "unusable_path", "no path")
        assert_failure(agent.dump_document("night-train.md", path), "unusable_path", "no path")


def test_a_folder_is_told_file_by_file(agent: Agent) -> None:
    posts = agent.library.workspace.documents_dir
    (posts / "more" / "deep").mkdir(parents=True)
    (posts / "more" / "pear.md").write_text("Pears.", encoding="utf-8")
    (posts / "more" / "broken.md").write_text("---\ntitle: [\n---\ntext", encoding="utf-8")
    (posts / "more" / "program.bin").write_bytes(bytes(range(256)))
    (posts / "more" / "deep" / "plum.md").write_text("Plums.", encoding="utf-8")
    flat = agent.index_directory("posts/more")
    assert (flat["indexed_count"], flat["failed_count"], flat["skipped_count"]) == (1, 1, 1)
    assert flat["indexed_files"] == ["more/pear.md"]
    assert [each["file"] for each in flat["failed_files"]] == ["more/broken.md"]
    assert all(each["reason"] for each in [*flat["failed_files"], *flat["skipped_files"]])
    deep = agent.index_directory("posts/more", recursive=True)
    assert {each["file"]: each["reason"] for each in deep["skipped_files"]}["more/pear.md"].startswith(
        "it was"
    )
    (posts / "more" / "pear.md").unlink()
    left = agent.index_directory("posts/more", recursive=True)
    assert left["message"].endswith("1 document left the index, as the files are gone")


def test_a_file_is_indexed_by_the_path_that_the_other_tools_name_it_by(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "quince.md").write_text("Quinces ripen late.", encoding="utf-8")
    agent.library.index(tmp_path / "notes")
    for document in agent.list_indexed_documents()["documents"]:
        assert agent.index_document(document["source_file"])["already_indexed"]


def test_the_file_of_a_path_is_taken_before_a_document_that_is_named_like_it(agent: Agent) -> None:
    posts = agent.library.workspace.documents_dir
    (posts / "posts").mkdir()
    (posts / "posts" / "quince.md").write_text("Quinces of the folder in the folder.", encoding="utf-8")
    assert agent.index_document("posts/posts/quince.md")["already_indexed"] is False
    assert agent.index_document("posts/quince.md")["already_indexed"]
    (posts / "quince.md").write_text("Quinces of the folder itself.", encoding="utf-8")
    assert agent.index_document("posts/quince.md")["already_indexed"] is False


def test_a_changed_file_is_indexed_again_also_where_its_folder_is_a_link(
    agent: Agent, tmp_path: Path
) -> None:
    posts = agent.library.workspace.documents_dir
    posts.rename(tmp_path / "elsewhere")
    posts.symlink_to(tmp_path / "elsewhere")
    (posts / "night-train.md").write_text("The night train is full.", encoding="utf-8")
    assert agent.index_document("posts/night-train.md")["reindexed"]


def test_a_folder_that_was_indexed_without_its_folders_is_indexed_with_them_later(
    agent: Agent, tmp_path: Path
) -> None:
    deep = tmp_path / "notes" / "deep"
    deep.mkdir(parents=True)
    (tmp_path / "notes" / "top.md").write_text("Quinces.", encoding="utf-8")
    (deep / "low.md").write_text("Medlars.", encoding="utf-8")
    allowed = allow(agent.library, tmp_path / "notes")
    flat = allowed.index_directory(str(tmp_path / "notes"))
    assert (flat["indexed_files"], flat["skipped_count"]) == (["notes://top.md"], 1)
    refused = allowed.index_document(str(deep / "low.md"))
    assert_failure(refused, "read", "notes://deep/", "left out")
    assert "recursively" in refused["hint"]
    whole = allowed.index_directory(str(tmp_path / "notes"), recursive=True)
    assert whole["indexed_files"] == ["notes://deep/low.md"]
    assert allowed.query_documents("medlars")["source_files"][0] == "notes://deep/low.md"


def test_links_that_leave_a_folder_are_told_with_it(agent: Agent, tmp_path: Path) -> None:
    folder = agent.library.workspace.documents_dir / "more"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "secret.md").write_text("secret quince", encoding="utf-8")
    (folder / "pear.md").write_text("Pears.", encoding="utf-8")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "folder").symlink_to(tmp_path / "elsewhere")
    told = agent.index_directory("posts/more", recursive=True)
    assert told["indexed_files"] == ["more/pear.md"]
    reasons = {each["file"]: each["reason"] for each in told["failed_files"]}
    assert set(reasons) == {"more/link.md", "more/folder/"}
    assert all("link" in reason for reason in reasons.values())


def test_what_of_a_file_was_not_read_is_told_wherever_it_is_named(agent: Agent) -> None:
    posts = agent.library.workspace.documents_dir
    (posts / "more").mkdir()
    (posts / "more" / "cafe.md").write_bytes("Le café est fermé.".encode("latin-1"))
    note = agent.index_document("more/cafe.md")["note"]
    assert "not UTF-8" in note
    assert agent.index_directory("posts/more")["noted_files"] == [{"file": "more/cafe.md", "reason": note}]
    notes = {each["source_file"]: each["note"] for each in agent.list_indexed_documents()["documents"]}
    assert (notes["more/cafe.md"], notes["night-train.md"]) == (note, None)
    assert note in agent.dump_document("more/cafe.md")["message"]
    assert note in agent.summarize_document("more/cafe.md")["message"]


@pytest.mark.parametrize(("chunker", "spans"), [("page", [(1, 1), (2, 2)]), ("character", [(1, 2)])])
def test_the_right_pages_where_a_chunk_spans_two(
    make_library: Callable[..., Library], chunker: str, spans: list[tuple[int, int]]
) -> None:
    agent = Agent(make_library(f"{SETTINGS}chunks: {{chunkers: {{pdf: {chunker}}}}}\n"))
    (agent.library.workspace.documents_dir / "pages.pdf").write_bytes(
        make_pdf([write_lines("Apples of autumn"), write_lines("Quinces of winter")])
    )
    assert agent.index_document("posts/pages.pdf")["num_pages"] == 2
    places = (
        agent.search_indexed_chunks("Quinces of")["matches"]
        + agent.search_indexed_chunks("Apples")["matches"]
    )
    assert [(place["file"], place["page"]) for place in places] == [("pages.pdf", 2), ("pages.pdf", 1)]
    found = agent.query_specific_file("pages.pdf", "quinces of winter")["chunks"]
    assert sorted((chunk["page"], chunk["page_end"]) for chunk in found) == spans


def test_the_lists_and_the_state_are_those_of_the_library(reader: Agent) -> None:
    listed = reader.list_indexed_documents()
    assert (listed["total_indexed_files"], len(listed["documents"])) == (6, 6)
    root = reader.library.workspace.documents_dir
    for document in listed["documents"]:
        assert round(document["file_size_mb"] * 1_000_000) == (root / document["source_file"]).stat().st_size
    status = reader.rag_status()
    assert (status["state"], status["total_indexed_files"], status["pending_files"]) == ("ready", 6, 0)
    assert status["total_chunks"] == listed["total_chunks"]


def test_a_summary_has_the_documented_keys_and_holds_its_limit(agent: Agent) -> None:
    agent.library.add([" ".join(f"Sentence {number} tells of quinces." for number in range(200))], ["long"])
    made = agent.summarize_document("long", "bullets", max_words_per_section=100)
    assert {
        "summary", "summary_type", "document", "total_words", "sections_processed", "section_summaries", "instruction",
    } <= set(made)  # fmt: skip
    assert (made["status"], made["summary_type"], made["document"]) == ("success", "bullets", "added/long.md")
    assert made["sections_processed"] == len(made["section_summaries"]) > 1
    assert all(section["words"] <= 100 for section in made["section_summaries"])
    assert_failure(agent.summarize_document("absent.md"), "unknown_document", "absent.md")
    assert_failure(agent.summarize_document("long", "loud"), "input")  # type: ignore[arg-type]


def test_documents_of_another_tenant_are_out_of_reach(make_library: Callable[..., Library]) -> None:
    library = make_library(SETTINGS + "rag: {tenant: ana}\n")
    posts = library.workspace.documents_dir
    for owner in ("ana", "bob"):
        text = f"---\ntitle: Quince of {owner}\ntenant: {owner}\n---\nQuinces of {owner}."
        (posts / f"{owner}.md").write_text(text, encoding="utf-8")
    library.index()
    agent = Agent(library)
    assert agent.query_documents("quinces")["source_files"] == ["ana.md"]
    assert [match["file"] for match in agent.search_indexed_chunks("quinces of")["matches"]] == ["ana.md"]
    assert [each["source_file"] for each in agent.list_indexed_documents()["documents"]] == ["ana.md"]
    assert agent.rag_status()["total_indexed_files"] == 1
    for refused in (
        agent.summarize_document("bob.md"),
        agent.dump_document("bob.md"),
        agent.query_specific_file("Quince of bob", "quinces"),
    ):
        assert_failure(refused, "unknown_document", "no document is called")
        assert "bob" not in refused["hint"]
    assert_failure(agent.index_document("posts/bob.md"), "read", "tenant")
    (posts / "bob.md").write_text("---\ntenant: bob\n---\nA new text of Bob.", encoding="utf-8")
    assert library.status().pending == ()
    library.close()
    assert "bob.md" not in str(Library(library.workspace).search("quinces").notes)
    library.index()
    mine = agent.index_document("posts/ana.md")
    assert (mine["already_indexed"], mine["total_indexed_files"], mine["total_chunks"]) == (True, 1, 1)


def test_a_text_is_written_into_the_folder_of_dumps_or_a_root(agent: Agent, tmp_path: Path) -> None:
    written = agent.dump_document("night-train.md")
    assert set(written) == {"status", "output_path", "text_length", "num_pages", "message"}
    text = agent.library.text("night-train.md").text
    path = Path(written["output_path"])
    assert path.parent == agent.library.workspace.root / "dumps"
    assert (path.read_text(encoding="utf-8"), written["text_length"]) == (text, len(text))
    assert agent.dump_document("night-train.md") == written
    (tmp_path / "out").mkdir()
    allowed = allow(agent.library, tmp_path / "out")
    target = tmp_path / "out" / "train.txt"
    assert allowed.dump_document("night-train.md", str(target))["output_path"] == str(target)
    assert_failure(allowed.dump_document("night-train.md", str(target)), "input", "already exists")


def test_no_text_is_written_outside_of_the_roots(agent: Agent, tmp_path: Path) -> None:
    root = agent.library.workspace.root
    (tmp_path / "elsewhere").mkdir()
    (root / "dumps").mkdir()
    (root / "dumps" / "link").symlink_to(tmp_path / "elsewhere")
    for path in (
        "/etc/backstory.txt", "../out.txt", "~/out.txt", "posts/night-train.md", "backstory.yaml", "dumps/../x.txt",
        "dumps/link/x.txt",
    ):  # fmt: skip
        assert_failure(agent.dump_document("night-train.md", path), "input", "outside", str(root / "dumps"))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_no_file_of_any_format_is_read_from_outside_of_the_roots(agent: Agent, tmp_path: Path) -> None:
    posts = agent.library.workspace.documents_dir
    for name in ("note.md", "note.txt", "note.pdf", "note.html", "note.csv", "note.json"):
        (tmp_path / name).write_text("secret quince", encoding="utf-8")
        (posts / f"link-{name}").symlink_to(tmp_path / name)
        for given in (str(tmp_path / name), f"../{name}", f"posts/link-{name}"):
            assert_failure(agent.index_document(given), "input", "outside", str(posts))
    assert_failure(agent.index_directory(str(tmp_path)), "input", "outside")
    assert agent.search_indexed_chunks("quince")["count"] == 0


def test_a_root_of_the_settings_may_be_indexed(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "quince.md").write_text("Quinces ripen late.", encoding="utf-8")
    allowed = allow(agent.library, tmp_path / "notes")
    assert allowed.index_directory(str(tmp_path / "notes"))["indexed_count"] == 1
    assert allowed.index_document(str(tmp_path / "notes" / "quince.md"))["already_indexed"]
    assert allowed.query_documents("quinces")["chunks"][0]["content"].startswith("Quinces")
