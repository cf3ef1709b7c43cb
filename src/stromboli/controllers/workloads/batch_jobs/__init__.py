"""Jobs of `batch/v1`: pods until enough of them have succeeded, or too many have failed."""

from __future__ import annotations

from .batch_job_controller import BatchJobController

__all__ = ["BatchJobController"]
