"""The prompt of a model: a Jinja file with a block ``system`` and a block ``user``, filled in with escaped values."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backstory.base.errors import SettingsError
from backstory.base.ids import digest
from backstory.base.local_times import name_zone
from backstory.models.chat_model import Messages
from backstory.text.languages import name_language
from backstory.text.prompts.escaping import escape_block, escape_line
from backstory.writing.material import ContextMaterial, WindowMaterial

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

SHIPPED: Final = "post.md.j2"
"""Name of the shipped prompt."""

_VIEW_VERSION: Final = "3"
"""Changes when the same template and window give another prompt."""
_BLANK_LINES: Final = re.compile(r"\n{3,}")


@dataclass(frozen=True)
class Prompt:
    """A template.

    Attributes:
        name: Its file, for messages.
        source: Its content.
    """

    name: str
    source: str

    @property
    def hash(self) -> str:
        """Hash of its content."""
        return digest([_VIEW_VERSION, self.source], length=16)

    def require_valid(self) -> None:
        """Compile the template.

        Raises:
            SettingsError: It is not valid, or lacks the block ``user``.
        """
        if "user" not in self._template.blocks:
            raise SettingsError(
                f"{self.name}: there is no block `user`; write the material between {{% block user %}} and "
                "{% endblock %}, and the instructions in a block `system`",
                code="no_block",
            )

    def fill_in(self, window: WindowMaterial, context: ContextMaterial, *, max_characters: int) -> Messages:
        """Write what is sent to the model about one window.

        Args:
            window: The window.
            context: The documents that may be cited.
            max_characters: Most characters of the post.

        Raises:
            SettingsError: The template names something that does not exist, or does what the sandbox forbids.
        """
        return self.render(make_view(window, context) | {"max_characters": max_characters})

    def render(self, values: Mapping[str, Any]) -> Messages:
        """Write what is sent to the model.

        Args:
            values: What the template can name, with every foreign text escaped.

        Raises:
            SettingsError: The template names something that does not exist, or does what the sandbox forbids.
        """
        blocks = {name: self._render(name, values) for name in ("system", "user")}
        return Messages(**{name: _BLANK_LINES.sub("\n\n", text).strip() for name, text in blocks.items()})

    def _render(self, block: str, values: Mapping[str, Any]) -> str:
        from jinja2 import TemplateError

        template = self._template
        if block not in template.blocks:
            return ""
        try:
            return "".join(template.blocks[block](template.new_context(dict(values))))
        except (
            TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
            OverflowError,
        ) as error:
            raise SettingsError(
                f"{self.name}:{self._find_line(error)}: {error}; correct the prompt", code="invalid_prompt"
            ) from error

    @cached_property
    def _template(self) -> Template:
        from jinja2 import TemplateSyntaxError

        environment = _make_environment()
        try:
            code = environment.compile(self.source, name=self.name, filename=self.name)
        except TemplateSyntaxError as error:
            raise SettingsError(
                f"{self.name}:{error.lineno}: {error.message}; correct the prompt", code="invalid_prompt"
            ) from None
        return environment.template_class.from_code(environment, code, environment.make_globals(None))

    def _find_line(self, error: Exception) -> int:
        """Find the line of the template at which rendering failed; Jinja puts the code's lines in the traceback."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.name]
        template = self._template
        return template.get_corresponding_lineno(frames[-1].lineno or 1) if frames else 1


@cache
def load_shipped(name: str) -> Prompt:
    """Read a prompt that ships with Backstory, once."""
    shipped = files("backstory.writing").joinpath("prompts", name)
    return Prompt(name, shipped.read_text(encoding="utf-8"))


def load_prompt(path: Path | None) -> Prompt:
    """Read a prompt and check its syntax.

    Args:
        path: Its file; None for the shipped one.

    Raises:
        SettingsError: The file cannot be read, or is no valid template; the message names the line.
    """
    if path is None:
        return load_shipped(SHIPPED)
    try:
        prompt = Prompt(str(path), path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"writers.prompt: {path} cannot be read ({error.strerror}); `backstory prompt --shipped > {path}` writes "
            "the shipped one there",
            code="unreadable_file",
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"writers.prompt: {path} is not UTF-8 text; save it as UTF-8", code="not_utf8"
        ) from error
    prompt.require_valid()
    return prompt


def make_view(window: WindowMaterial, context: ContextMaterial) -> dict[str, Any]:
    """Return the values that a template can name, with every text escaped, so that none reads as structure."""
    return {
        "language_name": f"in {name_language(window.language)}" if window.language else None,
        "context_status": context.status,
        "window": {
            "id": window.window_id,
            "conversation": escape_line(window.name_people(window.conversation_id)).replace('"', "'"),
            "started_at": f"{window.started_at:%Y-%m-%d %H:%M}",
            "ended_at": f"{window.ended_at:%Y-%m-%d %H:%M}",
            "timezone": name_zone(window.started_at),
            "language": window.language,
            "grain": window.period.grain if window.period else "window",
            "earlier_topics": [escape_line(one.heading) for one in window.period.earlier]
            if window.period
            else [],
            "messages": [
                {
                    "sent_at": f"{message.sent_at:%Y-%m-%d %H:%M}",
                    "author": escape_line(window.name_people(message.author)) if message.author else None,
                    "text": escape_block(window.name_people(message.text)).replace(
                        "\n", "\n    "
                    ),  # no line begins like a message
                }
                for message in window.messages
            ],
        },
        "documents": [
            {
                "number": citation.number,
                "title": escape_line(citation.title),
                "date": f"{citation.published_at:%Y-%m-%d}" if citation.published_at else None,
                "tags": [escape_line(tag) for tag in citation.tags],
                "may_help": not citation.messages,
                "passage": escape_block(citation.passage),
            }
            for citation in context.citations
        ],
    }


def _make_environment() -> ImmutableSandboxedEnvironment:
    """Make an environment in which a template can read its values, and nothing else."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # Texts are escaped by `make_view`; HTML escapes would change what a model reads.
    return ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, autoescape=False, keep_trailing_newline=True
    )
