"""GitHub: API client, comment, check run, artifacts, events."""
