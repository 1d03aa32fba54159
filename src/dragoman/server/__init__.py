"""The only impure broker code: it introduces transports, dialects, core and ledger."""
