"""Features behind entry points: each folder or file is one, and the core names none of them."""
