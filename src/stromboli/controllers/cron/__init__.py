"""CronJobs: Jobs that are created whenever a schedule says so."""

from __future__ import annotations

from .cron_job_controller import CronJobController
from .families import KUBERNETES, VOLCANO

__all__ = ["KUBERNETES", "VOLCANO", "CronJobController"]
