from ..collection import edits

edits(
    "02.hard_alignment",
    ("for each target word", "dim=-1", "dim=0"),
    ("padding is pointed at", ", :source_length", ""),
    (
        "the lengths have changed places",
        ":target_length, :source_length",
        ":source_length, :target_length",
    ),
    ("counted from 1", ".tolist()", ".add(1).tolist()"),
    ("padded target words are aligned too", ":target_length", ":"),
    ("is a float, expected a whole number", ".tolist()", ".double().tolist()"),
)


edits(
    "02.alignment_error_rate",
    ("1 minus the error rate", "1 - hits", "hits"),
    ("every sure link is possible too", "possible | sure", "possible"),
    ("expected |A| + |S|", "+ len(sure))", "+ len(possible))"),
    ("the F-score on the sure ones", "& possible", "& sure"),
    ("ZeroDivisionError", "if not predicted and not sure", "if False"),
    ("changes its argument possible in place", "possible = possible | sure", "possible |= sure"),
)
