"""Answers to claims of a labelled set, of which half have lost their evidence: what is cited, and what is refused.

``python -m benchmarks.answers ../shared/data/eval/scifact`` draws claims of one message, takes the documents that are
relevant to half of them out of the corpus, asks each claim of a workspace in a temporary folder, and prints one JSON
line. The claims without their documents are near misses: the other abstracts speak of the same substances.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from backstory.interfaces.library.evaluation import LabelledQuestion, score_answers
from backstory.interfaces.library.library import Library
from backstory.operations.evaluation import LabelledSet, read_labelled_set

WITH_EVIDENCE = "with evidence"
WITHOUT_EVIDENCE = "without evidence"


def choose_claims(
    labelled: LabelledSet, claims: int, documents: int, seed: int
) -> tuple[list[LabelledQuestion], pl.DataFrame]:
    """Choose claims with and without evidence, and the documents that are asked.

    Args:
        labelled: The set. Only windows of one message are claims.
        claims: Number of claims, half of them without evidence; fewer if the set has fewer.
        documents: Number of documents: those of the claims with evidence, and others that are relevant to no claim
            without it.
        seed: Another seed draws others.

    Returns:
        The claims, and the documents as ``document_id``, ``title`` and ``text``.
    """
    random = np.random.default_rng(seed)
    single = labelled.messages.group_by("conversation_id").agg(pl.len(), pl.col("text").first())
    texts = dict(
        single.filter(pl.col("len") == 1).sort("conversation_id").select("conversation_id", "text").rows()
    )
    relevant: dict[str, list[str]] = {window_id: [] for window_id in texts}
    for window_id, document_id in labelled.qrels.select("window_id", "doc_id").rows():
        if window_id in relevant:
            relevant[window_id].append(document_id)
    drawn = random.permutation(sorted(relevant)).tolist()
    without = drawn[: claims // 2]
    removed = {document_id for window_id in without for document_id in relevant[window_id]}
    with_evidence = [
        window_id for window_id in drawn[claims // 2 :] if removed.isdisjoint(relevant[window_id])
    ]
    with_evidence = with_evidence[: claims - claims // 2]
    kept = {document_id for window_id in with_evidence for document_id in relevant[window_id]}
    others = sorted(set(labelled.documents["document_id"]) - removed - kept)
    kept |= set(random.permutation(others)[: max(0, documents - len(kept))].tolist())
    questions = [
        *(
            LabelledQuestion(
                question=texts[each], group=WITH_EVIDENCE, answerable=True, documents=tuple(relevant[each])
            )
            for each in with_evidence
        ),
        *(
            LabelledQuestion(question=texts[each], group=WITHOUT_EVIDENCE, answerable=False)
            for each in without
        ),
    ]
    return questions, labelled.documents.filter(pl.col("document_id").is_in(kept)).select(
        "document_id", "title", "text"
    )


def write_workspace(root: Path, documents: pl.DataFrame, settings: str) -> None:
    """Write a workspace whose posts are the documents, each under its id."""
    (root / "posts").mkdir(parents=True)
    (root / "backstory.yaml").write_text(settings, encoding="utf-8")
    for document_id, title, text in documents.select("document_id", "title", "text").rows():
        (root / "posts" / f"{document_id}.md").write_text(f"# {title}\n\n{text}\n", encoding="utf-8")


def name_files(questions: Sequence[LabelledQuestion]) -> list[LabelledQuestion]:
    """Give the expected documents the paths that :func:`write_workspace` writes."""
    return [
        each.model_copy(update={"documents": tuple(f"{document_id}.md" for document_id in each.documents)})
        for each in questions
    ]


def main() -> None:
    """Measure, and print one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--claims", type=int, default=200)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--provider", default="local", choices=["local", "hashing"])
    options = parser.parse_args()
    labelled = read_labelled_set(options.folder)
    questions, documents = choose_claims(labelled, options.claims, options.documents, options.seed)
    with tempfile.TemporaryDirectory(prefix="backstory-answers-") as place:
        root = Path(place) / "workspace"
        write_workspace(root, documents, f"embedding: {{provider: {options.provider}}}\n")
        with Library.open(root) as library:
            library.index()
            asked = name_files(questions)
            given = [library.answer(one.question, history=one.history) for one in asked]
            scores = score_answers(asked, given)
    figures = {
        "set": labelled.name,
        "claims": len(questions),
        "documents": len(documents),
        **scores.as_record(),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
