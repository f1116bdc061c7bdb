# SPDX-License-Identifier: Apache-2.0
"""Lets promtool check the text of every struct of counts, and the alert rules with their tests.

    python3 promtool_test.py EVERY_COUNT_TEST

Fails by an exception.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OPERATE = Path(__file__).resolve().parents[2] / "docs" / "operate"


def promtool(*arguments: str, text: str | None = None) -> None:
    done = subprocess.run(
        ["promtool", *arguments],
        cwd=OPERATE,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    said = (arguments, done.stdout, done.stderr, text)
    assert done.returncode == 0 and not done.stderr.strip(), said


def names(file: str, key: str) -> set[str]:
    return set(re.findall(rf"\b{key}: (\w+)", (OPERATE / file).read_text()))


def main() -> None:
    assert shutil.which("promtool"), "promtool is missing: run tools/setup all"
    with tempfile.TemporaryDirectory(prefix="gyre_") as folder:
        path = Path(folder, "expositions")
        subprocess.run(
            [sys.argv[1]],
            env={**os.environ, "GYRE_EXPOSITION_FILE": str(path)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        expositions = path.read_text().split("\0")[:-1]
    assert len(expositions) >= 20, len(expositions)
    for each in expositions:
        promtool("check", "metrics", text=each)
    promtool("check", "rules", "gyre.rules.yml")
    promtool("test", "rules", "gyre.rules.test.yml")
    untested = names("gyre.rules.yml", "alert") - names("gyre.rules.test.yml", "alertname")
    assert not untested, f"alerts without a test: {untested}"


if __name__ == "__main__":
    main()
