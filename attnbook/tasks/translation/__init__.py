"""Sequence-to-sequence tasks: dates, numbers, phrases, real sentences, and their alignments."""
