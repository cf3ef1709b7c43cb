"""The page with its data in a single file: it opens from a disk, without a server and without a network.

A browser does not load scripts from beside a file, so all of them are in the file. They are modules that import each
other, which a single file cannot have. In one module they share their names: imports are dropped, and so is the word
`export`. Every name at the top of a script is therefore unique among all of them.

The file has a content security policy that allows just these bytes of script and style, by their hashes. Whatever
somebody writes into the name of a job cannot become a script.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from typing import Final

from .assets_on_disk import INDEX, SCRIPTS, STYLE, asset
from .document import Document, encode_document

_IMPORT: Final = re.compile(r"^import\b[^;]*;\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)
_HEAD: Final = re.compile(r"<!-- files: .*?<!-- end -->", re.DOTALL)


def self_contained(document: Document) -> bytes:
    """A whole HTML file. Equal documents give equal bytes."""
    style, script = asset(STYLE), _one_script()
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    # A "<" in JSON can only be part of a text. Escaped, it cannot end the element.
    data = encode_document(document).decode().replace("<", "\\u003c")
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        f"<style>{style}</style>\n"
        f'<script type="application/json" id="document">{data}</script>\n'
        f'<script type="module">{script}</script>'
    )
    page = _HEAD.sub(lambda found: head, asset(INDEX), count=1)
    return page.replace("<title>Stromboli</title>", f"<title>{escape(document.title)} – Stromboli</title>", 1).encode()


def _one_script() -> str:
    parts = []
    for name in SCRIPTS:
        text = _EXPORT.sub("", _IMPORT.sub("", asset(name)))
        parts.append(f"// {name}\n{text}")
    script = "\n".join(parts)
    if "</script" in script.lower():
        raise ValueError("a script must not contain the end of its own element")
    return script


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
