"""A small language for domain objects: `build.report("pass pass fail error")`."""
