"""A soak of real processes: `make soak MINUTES=10`, or `python -m dragoman.testing.soak`.

Clients of every dialect use workers of every dialect. Every few seconds a process is killed or
frozen, a connection is cut, or a reader is slow. `load` keeps each client's list of requests and
answers. `faults` injects the faults. `proxy` is a connection that can be cut. `verdict` compares
the lists with the ledger and checks memory and descriptors.
"""
