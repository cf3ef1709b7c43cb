"""Generated files as people read them: rules in folded blocks, nothing twice by reference."""

from __future__ import annotations

from typing import Any, Final

import yaml


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        """Rules are long and full of quotes: a folded block without quotes is easier to read."""
        return self.represent_scalar(
            "tag:yaml.org,2002:str", text, style=">" if len(text) > 80 and " " in text else None
        )


_Dumper.add_representer(str, _Dumper.text)

_HEADER: Final = (
    "# Made from the types and rules of stromboli.api by `python -m stromboli.kube.crds deploy`. Not to be edited.\n"
)


def text(*documents: object) -> str:
    return _HEADER + yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
