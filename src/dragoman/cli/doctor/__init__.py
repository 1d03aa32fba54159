"""`dragoman doctor`: what a broker needs of its machine, checked line by line."""
