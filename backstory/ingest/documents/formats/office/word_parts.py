"""The text of a Word document that mammoth leaves out: formulas, and the results of fields."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STRICT: Final = "{http://purl.oclc.org/ooxml/wordprocessingml/main}"
_MATH: Final = (
    "{http://schemas.openxmlformats.org/officeDocument/2006/math}",
    "{http://purl.oclc.org/ooxml/officeDocument/math}",
)
_WRAPPERS: Final = ("fldSimple", "dir", "bdo")
"""Elements around runs of text whose content mammoth does not read."""

_BETWEEN: Final = {"f": "/", "sup": "^", "sub": "_", "lim": "_"}
_MARKS: Final = (b"oMath", b"fldSimple", b":bdo", b":dir")


def complete_part(content: bytes, root: Element) -> bytes:
    """Return a part of a document with its formulas as text, and what stands in fields as ordinary runs."""
    if not any(mark in content for mark in _MARKS):
        return content
    for element in list(root.iter()):
        namespace, _, name = str(element.tag).rpartition("}")
        if name in _WRAPPERS and f"{namespace}}}" in (_WORD, _STRICT):
            element.tag = f"{namespace}}}smartTag"
        for place, child in enumerate(element):
            if child.tag in [f"{math}{kind}" for math in _MATH for kind in ("oMath", "oMathPara")]:
                element[place] = _make_run(_write_formula(child), child.tail)
    written: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return written


def _make_run(text: str, tail: str | None) -> Element:
    run = Element(f"{_WORD}r")
    ET.SubElement(run, f"{_WORD}t", {"xml:space": "preserve"}).text = text
    run.tail = tail
    return run


def _write_formula(element: Element) -> str:
    """Write a formula on one line: fractions with a slash, exponents after ``^``, indices after ``_``."""
    name = str(element.tag).rpartition("}")[2]
    if name == "t":
        return element.text or ""
    if name.endswith("Pr"):
        return _write_operator(element)
    if name == "f":
        return "/".join(_group(_write_formula(part)) for part in element if not str(part.tag).endswith("Pr"))
    if name == "d":
        return f"({''.join(map(_write_formula, element))})"
    written = "".join(map(_write_formula, element))
    if name in ("sup", "sub", "lim"):
        return _BETWEEN[name] + _group(written) if written else ""
    return f"√{_group(written)}" if name == "rad" else written


def _write_operator(properties: Element) -> str:
    """Return the sign of a sum or an integral, which stands in its properties."""
    if not str(properties.tag).endswith("naryPr"):
        return ""
    signs = (value for part in properties if str(part.tag).endswith("}chr") for value in part.attrib.values())
    return next(signs, "∫")


def _group(text: str) -> str:
    return text if len(text) == 1 or text.isalnum() else f"({text})"
