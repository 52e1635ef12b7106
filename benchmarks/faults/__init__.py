"""Faults, made on purpose and counted: damaged files, kills, signals, environments, full disks.

Each module has functions that prepare something in a folder and yield checks: a name, which repeats
a single case (`--only NAME`), and a function that yields why the case failed, or nothing.
"""
