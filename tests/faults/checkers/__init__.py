"""Invariants, by code that shares nothing with what it checks.

truth      a picture of all objects, kept from the commits of the store alone
at_once    what must hold after every commit and every request
at_rest    what must hold when faults have stopped for a minute
"""
