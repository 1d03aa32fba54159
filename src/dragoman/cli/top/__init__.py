"""`dragoman top`: the terminal view."""
