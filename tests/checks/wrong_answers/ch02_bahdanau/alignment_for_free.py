from ..collection import wrong


@wrong("02.hard_alignment", "for each target word")
def wrong_axis(weights, source_length, target_length):
    return weights[:target_length, :source_length].argmax(0).tolist()


@wrong("02.hard_alignment", "padding is pointed at")
def with_padding(weights, source_length, target_length):
    return weights[:target_length].argmax(-1).tolist()


@wrong("02.hard_alignment", "the lengths have changed places")
def lengths_exchanged(weights, source_length, target_length):
    return weights[:source_length, :target_length].argmax(-1).tolist()


@wrong("02.hard_alignment", "counted from 1")
def from_one(weights, source_length, target_length):
    return (weights[:target_length, :source_length].argmax(-1) + 1).tolist()


@wrong("02.hard_alignment", "padded target words are aligned too")
def all_rows(weights, source_length, target_length):
    return weights[:, :source_length].argmax(-1).tolist()


@wrong("02.hard_alignment", "is a float, expected a whole number")
def floats(weights, source_length, target_length):
    return weights[:target_length, :source_length].argmax(-1).double().tolist()


@wrong("02.alignment_error_rate", "1 minus the error rate")
def not_subtracted(predicted, sure, possible):
    possible = possible | sure
    return (len(predicted & sure) + len(predicted & possible)) / max(len(predicted) + len(sure), 1)


@wrong("02.alignment_error_rate", "every sure link is possible too")
def sure_not_possible(predicted, sure, possible):
    if not predicted and not sure:
        return 0.0
    return 1 - (len(predicted & sure) + len(predicted & possible)) / (len(predicted) + len(sure))


@wrong("02.alignment_error_rate", "expected |A| + |S|")
def divides_by_possible(predicted, sure, possible):
    possible = possible | sure
    hits = len(predicted & sure) + len(predicted & possible)
    return 1 - hits / max(len(predicted) + len(possible), 1)


@wrong("02.alignment_error_rate", "the F-score on the sure ones")
def f_score(predicted, sure, possible):
    return 1 - 2 * len(predicted & sure) / max(len(predicted) + len(sure), 1)


@wrong("02.alignment_error_rate", "ZeroDivisionError")
def empty_sets(predicted, sure, possible):
    possible = possible | sure
    return 1 - (len(predicted & sure) + len(predicted & possible)) / (len(predicted) + len(sure))


@wrong("02.alignment_error_rate", "changes its argument possible in place")
def grows_possible(predicted, sure, possible):
    possible |= sure
    return 1 - (len(predicted & sure) + len(predicted & possible)) / max(
        len(predicted) + len(sure), 1
    )
