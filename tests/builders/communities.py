"""A chat of some weeks whose people link to earlier documents, and whose links have something in common.

Each document of a day shares words with twelve messages. People link to those that share words of many messages. The
others share a phrase and the title with two of the messages each, which the prior without labels takes for more.
"""

import random
from datetime import date, timedelta

SETTINGS = """\
conversations: {folder: chats, date_order: dmy}
windows: {unit: day}
queries: {min_tokens: 0}
embedding: {provider: hashing}
rag: {top_k: 5}
"""
FIRST = date(2025, 3, 1)
DAYS = 20
"""Enough for a trial."""
MESSAGES = 12
LINKED = 3
_SYLLABLES = ("ka", "lo", "mi", "ru", "te", "vos", "dan", "pel", "gri", "sun", "bar", "nox")


def write_community(days: int, *, linking: bool = True, settings: str = SETTINGS) -> dict[str, str]:
    """Write the inputs of a community.

    Args:
        days: Number of days, each with a window.
        linking: Whether there is a post of each day that links to the earlier documents.
        settings: The settings file.
    """
    rng = random.Random(7)
    inputs = {"backstory.yaml": settings}
    lines = []
    for number in range(days):
        day = FIRST + timedelta(days=number)
        phrases = [(_make_word(rng), _make_word(rng)) for _ in range(MESSAGES)]
        words = [[_make_word(rng) for _ in range(LINKED)] for _ in range(MESSAGES)]
        for minute, (phrase, apart) in enumerate(zip(phrases, words, strict=True)):
            text = " ".join([*phrase, *(each for word in apart for each in (_make_word(rng), word))])
            lines.append(f"{day:%d/%m/%Y}, 09:{minute:02} - {('Ada Lind', 'Ben Okri')[minute % 2]}: {text}\n")
        for pair in range(0, MESSAGES, 2):
            (first, second), (third, fourth) = phrases[pair : pair + 2]
            inputs[f"posts/{day}-phrase-{pair}.md"] = _write_post(
                f"{first} {second}", day - timedelta(days=1), f"{first} {second} and {third} {fourth}"
            )
        for place in range(LINKED):
            shared = [word[place] for word in words]
            rng.shuffle(shared)
            inputs[f"posts/{day}-shared-{place}.md"] = _write_post(
                f"Notes {place} of {number}", day - timedelta(days=1), " ".join(shared)
            )
        if linking:
            links = " ".join(f"[notes]({day}-shared-{place}.md)" for place in range(LINKED))
            inputs[f"posts/{day}-digest.md"] = _write_post(f"Digest {number}", f"{day}T20:00:00Z", links)
    inputs["chats/garden.txt"] = "".join(lines)
    return inputs


def _make_word(rng: random.Random) -> str:
    return "".join(rng.choices(_SYLLABLES, k=4))


def _write_post(title: str, day: date | str, text: str) -> str:
    return f"---\ntitle: {title}\ndate: {day}\n---\n\n{text}\n"
