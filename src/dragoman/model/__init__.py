"""The vocabulary of the project: plain values that every layer may use.

What lives here has no behaviour beyond small pure helpers and imports nothing but
the standard library. No clock, socket, disk, randomness or logging.
"""
