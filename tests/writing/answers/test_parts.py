"""The parts of a question."""

import pytest

from backstory.writing.answers.answer import Kind
from backstory.writing.answers.parts import split_question


@pytest.mark.parametrize(
    ("question", "kind", "parts"),
    [
        ("who baked the bread, and when did it rise?", "lookup",
         ("who baked the bread", "when did it rise (baked bread)")),
        ("hey, who baked the bread?", "lookup", ("hey, who baked the bread?",)),
        ("when is bread and butter served?", "lookup", ("when is bread and butter served?",)),
        ("tomatoes 2024 vs 2025, how many were lost?", "compare",
         ("tomatoes 2024 how many were lost", "tomatoes 2025 how many were lost")),
        ("compare the rail pass with separate tickets", "compare", ("the rail pass", "separate tickets")),
        ("how does the NAS compare with the cloud?", "compare", ("the NAS", "the cloud")),
        ("is the NAS cheaper than the cloud?", "compare", ("the NAS", "the cloud")),
        ("which is cheaper, the NAS or the cloud?", "compare",
         ("the NAS which is cheaper", "the cloud which is cheaper")),
        ("NAS or cloud, which is better?", "compare", ("NAS which is better", "cloud which is better")),
        ("what changed between the 2023 and the 2024 bread?", "compare", ("the 2023 bread", "the 2024 bread")),
        ("wie unterscheidet sich das NAS von der Cloud?", "compare", ("das NAS", "der Cloud")),
        ("en quoi le NAS diffère-t-il du cloud ?", "compare", ("le NAS", "cloud")),
        ("¿en qué se diferencia el NAS de la nube?", "compare", ("el NAS", "la nube")),
        ("in che cosa differisce il NAS dal cloud?", "compare", ("il NAS", "cloud")),
        ("em que difere o NAS da nuvem?", "compare", ("o NAS", "nuvem")),
        ("чем NAS отличается от облака?", "compare", ("NAS", "облака")),
        ("NAS ile bulutu karşılaştır", "compare", ("NAS", "bulutu")),
        ("wer backt brot und wann kommt die post?", "lookup", ("wer backt brot", "wann kommt die post")),
    ],
)  # fmt: skip
def test_each_thing_that_is_asked_is_a_part(question: str, kind: Kind, parts: tuple[str, ...]) -> None:
    assert split_question(question, kind, "english") == parts
