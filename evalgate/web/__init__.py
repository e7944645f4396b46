"""One HTTP request at a time, bounded, and where in its answer the wanted value stands."""
