"""`python -m pilotage`: the command line."""

import sys

from pilotage.cli.main import main

sys.exit(main())
