"""The ten tools over documents as methods, to mix into the class of an agent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from pydantic import ValidationError, validate_call

from backstory.base.errors import BackstoryError, InputError
from backstory.interfaces.agents import document_answers
from backstory.interfaces.agents.failures import describe_failure, describe_faults
from backstory.interfaces.library.library import Library, ModelLibrary
from backstory.interfaces.library.results import Style
from backstory.interfaces.library.search import DocumentFilters
from backstory.retrieval.found import Result
from backstory.settings.writers import MAX_WORDS

_P = ParamSpec("_P")
_Self = TypeVar("_Self")


def _answering(
    method: Callable[Concatenate[_Self, _P], Result],
) -> Callable[Concatenate[_Self, _P], dict[str, Any]]:
    """Return the result of a method as a dictionary, and an error as one of the shape of all errors.

    Models often write a number as a text, which is taken for the number.
    """
    checked, names = validate_call(method), list(signature(method).parameters)

    @wraps(method)
    def answer(self: _Self, /, *arguments: _P.args, **options: _P.kwargs) -> dict[str, Any]:
        try:
            return checked(self, *arguments, **options).to_dict()
        except BackstoryError as error:
            return describe_failure(error).to_dict()
        except ValidationError as error:
            if error.title != method.__qualname__:  # no fault of the arguments
                raise
            hint = f"its arguments are: {', '.join(names[1:]) or 'none'}"
            return describe_faults(method.__name__, error, hint, names).to_dict()

    return answer


class DocumentTools:
    """Ten tools over the documents of a library.

    Every method returns a dictionary that JSON can hold. An error is a dictionary, too: ``status`` is ``error``, and
    ``code``, ``message`` and ``hint`` say what is wrong and what to do. New files are read, and texts written, in the
    folders of the workspace and in those of the setting ``agents.roots`` only. Documents are shown by the setting
    ``privacy.documents``, since a model reads the results.

    Attributes:
        library: The library, which the class that inherits must set.
    """

    library: Library

    @property
    def _shown(self) -> Library:
        """The library, for answers that go to a model."""
        return ModelLibrary(self.library)

    @_answering
    def query_documents(
        self,
        query: str,
        debug: bool = False,
        max_chunks: int | None = None,
        *,
        top_k: int | None = None,
        filters: DocumentFilters | None = None,
        as_of: datetime | None = None,
    ) -> Result:
        """Search all documents; ``debug`` adds what each search key found, ``max_chunks`` is ``top_k``."""
        return document_answers.query(
            self._shown, query, debug=debug, top_k=top_k, max_chunks=max_chunks, filters=filters, as_of=as_of
        )

    @_answering
    def query_specific_file(
        self,
        file_path: str,
        query: str,
        max_chunks: int | None = None,
        *,
        top_k: int | None = None,
        filters: DocumentFilters | None = None,
        as_of: datetime | None = None,
    ) -> Result:
        """Search one document, named by its path, title, slug or id; a part of a name is none."""
        return document_answers.query(
            self._shown,
            query,
            document=file_path,
            top_k=top_k,
            max_chunks=max_chunks,
            filters=filters,
            as_of=as_of,
        )

    @_answering
    def search_indexed_chunks(self, pattern: str, regex: bool = False, offset: int = 0) -> Result:
        """Find every place that a text or a regular expression matches, a hundred at a time."""
        return document_answers.search_pattern(self._shown, pattern, regex=regex, offset=offset)

    @_answering
    def evaluate_retrieval(self, question: str, retrieved_info: str) -> Result:
        """Judge without a language model whether a text answers a question."""
        return document_answers.judge_retrieval(self._shown, question, retrieved_info)

    @_answering
    def index_document(self, file_path: str | Path) -> Result:
        """Index one file; a file that has changed is indexed again."""
        return document_answers.index_file(self._shown, file_path)

    @_answering
    def index_directory(self, directory_path: str | Path, recursive: bool = False) -> Result:
        """Index the files of a folder."""
        return document_answers.index_folder(self._shown, directory_path, recursive=recursive)

    @_answering
    def list_indexed_documents(self) -> Result:
        """List the documents."""
        return document_answers.list_indexed(self._shown)

    @_answering
    def summarize_document(
        self, file_path: str, summary_type: Style = "detailed", max_words_per_section: int = MAX_WORDS
    ) -> Result:
        """Summarize a document: ``brief``, ``detailed`` or ``bullets``."""
        return document_answers.summarize(self._shown, file_path, summary_type, max_words_per_section)

    @_answering
    def dump_document(self, file_name: str, output_path: str | Path | None = None) -> Result:
        """Write the text of a document into a file that does not exist yet, or into the folder of dumped texts."""
        return document_answers.dump(self._shown, file_name, output_path)

    @_answering
    def rag_status(self) -> Result:
        """Describe the state of the index."""
        return document_answers.tell_status(self._shown)


def register_rag_tools(agent: Any, library: Library | None = None) -> None:
    """Register the ten tools with an agent.

    Args:
        agent: An agent that takes functions by its method ``tool_plain``, ``register_tool`` or ``add_tool``; any other
            object gets the tools as methods.
        library: The library; None for that of the agent.

    Raises:
        InputError: There is no library.
    """
    found = library or getattr(agent, "library", None)
    if not isinstance(found, Library):
        raise InputError("the agent has no library; pass one, such as Library.open()", code="no_library")
    tools = DocumentTools()
    tools.library = found
    register = next((getattr(agent, name) for name in _REGISTRARS if hasattr(agent, name)), None)
    for name in _NAMES:
        if register is None:
            setattr(agent, name, getattr(tools, name))
        else:
            register(getattr(tools, name))


_REGISTRARS: Final = ("tool_plain", "register_tool", "add_tool")
_NAMES: Final = tuple(name for name in vars(DocumentTools) if not name.startswith("_") and name != "library")
