# SPDX-License-Identifier: Apache-2.0
"""The published reports whose conclusions the lab checks, from published/reports.toml."""

import tomllib
from dataclasses import dataclass
from functools import cache

from gyrelab import paths


@dataclass(frozen=True)
class Report:
    """One report; `setup` is what it was measured on."""

    id: str
    title: str
    setup: str


@cache
def load_all() -> list[Report]:
    """The reports in the order in which the page lists them."""
    document = tomllib.loads(paths.REPORTS.read_text(encoding="utf-8"))
    return [Report(row["id"], row["title"], row["setup"]) for row in document["reports"]]


def list_ids() -> list[str]:
    """Their ids."""
    return [each.id for each in load_all()]
