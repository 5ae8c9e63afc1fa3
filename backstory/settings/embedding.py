"""Settings of the embedder: the model, the service behind it, and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from backstory.base.addresses import OPENAI_ADDRESS, is_openai
from backstory.base.environment import EMBEDDING_KEY_VARIABLE
from backstory.base.errors import SettingsError
from backstory.settings.groups import ServiceSettings

LOCAL_MODELS: Final = MappingProxyType(
    {"english": "granite-embedding-30m-english, the default", "multilingual": "multilingual-e5-small"}
)
"""The models that `provider: local` knows by name, and what they are."""

# The free tier of Gemini; most servers with the API of OpenAI have no quota.
_TEXTS_PER_MINUTE: Final = MappingProxyType({"gemini": 100, "openai": 50_000})
_TOKENS_PER_MINUTE: Final = MappingProxyType({"gemini": 30_000, "openai": 1_000_000})

_GEMINI_LARGEST: Final = 3072
# Most models that people serve themselves read 512 tokens, and many services cut a longer text without a word.
_OPENAI_TOKENS: Final = 8191
_COMMON_TOKENS: Final = 512


class EmbeddingSettings(ServiceSettings):
    """Which model turns text into vectors, and its limits."""

    default_models: ClassVar[Mapping[str, str]] = MappingProxyType({"gemini": "gemini-embedding-001"})
    example_model: ClassVar[str] = "text-embedding-3-small"
    key_variable: ClassVar[str] = EMBEDDING_KEY_VARIABLE
    default_seconds: ClassVar[float] = 60.0

    provider: Literal["local", "gemini", "openai", "hashing"] = "local"
    """`local`: no key, no network; `gemini`: needs a key; `openai`, or a name of `services`; `hashing`: dry runs."""
    model: str | None = None
    """`local`: `english` (null) or `multilingual`; `gemini`: null for gemini-embedding-001; `openai` needs a name."""
    model_dir: str | None = None
    """Folder of `model.onnx` (or `onnx/model.onnx`) and `tokenizer.json` for `local`, relative to the workspace."""
    languages: tuple[str, ...] | None = None
    """Languages that the model knows, such as `[en, de]`; null: those of the `local` models, else all."""
    runtime: Literal["onnxruntime", "cuda"] = "onnxruntime"
    """What runs the `local` model: the processor, or with `cuda` an NVIDIA GPU (reference/install.md)."""
    precision: Literal["float32", "int8"] = "float32"
    """Numbers that the shipped model computes with; `int8` is faster and less exact (docs/studies/int8.md)."""
    dimension: int | None = Field(default=None, ge=8, le=8192)
    """Width of the vectors; null: 768 for `gemini`; for `openai` that of the model, for which each process asks."""
    query_prefix: str = ""
    """Text that a model of `openai` or of `model_dir` expects before a query, such as `"query: "`."""
    document_prefix: str = ""
    """Text that a model of `openai` or of `model_dir` expects before a document, such as `"passage: "`."""
    max_input_tokens: int | None = Field(default=None, ge=16)
    """Most tokens that a model of `openai` or of `model_dir` reads of a text; null: 8191 at OpenAI itself, else 512."""
    threads: int = Field(default=4, ge=1)
    """Most calls of a service at once."""

    @property
    def input_limit(self) -> int:
        """Most tokens that a model behind OpenAI's API, or of the user's own, reads of a text."""
        is_theirs = self.provider == "openai" and is_openai(self.base_url or OPENAI_ADDRESS)
        return self.max_input_tokens or (_OPENAI_TOKENS if is_theirs else _COMMON_TOKENS)

    @property
    def per_minute(self) -> tuple[int, int]:
        """Most texts, and most tokens that are sent per minute."""
        return (
            self.texts_per_minute or _TEXTS_PER_MINUTE[self.provider],
            self.tokens_per_minute or _TOKENS_PER_MINUTE[self.provider],
        )

    @field_validator("languages")
    @classmethod
    def _known_languages(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        from backstory.base.wording import LANGUAGE_NAMES

        unknown = [code for code in value or () if code not in LANGUAGE_NAMES]
        if unknown or value == ():
            raise SettingsError(
                f"{', '.join(map(repr, unknown)) or 'an empty list'} names no language; write two-letter codes "
                "such as [en, de] (ISO 639-1), or null for a model that is not limited",
                code="unknown_language",
            )
        return value

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        if self.provider == "local" and self.model is not None:
            if self.model_dir is not None:
                raise SettingsError(
                    f"model: {self.model} and model_dir name two models; remove one of them",
                    code="two_models",
                )
            if self.model not in LOCAL_MODELS:
                known = ", ".join(f"{name} ({what})" for name, what in LOCAL_MODELS.items())
                raise SettingsError(
                    f"provider: local knows no model {self.model!r}; write one of {known}, or model_dir for a model "
                    "of your own; models of a service need provider: gemini or openai",
                    code="unknown_model",
                )
        is_shipped = self.provider == "local" and self.model_dir is None and self.model in (None, "english")
        if self.precision == "int8" and not (is_shipped and self.runtime == "onnxruntime"):
            raise SettingsError(
                "precision: int8 needs the shipped model (provider: local without model and model_dir) and "
                "runtime: onnxruntime; remove it, or write precision: float32",
                code="unusable_precision",
            )
        if self.provider == "gemini" and (self.dimension or 0) > _GEMINI_LARGEST:
            raise SettingsError(
                f"dimension {self.dimension} is above {_GEMINI_LARGEST}, the widest of gemini",
                code="out_of_range",
            )
        return self
