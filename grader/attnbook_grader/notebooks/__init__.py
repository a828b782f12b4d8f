"""Hand-ins: the files, the cells in them, and how similar their code is."""
