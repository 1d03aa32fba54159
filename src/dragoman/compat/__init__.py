"""Other task queues' names on a Dragoman broker: change one import, and programs run.

What is not here raises `NotInCompat`, or an `ImportError`, with a hint.
"""
