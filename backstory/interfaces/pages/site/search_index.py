"""The index of a site's search: a page holds it together with the script that asks it, so that no server is needed.

The index tells which posts hold which words. It is a part of its page, and no file of its own, because browsers refuse
a page from the disk to fetch other files.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup

from backstory.interfaces.pages.report.page import drop_controls
from backstory.interfaces.pages.site.addresses import SEARCH, address_post, link_pages
from backstory.interfaces.pages.site.library import SitePost

_WORD: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)
"""A word. Each letter of a script that writes no blanks counts as one."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def make_search_index(posts: Sequence[SitePost]) -> Markup:
    """Make the index of some posts.

    Args:
        posts: Posts, the first of which are listed first where they answer a question equally well.

    Returns:
        JSON that may stand in HTML. ``posts`` has title, date, address and topics of each post. ``words`` has, for each
        word, the posts that hold it as differences of their positions to base 36; ``!`` marks those whose title,
        topics or tags hold it.
    """
    places: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for place, post in enumerate(posts):
        named = set(list_words([post.title, *post.topics, *post.tags]))
        for word in named.union(list_words([post.text, post.window.conversation_id])):
            places[word].append((place, word in named))
    index = {
        "posts": [
            [
                post.title,
                f"{post.window.started_at.day} {post.window.started_at:%B %Y}",
                link_pages(SEARCH, address_post(post.slug)),
                ", ".join(post.topics),
            ]
            for post in posts
        ],
        "words": {word: _encode(found) for word, found in sorted(places.items())},
    }
    written = drop_controls(json.dumps(index, ensure_ascii=False, separators=(",", ":")))
    # No text of a post can end the element that holds the index.
    return Markup(written.replace("<", "\\u003c"))  # noqa: S704


def list_words(texts: Iterable[str]) -> list[str]:
    """List the words of texts in small letters without accents, as the script does for a question."""
    return [word for text in texts for word in _WORD.findall(_fold(text))]


def _fold(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.lower())
    return "".join(letter for letter in decomposed if not unicodedata.category(letter).startswith("M"))


def _encode(found: Sequence[tuple[int, bool]]) -> str:
    before = 0
    written = []
    for place, is_named in found:
        written.append(_write_number(place - before) + "!" * is_named)
        before = place
    return " ".join(written)


def _write_number(number: int) -> str:
    digits = ""
    while number >= len(_DIGITS):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return _DIGITS[number] + digits


SEARCH_SCRIPT: Final = """\
const {posts, words} = JSON.parse(document.getElementById("search-index").textContent);
const vocabulary = Object.keys(words);
const form = document.querySelector(".search-box");
const field = form.querySelector("input");
const count = form.querySelector("output");
const list = document.querySelector(".results");
const most = 50;
const split = text => text.toLowerCase().normalize("NFKD").replace(/\\p{M}/gu, "").match(
  /[\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff]|(?:(?![\\u3040-\\u30ff\\u3400-\\u9fff\\uf900-\\ufaff])[\\p{L}\\p{N}])+/gu
) ?? [];
const score = begin => {
  const scores = new Map();
  for (const word of vocabulary) {
    if (!word.startsWith(begin)) continue;
    const places = words[word].split(" ");
    const weight = Math.log(1 + posts.length / places.length) * (word === begin ? 2 : 1);
    let place = 0;
    for (const written of places) {
      const named = written.endsWith("!");
      place += parseInt(named ? written.slice(0, -1) : written, 36);
      scores.set(place, Math.max(scores.get(place) ?? 0, weight * (named ? 3 : 1)));
    }
  }
  return scores;
};
const add = (parent, name, text, values = {}) => {
  const element = Object.assign(document.createElement(name), values);
  element.textContent = text;
  parent.append(element);
  return element;
};
const show = () => {
  const asked = split(field.value).map(score);
  const found = asked.length
    ? [...asked[0].keys()].filter(place => asked.every(scores => scores.has(place)))
    : [];
  const total = place => asked.reduce((sum, scores) => sum + scores.get(place), 0);
  found.sort((one, other) => total(other) - total(one) || one - other);
  list.replaceChildren();
  for (const place of found.slice(0, most)) {
    const [title, date, address, topics] = posts[place];
    const entry = add(list, "li", "");
    add(entry, "a", title, {className: "title", href: address});
    add(entry, "span", ` ${date}`, {className: "about"});
    add(entry, "p", topics, {className: "topics"});
  }
  const shown = found.length > most ? `, of which ${most} are shown` : "";
  count.textContent = asked.length ? `${found.length} of ${posts.length} posts${shown}` : "";
};
const read = () => {
  field.value = new URLSearchParams(location.hash.slice(1)).get("q") ?? "";
  show();
};
form.addEventListener("input", show);
form.addEventListener("submit", event => event.preventDefault());
window.addEventListener("hashchange", read);
form.hidden = false;
read();
field.focus();
"""
"""The script of the page of the search."""

ASK_SCRIPT: Final = """\
const form = document.querySelector(".search-box");
form.addEventListener("submit", event => {
  event.preventDefault();
  location.href = `search.html#${new URLSearchParams({q: form.querySelector("input").value})}`;
});
form.hidden = false;
"""
"""The script of the first page, which hands a question on to the page of the search."""
