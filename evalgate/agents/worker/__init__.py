"""What runs inside the agent's own interpreter: standard library plus the agent's framework, nothing of evalgate.

`start.py` loads this folder under a private name, so that neither its modules nor its folder can be met (or
shadowed) by the agent's own imports. Everything here must work on Python 3.10.
"""
