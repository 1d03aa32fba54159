"""For those who test against Dragoman: a seeded world in which everything may go wrong.

`python -m dragoman.testing` runs many worlds; `simulate(seed)` runs one. Nothing here touches a
socket, a thread, a disk or the clock of the house.
"""
