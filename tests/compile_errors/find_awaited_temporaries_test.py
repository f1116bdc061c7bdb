# SPDX-License-Identifier: Apache-2.0
"""Checks that tools/find_awaited_temporaries reports the marked lines of a source, and no others.

    find_awaited_temporaries_test.py SOURCE ROOT CLANG_QUERY
"""

import subprocess
import sys
from pathlib import Path

source, root, clang_query = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
tool = [str(root / "tools/find_awaited_temporaries"), "--clang-query", clang_query]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*tool, *arguments], capture_output=True, text=True, check=False)


lines = source.read_text().splitlines()
marked = [number for number, line in enumerate(lines, 1) if line.endswith("// found")]
assert marked, f"{source} marks no line"
found = run(str(source), "--", "-std=c++23", f"-I{root}")
reported = sorted(int(line.split(":")[1]) for line in found.stdout.splitlines())
assert found.returncode == 1, found.stderr
assert reported == marked, f"reported {reported}, marked {marked}"

missing_header = run(str(source), "--", "-std=c++23")
assert missing_header.returncode == 2, missing_header.stdout
assert "could not read a source" in missing_header.stderr, missing_header.stderr
no_options = run(str(source))
assert no_options.returncode == 2, no_options.stdout
assert "-p BUILD" in no_options.stderr, no_options.stderr
