"""The rules that every listener of ours follows: who is answered, how long we wait, and how much one may ask for.

limits          how many connections, how long, how large
gate            accepts connections, and makes room for new ones when all places are taken
turns           how often those without a token are answered
access          tokens, and requests that a browser makes for another site
refusal_log     one line for each kind of refusal, however many there are

The API server of `stromboli up`, the page, and the port for probes, metrics and the descheduler differ in what they
serve. They do not differ in these rules, so the rules are here, once.
"""

from .access import HEALTH_PATHS, Access, read_token
from .gate import Connection, Gate, connection_of, listen_problem
from .limits import API_LIMITS, PAGE_LIMITS, PROBE_LIMITS, Limits
from .memory import forget_frames
from .refusal_log import LibraryLog, RefusalLog

__all__ = [
    "API_LIMITS",
    "HEALTH_PATHS",
    "PAGE_LIMITS",
    "PROBE_LIMITS",
    "Access",
    "Connection",
    "Gate",
    "LibraryLog",
    "Limits",
    "RefusalLog",
    "connection_of",
    "forget_frames",
    "listen_problem",
    "read_token",
]
