"""The tables of small ledgers without Spark: the same steps as SQL for DuckDB, in one process.

Spark's modules define the tables. The SQL here gives equal rows; tests compare every table.
"""
