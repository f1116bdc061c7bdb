# SPDX-License-Identifier: Apache-2.0
"""Default values of C++ as a reader says them: `std::size_t{8} << 10` is 8 KiB, or 8192."""

import ast
import operator
import re
from collections.abc import Callable

OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
UNITS = {
    "nanoseconds": "ns", "microseconds": "µs", "milliseconds": "ms", "seconds": "s",
    "minutes": "min", "hours": "h", "days": "days", "ns": "ns", "us": "µs", "ms": "ms", "s": "s",
    "min": "min", "h": "h",
}  # fmt: skip
DURATION = re.compile(r"(?:std::)?(?:chrono::)?(\w+)\s*[{(]\s*([\w'.]+)\s*[})]")
LITERAL = re.compile(r"([\d']+)(ns|us|ms|s|min|h)")
LARGEST = re.compile(r"(unlimited|std::numeric_limits<[^<>]*>::max\(\)|duration::max\(\)|SIZE_MAX)")
BINARY = ["", " KiB", " MiB", " GiB", " TiB"]


def integer(expression: str) -> int | None:
    """The value of an expression of integers, such as `std::size_t{24} << 10`; None of others."""
    text = re.sub(r"static_cast<[^<>]*>\(([^()]*)\)", r"(\1)", expression)
    text = re.sub(r"\b(?:std::)?u?(?:int\w*|size)_t\s*[{(]([^{}()]*)[})]", r"(\1)", text)
    text = re.sub(r"\b(?:unsigned|int|long)\s*[{(]([^{}()]*)[})]", r"(\1)", text)
    text = re.sub(r"(?<=\d)'(?=\d)", "", text)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlLzZ]+\b", r"\1", text).replace("/", "//")
    try:
        return _evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _evaluated(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    raise ValueError


def spoken(initializer: str, type_: str, meaning: str = "") -> str | None:
    """The default as text; None where only the code itself says it.

    `meaning` is the option's comment: a number of bytes gets a binary unit.
    """
    text = initializer.strip().removeprefix("=").strip()
    if text.startswith("{") and text.endswith("}") and text != "{}" and not text.startswith("{."):
        text = text[1:-1].strip()
    if text in ("", "{}"):
        return _empty(type_)
    if LARGEST.fullmatch(text.split("::", 1)[-1]) or LARGEST.fullmatch(text):
        return "unlimited"
    if text in ("std::nullopt", "nullopt"):
        return "unset"
    if text == "nullptr":
        return "none"
    if re.fullmatch(r"(gyre::)?duration::zero\(\)", text):
        return "0"
    if (match := DURATION.fullmatch(text)) and match[1] in UNITS and "chrono" in text:
        return f"{match[2].replace(chr(39), '')} {UNITS[match[1]]}"
    if match := LITERAL.fullmatch(text):
        return f"{match[1].replace(chr(39), '')} {UNITS[match[2]]}"
    value = integer(text)
    if value is None:
        return None
    if "byte" in meaning and value >= 1024 and value % 1024 == 0:
        return binary(value)
    return f"{value:,}" if abs(value) >= 10_000 else str(value)


def binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(BINARY) - 1:
        value //= 1024
        power += 1
    return f"{value}{BINARY[power]}"


def _empty(type_: str) -> str | None:
    if "duration" in type_:
        return "0"
    if re.search(r"function|shared_ptr|unique_ptr", type_):
        return "none"
    if "optional" in type_:
        return "unset"
    if re.search(r"std::(string|vector|map|array|span|string_view|set)\b", type_):
        return "empty"
    if re.search(r"\b(int|unsigned|size_t|u?int\d+_t)\b", type_):
        return "0"
    return None


def designated(initializer: str) -> dict[str, str]:
    """The members that `{.name = "x", .port = 1}` sets, by name; nested braces stay together."""
    text = initializer.strip().removeprefix("=").strip()
    match = re.fullmatch(r"[\w:]*\s*\{(.*)\}", text, re.DOTALL)
    if match is None:
        return {}
    parts: list[str] = []
    depth = 0
    current = ""
    in_text = False
    for character in match[1]:
        in_text ^= character == '"'
        depth += (character in "{([") - (character in "})]")
        if character == "," and depth == 0 and not in_text:
            parts.append(current)
            current = ""
        else:
            current += character
    result = {}
    for part in [*parts, current]:
        if member := re.fullmatch(r"\s*\.(\w+)\s*(=\s*.*|\{.*\})\s*", part, re.DOTALL):
            result[member[1]] = member[2]
    return result
