"""`python -m stromboli.kube.crds deploy` writes the definitions and the policies."""

import argparse
from pathlib import Path

from .definitions import files
from .mutations import mutation_files
from .policies import policy_files

parser = argparse.ArgumentParser(prog="crds", description="Write the definitions and the policies.")
parser.add_argument("folder", type=Path, help="an existing folder, such as deploy")
folder: Path = parser.parse_args().folder
if not folder.is_dir():
    parser.error(f"{folder} is not a folder")
for path, text in {**files(), **policy_files(), **mutation_files()}.items():
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
