"""A language model as a writer: fills the prompt in, asks, and reads the draft from the answer."""

from __future__ import annotations

from backstory.base.ids import digest
from backstory.models.chat_model import AnswerForm, ChatModel, Messages
from backstory.writing.draft import Draft, Writer
from backstory.writing.draft_answer import read_draft
from backstory.writing.material import ContextMaterial, WindowMaterial
from backstory.writing.prompt import Prompt


class ModelWriter:
    """Asks a model for each window, from any thread."""

    def __init__(self, model: ChatModel, form: AnswerForm, prompt: Prompt, *, max_characters: int) -> None:
        """Set the model and its prompt.

        Args:
            model: The model.
            form: The JSON that holds a post.
            prompt: The template of the prompt.
            max_characters: Most characters of a post, which the prompt can name.
        """
        self._model = model
        self._form = form
        self._prompt = prompt
        self._max_characters = max_characters
        self.id = f"{model.id}:o{form.max_output_tokens}"
        self.prompt_hash = prompt.hash

    @property
    def api_calls(self) -> int:
        """Requests sent so far, retries included."""
        return self._model.api_calls

    def write(self, window: WindowMaterial, context: ContextMaterial) -> Draft:
        """Write the draft of a post.

        Args:
            window: The messages to write about, at least one.
            context: The documents that may be cited.

        Returns:
            The draft. If the model refused, was blocked or cut, or wrote something else, it has no text and says why.

        Raises:
            ModelError: The service gave no answer, or refused the request.
            BudgetExhaustedError: The call would exceed a budget.
            SettingsError: The prompt cannot be filled in.
        """
        return read_draft(self._model.ask(self._fill_in(window, context), self._form))

    def hash_request(self, window: WindowMaterial, context: ContextMaterial) -> str:
        """Hash everything that decides the draft: model, parameters, and the whole prompt."""
        messages = self._fill_in(window, context)
        return digest([self.id, messages.system, messages.user])

    def _fill_in(self, window: WindowMaterial, context: ContextMaterial) -> Messages:
        return self._prompt.fill_in(window, context, max_characters=self._max_characters)


def count_requests(writer: Writer) -> int:
    """Return the requests that a writer has sent to a service so far; 0 for one that sends none, or does not say."""
    return writer.api_calls if isinstance(writer, ModelWriter) else 0
