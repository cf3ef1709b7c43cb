"""The result of a run: as JSON (`json_report`), or as tables for people (`table`, imported only when it is needed)."""

from __future__ import annotations

from .json_report import build_report, encode_event, encode_report

__all__ = ["build_report", "encode_event", "encode_report"]
