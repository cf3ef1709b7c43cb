"""Spans of time as `kubectl get` shows them: 45s, 5m, 3h20m, 4d, 2y."""

from __future__ import annotations

from stromboli.api.timestamps import parse_timestamp


def since(timestamp: str | None, now: float) -> str:
    if not timestamp:
        return "<unknown>"
    try:
        return human(now - parse_timestamp(timestamp))
    except ValueError:
        return "<invalid>"


def human(seconds: float) -> str:
    """Two units while the larger one is small, then one."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large}{unit}{small}{smaller}" if small else f"{large}{unit}"
