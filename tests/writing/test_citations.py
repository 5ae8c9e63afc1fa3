from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.writing.citations import find_links, link_citations
from backstory.writing.material import ContextMaterial
from tests.writing.material import make_context, make_window

ONE, TWO = "../posts/doc-1.md", "../posts/doc-2.md"
SHOWN = "https://garden.example/plan"
WINDOW, CONTEXT = make_window(), make_context()


@pytest.mark.parametrize(
    ("written", "expected", "removed"),
    [
        ("As before [1].", f"As before [\\[1\\]]({ONE}).", 0),
        ("Both [1][2].", f"Both [\\[1\\]]({ONE})[\\[2\\]]({TWO}).", 0),
        ("Both [1, 2].", f"Both [\\[1\\]]({ONE}), [\\[2\\]]({TWO}).", 0),
        ("None [7].", "None .", 1),
        ("See [the plan](2).", f"See [the plan]({TWO}).", 0),
        ("See [the plan][2].", f"See [the plan]({TWO}).", 0),
        ("See [the plan](doc-1).", f"See [the plan]({ONE}).", 0),
        ("See [the plan](posts/doc-1.md).", f"See [the plan]({ONE}).", 0),
        ("See [the plan](https://evil.example/x).", "See the plan.", 1),
        (f"See [the plan]({SHOWN}).", f"See [the plan](<{SHOWN}>).", 0),
        ("See [the door](http://door.example/a_(b)).", "See [the door](<http://door.example/a_(b)>).", 0),
        ('See [the plan](https://evil.example "a title").', "See the plan.", 1),
        ("See [the plan](<https://evil.example/a b>).", "See the plan.", 1),
        ("See [the plan](javascript:alert(1)).", "See the plan.", 1),
        ("See [the plan][x].\n\n[x]: https://evil.example\n", "See the plan.\n\n", 1),
        ("See [Plan][].\n\n[plan]: https://evil.example\n", "See Plan.\n\n", 1),
        ("See [plan].\n\n[PLAN]: <https://evil.example> 'title'\n", "See plan.\n\n", 1),
        (f"See [plan].\n\n[plan]: {SHOWN}\n", f"See [plan](<{SHOWN}>).\n\n", 0),
        ("See <https://evil.example>.", "See .", 1),
        (f"See <{SHOWN}>.", f"See <{SHOWN}>.", 0),
        ("Write to <a@evil.example>.", "Write to .", 1),
        ("See https://evil.example/x, then.", "See , then.", 1),
        (f"See {SHOWN}, then.", f"See {SHOWN}, then.", 0),
        (f"See {SHOWN}/more.", "See .", 1),
        ("See www.evil.example.", "See .", 1),
        ("Look ![a cat](https://evil.example/cat.png)!", "Look a cat!", 1),
        (f"Look ![a cat]({SHOWN})!", "Look a cat!", 1),
        ("[![cat](https://evil.example/c.png)](https://evil.example)", "cat", 1),
        ('See <a href="https://evil.example">the plan</a>.', "See the plan.", 1),
        (f"See <A HREF='{SHOWN}'>the plan</A>.", f"See [the plan](<{SHOWN}>).", 0),
        ("<script>alert(1)</script>", "\\<script>alert(1)\\</script>", 0),
        ("<!-- hidden -->", "\\<!-- hidden -->", 0),
        ("- [ ] to do\n- [x] done", "- [ ] to do\n- [x] done", 0),
        ("Code `a[1]` and `<b>`.", "Code `a[1]` and `<b>`.", 0),
        ("```\na[1] www.evil.example <b>\n```\n[1]", f"```\na[1] www.evil.example <b>\n```\n[\\[1\\]]({ONE})", 0),
        ("2 < 3 and a<b", "2 < 3 and a\\<b", 0),
        ("A note[^1].", f"A note[\\[1\\]]({ONE}).", 0),
    ],
)  # fmt: skip
def test_links_of_every_form(written: str, expected: str, removed: int) -> None:
    linked = link_citations(written, WINDOW, CONTEXT, folder="written")
    assert (linked.text, linked.removed, linked.fault) == (expected, removed, None)


@pytest.mark.parametrize(
    ("target", "link"),
    [
        ("../notes/2025 a (b).txt", "../../notes/2025%20a%20%28b%29.txt"),
        ("notes/end.", "../notes/end."),
        ("https://example.org/a b(c)>?q=1&r=[2]#d", "https://example.org/a%20b%28c%29%3E?q=1&r=%5B2%5D#d"),
        ("", None),
    ],
)
def test_links_lead_where_documents_lie(target: str, link: str | None) -> None:
    [citation, _] = make_context().citations
    context = ContextMaterial("ok", (replace(citation, link=target),))
    linked = link_citations("As before [1].", WINDOW, context, folder="written")
    assert linked.text == ("As before \\[1\\]." if link is None else f"As before [\\[1\\]]({link}).")
    assert (linked.cited, linked.fault) == (("d1",), None)


@given(
    st.lists(
        st.sampled_from(
            ["[", "]", "(", ")", "<", ">", "!", "\\", "`", "```\n", "\n", "\n\n", ":", " ", "[a]: ", "a", "1", "[1]",
             "https://evil.example", SHOWN, "<a href=", "</a>", "<b", "- ", "    ", "# ", "(1)", "//", "&#91;", "[^1]",
             "~~~", '"']
        ),
        max_size=14,
    ).map("".join)
)  # fmt: skip
def test_no_spelling_leaves_a_link_that_was_not_shown(written: str) -> None:
    linked = link_citations(written, WINDOW, CONTEXT, folder="written")
    if linked.fault is None:
        assert set(find_links(linked.text)) <= {ONE, TWO, SHOWN}
