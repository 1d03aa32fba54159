"""The broker's built-in services: ordinary workers behind the local dialect."""
