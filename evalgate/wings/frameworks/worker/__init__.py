"""What runs inside the interpreter of a framework's agent, beside `evalgate.worker`."""
