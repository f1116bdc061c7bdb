# SPDX-License-Identifier: Apache-2.0
"""The order of the lab's modules: no module imports, even by way of others, one that imports it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import gyrelab

FOLDER = Path(gyrelab.__file__).parent


def imported(source: str) -> Iterator[str]:
    """The lab's modules that a source imports anywhere: in functions and for the type checker, too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[2] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "gyrelab":
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gyrelab."):
            yield (node.module or "").removeprefix("gyrelab.")


def circle(sources: dict[str, str]) -> list[str]:
    """Modules each of which imports the next, and the last the first; none in a proper order."""
    arrows = {name: sorted(set(imported(text)) & sources.keys()) for name, text in sources.items()}
    settled: set[str] = set()

    def search(name: str, path: list[str]) -> list[str]:
        if name in path:
            return path[path.index(name) :]
        if name not in settled:
            for each in arrows[name]:
                if found := search(each, [*path, name]):
                    return found
            settled.add(name)
        return []

    return next((found for name in arrows if (found := search(name, []))), [])


def test_modules_have_an_order() -> None:
    files = [*FOLDER.glob("*.py"), *FOLDER.glob("tests/*.py")]
    sources = {
        str(each.relative_to(FOLDER).with_suffix("")).replace("/", "."): each.read_text()
        for each in files
    }
    assert "runner" in sources and "tests.test_runner" in sources
    assert circle(sources) == []


@pytest.mark.parametrize(
    "back",
    [
        "from gyrelab import one",
        "import gyrelab.one",
        "def late() -> None:\n    from gyrelab.one import thing",
        "if TYPE_CHECKING:\n    from gyrelab.one import thing",
    ],
)
def test_circle_is_found_however_it_is_imported(back: str) -> None:
    sources = {
        "one": "from gyrelab.two import x",
        "two": "from gyrelab import three",
        "three": back,
    }
    assert circle(sources) == ["one", "two", "three"]
    assert circle({**sources, "three": "import json"}) == []
