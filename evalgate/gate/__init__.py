"""Numbers in, verdict out: the rules of the gate, pure."""
