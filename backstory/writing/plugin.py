"""A writer of the user's own: a class in one file of the workspace, or in an installed module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from backstory.base.errors import ModelError, SettingsError
from backstory.base.ids import digest
from backstory.writing.draft import Draft, Writer
from backstory.writing.material import ContextMaterial, WindowMaterial, hash_material

_METHODS: Final = ("id", "prompt_hash", "write")


@dataclass(frozen=True)
class CustomWriter:
    """A writer of the user's own, whose drafts are kept like those of a model.

    Attributes:
        writer: The object of the user's class.
        source_hash: Hash of its file, so that a change of the file writes the posts again; empty for a module.
    """

    writer: Writer
    source_hash: str

    @property
    def id(self) -> str:
        """Name and version, as the class states them."""
        return f"custom:{self.writer.id}"

    @property
    def prompt_hash(self) -> str:
        """Hash of the prompt that the class states, and of its file."""
        return digest([str(self.writer.prompt_hash), self.source_hash], length=16)

    def write(self, window: WindowMaterial, context: ContextMaterial) -> Draft:
        """Write the draft of a post.

        Args:
            window: The messages to write about, at least one.
            context: The documents that may be cited.

        Raises:
            ModelError: The model that the class asks failed.
            ModelError: The class returned something else than a draft.
        """
        draft = self.writer.write(window, context)
        if not isinstance(draft, Draft):
            raise ModelError(
                f"the writer {self.writer.id} returned {type(draft).__name__}; return a backstory.writing.draft.Draft",
                code="no_draft",
            )
        return draft

    def hash_request(self, window: WindowMaterial, context: ContextMaterial) -> str:
        """Hash everything that the class is given, and the class itself."""
        return digest([self.id, self.prompt_hash, hash_material(window, context)])


def load_plugin(name: str, root: Path) -> CustomWriter:
    """Make the writer that a setting names. Its code runs as the code of Backstory does, so it must be your own.

    Args:
        name: ``FILE.py:CLASS``, relative to the workspace, or ``MODULE:CLASS``.
        root: Folder of the workspace.

    Raises:
        SettingsError: There is no such file, module or class, or the class is no writer.
    """
    place, _, class_name = name.rpartition(":")
    if place.endswith(".py"):
        path = root / place
        if not path.is_file():
            raise SettingsError(f"writers.plugin: there is no file {path}", code="absent_file")
        module, source_hash = _load_file(path), digest([path.read_text(encoding="utf-8")], length=16)
    else:
        module, source_hash = _load_module(place), ""
    made = getattr(module, class_name, None)
    if not isinstance(made, type):
        raise SettingsError(f"writers.plugin: {place} holds no class {class_name}", code="unusable_plugin")
    writer = made()
    absent = [method for method in _METHODS if not hasattr(writer, method)]
    if absent:
        raise SettingsError(
            f"writers.plugin: {class_name} has no {' and no '.join(absent)}; a writer has id, prompt_hash and "
            "write(window, context), which returns a backstory.writing.draft.Draft",
            code="unusable_plugin",
        )
    return CustomWriter(writer, source_hash)


def _load_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"writers.plugin: {error}; install it with Backstory, or name a file such as writers/mine.py:MyWriter",
            code="absent_module",
        ) from error


class _SourceLoader(SourceFileLoader):
    """Compiles the file that is there.

    Python would take compiled code of a file with the same size and second, which may be of an earlier text.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _load_file(path: Path) -> ModuleType:
    name = f"backstory_plugin_{digest([str(path)], length=12)}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path)))
    if spec is None or spec.loader is None:
        raise SettingsError(f"writers.plugin: {path} cannot be loaded as Python", code="unusable_plugin")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise SettingsError(
            f"writers.plugin: {path}:{error.lineno}: {error.msg}", code="invalid_python"
        ) from error
    return module
