"""The commands that look at a cluster and act on its jobs.

look       status, queues, jobs, nodes, reservations
why        why one job waits
plan       what would happen if a job were submitted
act        submit, cancel, suspend, resume
top        the busiest and the longest waiting, live
diag       how the scheduler itself is doing
replay     a recording of the scheduler, decided again
completion the script for the shell
"""
