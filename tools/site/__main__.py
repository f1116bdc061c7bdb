# SPDX-License-Identifier: Apache-2.0
"""Builds the reference site, or checks that it can be built.

    .venv/bin/python tools/site [--out FOLDER] [--check]

The site is FOLDER/index.html, by default build/docs/index.html: the pages of Markdown, and a page
for each public header, made from Doxygen's reading of it. It needs no network and no server.

Prints one line for each problem and exits with status 1 when there is any: a public name without
documentation, a link that leads nowhere, code on a page that no compiled program contains, a
warning of Doxygen. --check writes nothing.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from assembly import ROOT, build


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build/docs")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--doxygen", type=Path, default=ROOT / ".venv/bin/doxygen")
    arguments = parser.parse_args()
    if not arguments.doxygen.exists():
        print(f"there is no {arguments.doxygen}: run tools/setup docs", file=sys.stderr)
        return 1
    began = time.monotonic()
    problems, count = build(
        None if arguments.check else arguments.out, arguments.doxygen.absolute()
    )
    print("\n".join(problems), end="\n" if problems else "")
    where = "checked" if arguments.check else f"written, begin with {arguments.out / 'index.html'}"
    print(
        f"site: {count} pages {where}; {len(problems)} problems; "
        f"{time.monotonic() - began:.0f} seconds"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
