"""What is filled in on a page of a PDF form: a line for each field."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from typing import Final

import pypdfium2
from pypdfium2 import raw

_TEXTS: Final = (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX)
_BOXES: Final = (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON)
_MACHINE_NAME: Final = re.compile(r".*[\[\]#]|[a-z]{0,6}[ _-]?\d+", re.IGNORECASE)
"""Names that programs give to fields: ``form1[0].f1_1[0]``, ``Text 12``."""


def read_filled(page: pypdfium2.PdfPage) -> list[str]:
    """Return the filled fields of a page as ``name: value``, and the names of boxes that are ticked."""
    form = page.formenv
    return [] if form is None else list(filter(None, _read_fields(page, form)))


def _read_fields(page: pypdfium2.PdfPage, form: pypdfium2.PdfFormEnv) -> Iterator[str]:
    for place in range(raw.FPDFPage_GetAnnotCount(page.raw)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, place)
        try:
            kind = raw.FPDFAnnot_GetFormFieldType(form.raw, annotation)
            if kind in _TEXTS:
                value = " ".join(_read_text(raw.FPDFAnnot_GetFormFieldValue, form, annotation).split())
                name = _read_name(form, annotation)
                yield f"{name}: {value}" if name and value else value
            elif kind in _BOXES and raw.FPDFAnnot_IsChecked(form.raw, annotation):
                yield f"☑ {_read_name(form, annotation)}".strip()
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _read_name(form: pypdfium2.PdfFormEnv, annotation: object) -> str:
    """Return the name that people are shown, else the one that the program gave unless it says nothing."""
    shown = _read_text(raw.FPDFAnnot_GetFormFieldAlternateName, form, annotation)
    given = _read_text(raw.FPDFAnnot_GetFormFieldName, form, annotation)
    return shown or ("" if _MACHINE_NAME.fullmatch(given) else given)


def _read_text(read: Callable[..., int], form: pypdfium2.PdfFormEnv, annotation: object) -> str:
    size = read(form.raw, annotation, None, 0)
    buffer = (ctypes.c_ushort * (size // 2 + 1))()
    read(form.raw, annotation, buffer, size)
    return bytes(buffer)[:size].decode("utf-16-le", "replace").rstrip("\0").replace("\ufffd", "")
