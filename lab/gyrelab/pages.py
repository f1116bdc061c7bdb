# SPDX-License-Identifier: Apache-2.0
"""The environment of the pages' templates."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment() -> Environment:
    """A new one, which escapes all values and refuses unknown names."""
    return Environment(
        loader=PackageLoader("gyrelab"),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
