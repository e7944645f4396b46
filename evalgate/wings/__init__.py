"""Features behind entry points: each folder is one, and the core knows none of them by name."""
