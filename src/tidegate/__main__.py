"""`python -m tidegate` is the `tidegate` command."""

import sys

from tidegate.cli import main

if __name__ == "__main__":
    sys.exit(main())
