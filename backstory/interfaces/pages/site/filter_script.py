"""The script of the index: it hides the posts that lack a word of the filter. Without it the page is whole."""

from __future__ import annotations

from typing import Final

FILTER_SCRIPT: Final = """\
const form = document.querySelector(".filter-box");
const field = form.querySelector("input");
const count = form.querySelector("output");
const entries = [...document.querySelectorAll(".entry")].map(node => [node, node.textContent.toLowerCase()]);
const show = () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let left = 0;
  for (const [node, text] of entries) {
    node.hidden = !words.every(word => text.includes(word));
    left += !node.hidden;
  }
  for (const month of document.querySelectorAll(".month")) {
    month.hidden = !month.querySelector(".entry:not([hidden])");
  }
  count.textContent = words.length ? `${left} of ${entries.length}` : "";
};
form.addEventListener("input", show);
form.addEventListener("submit", event => event.preventDefault());
form.hidden = false;
show();
"""
