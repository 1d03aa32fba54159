"""The truth: an append-only, sequence-numbered, durable list of records, bodies beside them."""
