"""Operations of features that packages below them use as well: gangs use up what was set aside for starved jobs, and
Reservations lend. Other operations are where their feature is, such as `reservations/reservation_operations.py`.
"""
