"""Services built into the broker: ordinary workers behind the local dialect."""
