"""The one exception that is addressed to the user.

Most exceptions are for us: they say that the program is wrong, and their traceback is their value. A
`UserError` says that what the user gave us is wrong (a file, a flag, a name), so its text is the whole
message: one sentence that names the place and says what to do. The command line prints it as a single line
and exits with status 2.

It lives in a module of its own, below everything else, so that every room may raise it without knowing that a
command line exists.
"""

from __future__ import annotations


class UserError(Exception):
    """Something the user gave us cannot be used; `str()` is one line that names the place and the remedy."""

    exit_status = 2


class ClusterError(UserError):
    """The cluster does not answer, or refuses; the input may be correct."""

    exit_status = 3


class NotPermitted(ClusterError):
    """Something has to be read that this user may not read."""


class NotReproduced(UserError):
    """A check that the user ordered has failed: a recording could not be reproduced."""

    exit_status = 4
