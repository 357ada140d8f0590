"""`python -m gastricx_hf` is `gastricx`."""

import sys

from gastricx_hf.cli import main

sys.exit(main())
