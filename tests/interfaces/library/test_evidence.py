"""What a library with the local model claims: what serves what, what nothing serves, and what asks for nothing."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from backstory.interfaces.library.library import Library
from backstory.interfaces.library.results import ContextAnswer

EXAMPLES = Path(__file__).parents[3] / "examples" / "posts"
POSTS = (
    "tomato-blight-2024",
    "blight-watch-2025",
    "bottom-bracket-creak",
    "true-a-wheel-with-a-zip-tie",
    "games-for-seven",
    "house-rules-for-game-night",
    "why-our-loaves-went-flat",
    "sourdough-starter-from-nothing-again",
    "the-disk-that-clicked",
    "choosing-a-nas",
    "a-night-with-a-moth-trap",
    "lisbon-by-rail",
)
SMALL_TALK = (
    *("thanks!", "ok see you tomorrow", "lol", "good night all", "sounds good"),
    *("👍", "yes please", "haha, same here", "good morning everyone", "sorry, my bad"),
)
KNOWN = (
    "My sourdough loaf came out flat again: it spread in the oven and the crumb stayed dense, what did I do wrong?",
    "The bicycle creaks at the bottom bracket whenever I pedal hard, and I do not know which part is loose.",
    "Which games work on game night for seven players, without anybody being out of the game for half an hour?",
    "A disk of the NAS began clicking, does the rebuild take days, and are the photos on it still safe?",
)
FOREIGN = (
    "The senate of the university elected a vice-chancellor on Tuesday, after four ballots and a long debate.",
    "The central bank raised its interest rate by a quarter of a point, and bonds lost value in the afternoon.",
)
SIX = (
    "Blight has got the allotment next to mine.",
    "Is the night train cheaper in spring?",
    "My sourdough is flat again",
    "The wheel wobbles after the pothole",
    "Who brings the games on Sunday?",
    "The far bed is dry",
)
CHAT = f"""
Ana: Morning all!
Ben: good morning
Ana: {KNOWN[0]}
Cleo: How long was the bulk rise, and how warm was the kitchen?
Ana: Four hours at 18 degrees, as the recipe says
Cleo: At 18 degrees the dough needs seven or eight hours, so go by the dough and not by the clock
Ana: thanks!
Ben: {KNOWN[1]}
Dora: Did you check the pedals, the saddle and the seatpost before the bottom bracket?
Ben: All greased and tightened, and it still creaks once per turn of the pedals
Dora: Then it is the bottom bracket, and you need the tool to get it out
Ben: ok, will do
Ana: {FOREIGN[0]}
Dora: wow
Cleo: {KNOWN[2]}
Ben: Something co-operative, so that nobody gets knocked out and sulks in the kitchen
Dora: Send the rules beforehand, and whoever owns the game teaches it in ten minutes
Cleo: sounds good
Dora: {KNOWN[3]}
Ben: It is a mirror, so the other disk holds a second copy of everything, but replace the clicking one soon
Cleo: {FOREIGN[1]}
Dora: The new disk comes tomorrow, and then the NAS copies everything for nine hours
Ben: good luck!
Ana: haha, no idea
Ben: Who sets up the moth trap tonight, with the lamp and the white sheet?
Cleo: I can, it is warm and there is no moon, so there should be moths
Ana: yes please
Dora: see you tomorrow
Ben: bye
Ana: good night all
"""
"""Thirty messages, of which two ask for what no post knows."""


@pytest.fixture(scope="module")
def posts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Twelve posts of the example, with the local model, whose probabilities mean something."""
    root = tmp_path_factory.mktemp("evidence") / "workspace"
    (root / "posts").mkdir(parents=True)
    for name in POSTS:
        shutil.copy(EXAMPLES / f"{name}.md", root / "posts")
    (root / "backstory.yaml").write_text("documents: {folder: posts}\n", encoding="utf-8")
    with Library.open(root) as library:
        assert library.index().success
        yield library


def states_of(answer: ContextAnswer) -> list[str]:
    return [part.state for part in answer.parts]


def test_a_conversation_whose_documents_are_there_is_served(posts: Library) -> None:
    answer = posts.context(list(KNOWN))
    states = states_of(answer)
    assert answer.verdict in ("sufficient", "partial")
    assert set(states) <= {"served", "unsure"}
    assert states.count("served") > len(states) / 2


def test_what_separates_messages_changes_nothing_of_what_is_found(posts: Library) -> None:
    first = posts.context(list(SIX))
    assert len(first.documents) > 1
    said = [f"{author}: {text}" for author, text in zip(("Ana", "Ben") * 3, SIX, strict=True)]
    for text in (
        *("\n".join(SIX), "\r\n".join(SIX), "\n\n".join(SIX), json.dumps(SIX)),
        *("\n".join(f"{mark} {text}" for text in SIX) for mark in ("-", "*", "1.")),
        *("\n".join(said), "\n\n".join(f"- {line}" for line in said)),
    ):
        answer = posts.context(text)
        assert (answer.parts, answer.documents, answer.verdict) == (
            *(first.parts, first.documents, first.verdict),
        )


def test_small_talk_asks_for_nothing(posts: Library) -> None:
    for message in SMALL_TALK:
        answer = posts.context([message])
        assert (answer.verdict, states_of(answer), answer.documents) == ("nothing_asked", ["not_asked"], ())


def test_unrelated_documents_serve_no_part(posts: Library) -> None:
    answer = posts.context(list(FOREIGN))
    assert answer.verdict == "insufficient"
    assert set(states_of(answer)) <= {"unsure", "uncovered"}


def test_what_no_document_knows_is_not_found(posts: Library) -> None:
    answer = posts.context("What is the capital of Mongolia?")
    assert (answer.verdict, states_of(answer), answer.text) == ("insufficient", ["uncovered"], "")
    assert not [hit for hit in posts.search(answer.query).hits if hit.probability >= 0.5]


def test_exactly_what_nothing_serves_is_named_uncovered(posts: Library) -> None:
    answer = posts.context([KNOWN[0], KNOWN[1], FOREIGN[0], KNOWN[2], FOREIGN[1]])
    assert [part.text for part in answer.parts if part.state == "uncovered"] == list(FOREIGN)


def test_of_a_long_chat_nothing_that_a_cited_document_serves_is_named_uncovered(posts: Library) -> None:
    answer = posts.context(CHAT)
    states = states_of(answer)
    assert [part.text for part in answer.parts if part.state == "uncovered"] == list(FOREIGN)
    assert (answer.verdict, states.count("served")) == ("partial", len(states) - 3)
    assert answer.recommendation.startswith(f"{len(states) - 3} of {len(states)} parts served; ")
    assert "nothing in the index serves 2 parts" in answer.recommendation


def test_a_document_that_keywords_find_comes_first(posts: Library) -> None:
    answer = posts.context("Blight has got the allotment next to mine.")
    assert [document.uri for document in answer.documents][:1] in (
        ["tomato-blight-2024.md"],
        ["blight-watch-2025.md"],
    )


@pytest.mark.parametrize("messages", [KNOWN, FOREIGN, (*KNOWN, *FOREIGN)])
def test_documents_parts_and_verdict_say_the_same(posts: Library, messages: tuple[str, ...]) -> None:
    answer = posts.context(list(messages))
    by_part = {(part.part, citation) for part in answer.parts for citation in part.citations}
    by_document = {(part, document.citation) for document in answer.documents for part in document.serves}
    assert by_part == by_document
    for part in answer.parts:
        assert (part.state == "served") == bool(part.citations)
    assert (answer.verdict == "sufficient") <= bool(answer.documents)
    assert (answer.verdict == "insufficient") == (not by_part)
