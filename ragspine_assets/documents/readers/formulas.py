"""Office formulas as one line of text (SPEC 1.12)."""

from __future__ import annotations

from .package import MATH, WORD, Element

_PROPERTIES = "Pr"


def linear(formula: Element) -> str:
    """Return an OMML formula in the linear notation people type: ``a/b``, ``x^2``, ``√(x+1)``."""
    return "".join(_parts(formula))


def _parts(element: Element) -> list[str]:
    return [_one(child) for child in element if isinstance(child.tag, str)]


def _child(element: Element, name: str) -> str:
    found = element.find(f"{MATH}{name}")
    return linear(found) if found is not None else ""


def _property(element: Element, name: str, default: str) -> str:
    properties = element.find(f"{element.tag}{_PROPERTIES}")
    found = properties.find(f"{MATH}{name}") if properties is not None else None
    return default if found is None else found.get(f"{MATH}val", "")


def _grouped(text: str) -> str:
    """One operand, in parentheses where it is more than one thing."""
    return (
        text if len(text) < 2 or text.isalnum() or (text[0] == "(" and text.find(")") == len(text) - 1) else f"({text})"
    )


def _one(element: Element) -> str:
    namespace, _, name = element.tag.rpartition("}")
    if namespace != MATH[:-1]:
        if element.tag in {f"{WORD}ins", f"{WORD}moveTo"}:
            return linear(element)
        return (element.text or "") if element.tag == f"{WORD}t" else ""
    if name == "t":
        return element.text or ""
    if name.endswith(_PROPERTIES):
        return ""
    if name == "f":
        above, below = _child(element, "num"), _child(element, "den")
        if _property(element, "type", "bar") == "noBar":
            return f"{_grouped(above)}¦{_grouped(below)}"
        return f"{_grouped(above)}/{_grouped(below)}"
    if name in {"sSup", "sSub", "sSubSup", "sPre"}:
        below, above = _child(element, "sub"), _child(element, "sup")
        marks = (f"_{_grouped(below)}" if below else "") + (f"^{_grouped(above)}" if above else "")
        base = _child(element, "e")
        return f"{marks}{base}" if name == "sPre" else f"{base}{marks}"
    if name == "rad":
        degree = _child(element, "deg")
        sign = {"": "√", "2": "√", "3": "∛", "4": "∜"}.get(degree)
        return f"{sign or f'√[{degree}]'}{_grouped(_child(element, 'e'))}"
    if name == "nary":
        below, above = _child(element, "sub"), _child(element, "sup")
        marks = (f"_{_grouped(below)}" if below else "") + (f"^{_grouped(above)}" if above else "")
        return f"{_property(element, 'chr', '∫')}{marks} {_child(element, 'e')}"
    if name == "d":
        separator = _property(element, "sepChr", "|")
        inner = separator.join(linear(part) for part in element.findall(f"{MATH}e"))
        return f"{_property(element, 'begChr', '(')}{inner}{_property(element, 'endChr', ')')}"
    if name == "m":
        rows = (", ".join(linear(part) for part in row.findall(f"{MATH}e")) for row in element.findall(f"{MATH}mr"))
        return f"[{'; '.join(rows)}]"
    if name == "eqArr":
        return "; ".join(linear(part) for part in element.findall(f"{MATH}e"))
    if name == "acc":
        return f"{_child(element, 'e')}{_property(element, 'chr', chr(0x302))}"
    if name in {"limLow", "limUpp"}:
        return f"{_child(element, 'e')}{'_' if name == 'limLow' else '^'}{_grouped(_child(element, 'lim'))}"
    if name == "func":
        argument = _child(element, "e")
        return f"{_child(element, 'fName')}{'' if argument[:1] in '([{' else ' '}{argument}"
    return linear(element)
