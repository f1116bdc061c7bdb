# SPDX-License-Identifier: Apache-2.0
"""Public names, and where the site documents them."""

import re
from dataclasses import dataclass

NAME = re.compile(r"~?[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)*(?:\[\])?")


@dataclass(frozen=True)
class Symbol:
    qualified: str
    kind: str
    url: str  # from the root of the site, with the anchor
    brief: str
    is_member: bool


class Symbols:
    """Finds names as comments and pages spell them: within a scope, or by their last parts."""

    def __init__(self) -> None:
        self.by_name: dict[str, Symbol] = {}
        self.by_last_part: dict[str, list[Symbol]] = {}
        self.namespaces: set[str] = set()
        self.bases: dict[str, list[str]] = {}  # the names of base classes, as they are spelt
        self.aliases: dict[str, str] = {}  # the types that names stand for

    def add(self, symbol: Symbol) -> None:
        if symbol.qualified in self.by_name:
            return
        self.by_name[symbol.qualified] = symbol
        if not symbol.is_member:
            self.namespaces.add(symbol.qualified.rpartition("::")[0])
        last = symbol.qualified.rsplit("::", 1)[-1]
        self.by_last_part.setdefault(last, []).append(symbol)

    def member(self, scope: str, name: str, depth: int = 0) -> Symbol | None:
        """The member `name`, which may be qualified, of a namespace, a class or one of its bases."""
        if symbol := self.by_name.get(f"{scope}::{name}"):
            return symbol
        first, _, rest = name.partition("::")
        if rest and (f"{scope}::{first}" in self.by_name or f"{scope}::{first}" in self.namespaces):
            return self.member(f"{scope}::{first}", rest, depth)
        if depth > 6:
            return None
        outer = scope.rpartition("::")[0]
        for base in [*self.bases.get(scope, []), self.aliases.get(scope, "")]:
            spelt = plain(base) if base else None
            if not spelt:
                continue
            found = self.by_name.get(spelt) or self.class_in(outer, spelt)
            if found is None or found.qualified == scope:
                continue
            if symbol := self.member(found.qualified, name, depth + 1):
                return symbol
        return None

    def class_in(self, scope: str, name: str) -> Symbol | None:
        """The class of this name in a scope or one around it."""
        name = name.removeprefix("gyre::") if scope.startswith("gyre") else name
        while scope:
            if symbol := self.by_name.get(f"{scope}::{name}"):
                return symbol
            scope = scope.rpartition("::")[0]
        return None

    def find(self, text: str, scope: str = "gyre") -> Symbol | None:
        """The symbol that `text` means in `scope`; none if there are several.

        `text` may have arguments of templates and functions: `channel<T>::send(value)`.
        """
        name = plain(text)
        if name is None or name.startswith("std::"):
            return None
        name = name.removeprefix("gyre::")
        parts = scope.split("::")
        for length in range(len(parts), 0, -1):
            outer = "::".join(parts[:length])
            if symbol := self.member(outer, name):
                return symbol
        candidates = [
            symbol
            for symbol in self.by_last_part.get(name.rsplit("::", 1)[-1], [])
            if symbol.qualified.endswith(f"::{name}")
        ]
        if "::" not in name:
            candidates = [symbol for symbol in candidates if not symbol.is_member]
        return candidates[0] if len(candidates) == 1 else None


def plain(text: str) -> str | None:
    """The name without arguments and parentheses; None if there is more than a name."""
    text = text.strip()
    text = re.sub(r"\((?:[^()]|\([^()]*\))*\)$", "", text)
    while "<" in text and ">" in text:
        shorter = re.sub(r"<[^<>]*>", "", text)
        if shorter == text:
            break
        text = shorter
    return text if NAME.fullmatch(text) else None
