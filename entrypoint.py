"""The container's door: run as a file, so that the user's repository never gets on sys.path."""
