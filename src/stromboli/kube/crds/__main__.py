"""`python -m stromboli.kube.crds deploy` writes the definitions and the policies."""

import sys
from pathlib import Path

from .definitions import files
from .mutations import mutation_files
from .policies import policy_files

for path, text in {**files(), **policy_files(), **mutation_files()}.items():
    target = Path(sys.argv[1]) / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
