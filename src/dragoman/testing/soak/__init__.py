"""A soak of real processes: `make soak MINUTES=10`, or `python -m dragoman.testing.soak`.

Clients of every dialect give work to workers of every dialect while every few seconds something is
killed, cut, stopped or slow. `load` keeps each client's own list of what it asked for and got,
`faults` does the harm, `proxy` is the wire that can be cut, `verdict` compares the lists with the
ledger and looks at memory and descriptors.
"""
