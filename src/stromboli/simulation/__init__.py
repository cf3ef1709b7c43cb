"""Simulation: the scheduler and the controllers run on a scenario in virtual time, and the result is a report.

`scenario` reads and validates scenario files. `engine` runs the components, on the objects and pods of `world`.
`report` shows the result. Nothing is imported here, because the command line must start without NumPy.
"""
