"""evalgate: a pull-request gate for LLM agents."""

__version__ = "0.1.0"
