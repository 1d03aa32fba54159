"""The ledger as tables: exported segments in, bronze, silver, gold and audit tables out.

The pipeline reads sealed segments and their manifest, never the live database. Table modules are
pure functions from data frames to data frames; `store` and the runners do the reading and writing.
"""
