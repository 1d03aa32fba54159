"""Built-in services: ordinary workers behind the local dialect."""
