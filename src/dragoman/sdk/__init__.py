"""What users of the library write with: clients, workers and tasks, the same for every dialect."""
