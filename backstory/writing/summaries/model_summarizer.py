"""A language model as a summarizer: one call for each section, and none for what it has answered before."""

from __future__ import annotations

from collections.abc import Sequence

from backstory.base.ids import digest
from backstory.models.chat_model import (
    Answer,
    AnswerForm,
    ChatModel,
    Messages,
    UnusableAnswerError,
    ask_until_usable,
)
from backstory.writing.draft import Draft
from backstory.writing.draft_cache import DraftCache
from backstory.writing.summaries.prompt import (
    drop_wrong_pages,
    read_summary,
    write_combining_prompt,
    write_section_prompt,
)
from backstory.writing.summaries.request import SectionRequest, Source, Style, UnwrittenError


class ModelSummarizer:
    """Asks a model, from any thread, and keeps its answers with the drafts of the workspace."""

    def __init__(self, model: ChatModel, form: AnswerForm, drafts: DraftCache, *, threads: int) -> None:
        """Set the model.

        Args:
            model: Answers the prompts.
            form: The JSON that holds a summary.
            drafts: Keeps the answers by the hash of the request.
            threads: Most calls at once.
        """
        self.combines = True
        self._model = model
        self._form = form
        self._drafts = drafts
        self.id = f"{model.id}:o{form.max_output_tokens}"
        self.threads = threads

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""
        return self._model.api_calls

    def summarize(self, request: SectionRequest) -> str:
        """Summarize a section; see :class:`backstory.writing.summaries.request.Summarizer`.

        Raises:
            UnwrittenError: The model refused, was blocked or cut, or wrote something else twice.
            ModelError: The service gave no answer, or refused the request.
            BudgetExhaustedError: The call would exceed a budget.
        """
        return drop_wrong_pages(
            self._ask(write_section_prompt(request), request.source.revision), request.section.pages
        )

    def combine(self, source: Source, style: Style, summaries: Sequence[str], most_words: int) -> str:
        """Make one summary of those of all sections; raises as :meth:`summarize` does."""
        messages = write_combining_prompt(source, style, summaries, most_words)
        whole = (1, len(source.pages.starts)) if source.pages.starts else None
        return drop_wrong_pages(self._ask(messages, source.revision), whole)

    def _ask(self, messages: Messages, revision: str) -> str:
        request = digest([self.id, messages.system, messages.user])
        if made := self._drafts.get(request):
            return made.text

        def read(answer: Answer) -> Draft:
            return Draft("", read_summary(answer), (), answer.model, answer.tokens_in, answer.tokens_out)

        try:
            draft = ask_until_usable(self._model.ask, messages, self._form, read)
        except UnusableAnswerError as error:
            raise UnwrittenError(str(error)) from None
        self._drafts.put(request, revision, draft)
        return draft.text
