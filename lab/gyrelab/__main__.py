# SPDX-License-Identifier: Apache-2.0
"""`python -m gyrelab` is the lab's command line."""

from gyrelab.cli import main

if __name__ == "__main__":
    main()
