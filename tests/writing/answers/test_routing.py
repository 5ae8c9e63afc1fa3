"""The class of a question, told by patterns."""

import json
from pathlib import Path

import pytest

from backstory.writing.answers.routing import route_question

LABELS = Path(__file__).parents[2] / "data" / "answers"


def read_labels(half: str) -> list[dict[str, str]]:
    lines = (LABELS / f"routing_{half}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(("half", "least"), [("tune", 0.971), ("held", 0.973)])
def test_labelled_questions_get_their_class(half: str, least: float) -> None:
    labels = read_labels(half)
    right = sum(route_question(label["question"]).kind == label["kind"] for label in labels)
    assert right / len(labels) >= least, f"{right} of {len(labels)}"


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("ok see you", "casual"),
        ("👍", "casual"),
        ("thanks what about the roof", "lookup"),
        ("what about the second one", "lookup"),
        ("list price of the pump", "lookup"),
        ("the all-time high of the tank", "lookup"),
        ("what was the weather like at the street party in 2022", "lookup"),
        ("posts about bread from 2024", "list"),
        ("which is better, pass or tickets", "compare"),
        ("summarise the year in review for me", "summarize"),
        ("17*23", "outside"),
        ("ok and how long did it take?", "lookup"),
        ("lol that made my day", "casual"),
        ("who wrote the summary for the board", "lookup"),
        ("how many leaves fall in a week", "lookup"),
    ],
)
def test_talk_and_nouns_do_not_decide(question: str, kind: str) -> None:
    assert route_question(question).kind == kind


@pytest.mark.parametrize(
    ("in_a_place", "of_the_library"),
    [
        ("how many photos were on the phones?", "how many photos do we have of the pond?"),
        ("how many photos are on the card", "how many photos are there"),
        ("how many letters were in the box", "how many letters are in the archive"),
        ("how many messages were there on her phone", "how many posts are on bread"),
        ("how many notes were left under the door", "how many emails were sent last week"),
        ("how many files were on the disk that clicked", "how many files were in the garden folder"),
        ("how many reports were in the drawer", "how many reports were in the last year"),
        ("wie viele Fotos waren auf den Handys?", "wie viele Fotos haben wir vom Teich?"),
        ("wie viele briefe lagen im kasten", "wie viele briefe sind im archiv"),
        ("combien de photos y avait-il sur les téléphones ?", "combien de photos avons-nous du jardin ?"),
        ("¿cuántas fotos había en los móviles?", "cuantos documentos habia en la carpeta"),
        ("quante foto c'erano sui telefoni?", "quante foto abbiamo dell'orto?"),
        ("quantas fotos havia nos celulares?", "quantas fotos temos da horta?"),
        ("сколько писем было в коробке?", "сколько писем было в архиве?"),
        ("telefonlarda kaç fotoğraf vardı?", "bahçeyle ilgili kaç fotoğraf var?"),
    ],
)
def test_a_number_of_things_in_a_place_is_no_list(in_a_place: str, of_the_library: str) -> None:
    assert (route_question(in_a_place).kind, route_question(of_the_library).kind) == ("lookup", "list")


def test_the_reason_names_the_words_that_decided() -> None:
    assert "tell me a joke" in route_question("Hey! Tell me a joke").reason
