"""What runs inside the agent's own interpreter, see `server.py`."""
