"""Algorithmic tasks: those of the neural Turing machine, adding problems, order, gaps."""
