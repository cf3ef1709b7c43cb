"""Files of users and of ourselves: read within limits, written whole, and kept from other users of the machine."""

from .folder import check_place, private_folder
from .input_file import (
    LARGEST_CREDENTIAL,
    LARGEST_MANIFEST,
    LARGEST_SETTING,
    read_credential,
    read_input,
    read_lines,
    read_standard_input,
    read_text,
)
from .output_file import append, new_private_file, open_for_append, write_output
from .secret_file import check_secret, read_secret, write_secret

__all__ = [
    "LARGEST_CREDENTIAL",
    "LARGEST_MANIFEST",
    "LARGEST_SETTING",
    "append",
    "check_place",
    "check_secret",
    "new_private_file",
    "open_for_append",
    "private_folder",
    "read_credential",
    "read_input",
    "read_lines",
    "read_secret",
    "read_standard_input",
    "read_text",
    "write_output",
    "write_secret",
]
