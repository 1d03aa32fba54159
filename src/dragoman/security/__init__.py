"""Who may speak, who may do what, and the account of it."""
