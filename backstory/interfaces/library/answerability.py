"""Judge whether retrieved text answers a question, by words, similarity and what is asked for, without a model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from backstory.base.errors import InputError
from backstory.index.calibration import find_threshold
from backstory.interfaces.library.results import Confidence, Evaluation, SearchAnswer
from backstory.models.embeddings.embed import embed_texts
from backstory.models.embeddings.hashing import HashingEmbedder
from backstory.pipeline.query_index import embed_queries
from backstory.pipeline.workspace import Workspace
from backstory.text.words import find_terms, list_content_words, terms_of
from backstory.writing.answers.answer_kinds import Finding, judge_answer

_MOST_WORDS: Final = 0.6
"""Share of the question's content words that a text on its subject holds."""
_FEW_WORDS: Final = 0.34
_NEAR: Final = 0.1
"""A cosine this close to the threshold is neither evidence nor its absence."""

_JUDGED: Final[Mapping[Finding | None, tuple[bool | None, str]]] = {
    None: (False, ""),
    "holds": (True, ""),
    "unclear": (None, "only a language model can tell whether the text holds what the question asks for"),
    "repeats": (False, "the text says nothing beyond the question"),
    "other": (False, "the text names none of the names, or not each number, of the question"),
    "lacks": (False, "the text holds nothing of the kind that the question asks for"),
}
"""Whether a text suffices, and what speaks against it, by what was found in it; None for one on another subject."""
_PASSAGE_CHARACTERS: Final = 1000
_PASSAGES: Final = 8
_BREAK: Final = re.compile(r"\n\s*\n")
_NAMED: Final = 8


def evaluate(
    workspace: Workspace, question: str, retrieved: str | Sequence[str] | SearchAnswer, *, stemmer: str
) -> Evaluation:
    """Judge whether text answers a question.

    A text on the subject of the question, by its words and by the embedder, suffices if it holds what an English
    question asks for, such as a date or a name, near its words. Where form does not tell, neither does this.
    """
    if not question.strip():
        raise InputError("the question is blank; give the one that the text should answer", code="blank_text")
    if isinstance(retrieved, SearchAnswer):
        retrieved = [f"{hit.title}\n{hit.heading}\n\n{hit.text}" for hit in retrieved.hits]
    texts = [text for text in ([retrieved] if isinstance(retrieved, str) else retrieved) if text.strip()]
    words = list_content_words(question, stemmer)
    held = find_terms(texts, stemmer)
    missing = tuple(word for word in words if not terms_of(word, stemmer) & held)
    overlap = 1 - len(missing) / len(words) if words else 0.0
    compares_words = workspace.embedder.id == HashingEmbedder.id
    similarity = _compare(workspace, question, texts, stemmer, only_content=compares_words) if texts else None
    threshold = find_threshold(workspace.settings.rag, workspace.embedder, workspace.calibration)
    distance = -1.0 if similarity is None else similarity - threshold
    is_close, is_far = distance >= 0, distance < -_NEAR
    # An embedder that compares words and not meaning cannot vouch for a text that shares none.
    is_alike = overlap > 0 or (not compares_words and (not words or distance >= _NEAR))
    is_on_subject = not is_far if overlap >= _MOST_WORDS else is_close and is_alike
    finding = judge_answer(question, texts, stemmer) if is_on_subject else None
    is_sufficient, against = _JUDGED[finding]
    is_clear = (overlap >= _MOST_WORDS and is_close) if is_sufficient else (overlap < _FEW_WORDS and is_far)
    confidence: Confidence = "low" if is_sufficient is None else "high" if is_clear else "medium"
    named = ", ".join(missing[:_NAMED])
    issues = [
        "" if texts else "there is no text",
        "" if words else "the question has no content word, so only similarity counts",
        f"no text contains: {named}" if texts and missing else "",
        f"no passage is similar enough to the question ({similarity:.2f}, threshold {threshold:.2f})"
        if similarity is not None and similarity < threshold
        else "",
        against,
    ]
    recommendations = {
        True: "answer from this text, and cite it",
        None: "read this text: answer only from a sentence that states the answer, and else search again",
        False: f"search again for {named or 'other words'}, and else say that the documents do not answer it",
    }
    return Evaluation(
        question=question,
        sufficient=is_sufficient,
        confidence=confidence,
        keyword_overlap=round(overlap, 4),
        similarity=None if similarity is None else round(similarity, 4),
        missing=missing,
        recommendation=recommendations[is_sufficient],
        issues=tuple(filter(None, issues)),
    )


def _compare(
    workspace: Workspace, question: str, texts: Sequence[str], stemmer: str, *, only_content: bool
) -> float:
    """Return the best cosine of the question and the passages that share most of its words."""
    wanted = find_terms([question], stemmer)
    parts = dict.fromkeys(
        part[start : start + _PASSAGE_CHARACTERS]
        for text in texts
        for part in _BREAK.split(text)
        for start in range(0, len(part), _PASSAGE_CHARACTERS)
    )
    passages = sorted(parts, key=lambda passage: -len(find_terms([passage], stemmer) & wanted))
    compared = [question, *passages[:_PASSAGES]]
    if only_content:
        compared = [" ".join(list_content_words(text, stemmer)) or text for text in compared]
    query = embed_queries(workspace, compared[:1]).vectors
    # Texts of callers need not belong to the library, so their vectors are not cached.
    found = embed_texts(workspace.embedder, compared[1:], task="document", cache=None).vectors
    return float((found @ query[0]).max())
