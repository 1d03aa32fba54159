"""Test tools shipped to users: a seeded simulation with injected faults.

`python -m dragoman.testing` runs many worlds; `simulate(seed)` runs one. The simulation uses no
socket, thread, disk or wall clock.
"""
