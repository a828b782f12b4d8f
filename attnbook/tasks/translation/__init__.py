"""Sequence-to-sequence tasks: dates, numbers, phrases, real sentence pairs, and their
alignments.
"""
