"""The ledger as tables: exported segments in, bronze, silver, gold and audit tables out.

Only sealed segments and their manifest are read, never the live database. Table modules are pure
functions from data frames to data frames; `store` and the runners do the reading and writing.
"""
