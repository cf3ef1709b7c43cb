"""CronJobs: Jobs that are created whenever a schedule says so."""

from __future__ import annotations

from .cron_job_controller import CronJobController

__all__ = ["CronJobController"]
