# SPDX-License-Identifier: Apache-2.0
"""Checked access to a TOML table; every message names the file, the key and the allowed values."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gyrelab.errors import UsageProblem, did_you_mean

_MISSING: Any = object()


class Table:
    """One table of a TOML file. `done()` refuses keys that were never read."""

    def __init__(self, values: dict[str, Any], file: str, prefix: str = "") -> None:
        self._values, self._file, self._prefix = values, file, prefix
        self._read: set[str] = set()

    @classmethod
    def load(cls, path: Path, shown: str) -> "Table":
        """The whole file as a table."""
        try:
            return cls(tomllib.loads(path.read_text(encoding="utf-8")), shown)
        except tomllib.TOMLDecodeError as error:
            raise UsageProblem(f"{shown}: not TOML: {error}") from error
        except OSError as error:
            raise UsageProblem(f"{shown}: {error.strerror}") from error

    @property
    def raw(self) -> dict[str, Any]:
        """The table as Python values."""
        return self._values

    def wrong(self, key: str, problem: str) -> UsageProblem:
        """The error to raise about `key`."""
        return UsageProblem(f"{self._file}: {self._prefix}{key}: {problem}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def keys(self) -> list[str]:
        """The keys in the file's order."""
        return list(self._values)

    def _get(self, key: str, kind: type | tuple[type, ...], allowed: str, default: Any) -> Any:
        self._read.add(key)
        if key not in self._values:
            if default is _MISSING:
                raise self.wrong(key, f"missing; it must be {allowed}")
            return default
        value = self._values[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"{value!r} is not allowed; it must be {allowed}")
        return value

    def text(self, key: str, default: Any = _MISSING) -> str:
        """A string that is not empty."""
        value = self._get(key, str, "text", default)
        if value == "" and value is not default:
            raise self.wrong(key, "is empty; it must be text")
        return " ".join(value.split())

    def choice(self, key: str, allowed: Iterable[str], default: Any = _MISSING) -> str:
        """One of the allowed words."""
        words = list(allowed)
        value = self._get(key, str, f"one of {', '.join(words)}", default)
        if value not in words and value is not default:
            raise self.wrong(key, f"'{value}' is not allowed; {did_you_mean(value, words)}")
        return value

    def whole(self, key: str, default: Any = _MISSING, least: int = 0) -> int:
        """A whole number not below `least`."""
        value = self._get(key, int, f"a whole number of at least {least}", default)
        if value is not default and value < least:
            raise self.wrong(key, f"{value} is not allowed; it must be at least {least}")
        return value

    def number(self, key: str, default: Any = _MISSING) -> float:
        """A number above zero."""
        value = self._get(key, (int, float), "a number above 0", default)
        if value is not default and value <= 0:
            raise self.wrong(key, f"{value} is not allowed; it must be above 0")
        return value

    def flag(self, key: str, default: Any = _MISSING) -> bool:
        """true or false."""
        return self._get(key, bool, "true or false", default)

    def words(
        self, key: str, allowed: Iterable[str] | None = None, default: Any = _MISSING
    ) -> list[str]:
        """A list of strings, each one of the allowed words unless `allowed` is None."""
        values = self._get(key, list, "a list of text", default)
        known = None if allowed is None else list(allowed)
        for value in values:
            if not isinstance(value, str):
                raise self.wrong(key, f"{value!r} is not allowed; it must be text")
            if known is not None and value not in known:
                raise self.wrong(key, f"'{value}' is not allowed; {did_you_mean(value, known)}")
        return list(values)

    def items(self, key: str, default: Any = _MISSING) -> list[Any]:
        """A list of anything."""
        return list(self._get(key, list, "a list", default))

    def table(self, key: str, default: Any = _MISSING) -> "Table":
        """The table below `key`."""
        return Table(self._get(key, dict, "a table", default), self._file, f"{self._prefix}{key}.")

    def tables(self, key: str, default: Any = _MISSING) -> list["Table"]:
        """The tables of `[[key]]`."""
        values = self._get(key, list, f"a list of tables, [[{key}]]", default)
        if not all(isinstance(value, dict) for value in values):
            raise self.wrong(key, f"must be a list of tables, [[{key}]]")
        return [Table(v, self._file, f"{self._prefix}{key}[{n}].") for n, v in enumerate(values, 1)]

    def value(self, key: str) -> Any:
        """The unchecked value of `key`; the caller checks it."""
        self._read.add(key)
        return self._values[key]

    def done(self) -> None:
        """Refuses keys that were never read."""
        for key in self._values:
            if key not in self._read:
                raise self.wrong(key, f"unknown key; {did_you_mean(key, sorted(self._read))}")
