"""`python -m stromboli.kube.crds deploy` writes the definitions."""

import sys
from pathlib import Path

from .definitions import main

main(Path(sys.argv[1]))
