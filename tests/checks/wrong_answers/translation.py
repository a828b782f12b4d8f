import torch

from .collection import wrong


def _parts(words):
    return torch.nn.functional.one_hot(torch.tensor(words)).float()


def _mean(parts):
    return parts / parts.sum(0, keepdim=True)


@wrong("02.merge_subwords", "the pieces of a source word are averaged")
def both_means(weights, target_words, source_words):
    return _mean(_parts(target_words)).T @ weights @ _mean(_parts(source_words))


@wrong("02.merge_subwords", "the pieces of a target word are added up")
def both_sums(weights, target_words, source_words):
    return _parts(target_words).T @ weights @ _parts(source_words)


@wrong("02.merge_subwords", "sum and mean are swapped")
def swapped(weights, target_words, source_words):
    return _parts(target_words).T @ weights @ _mean(_parts(source_words))


@wrong("02.merge_subwords", "the largest weight of a block")
def largest(weights, target_words, source_words):
    rows, columns = torch.tensor(target_words), torch.tensor(source_words)
    return torch.stack(
        [
            torch.stack([weights[rows == i][:, columns == j].max() for j in range(max(source_words) + 1)])
            for i in range(max(target_words) + 1)
        ]
    )


@wrong("02.merge_subwords", "only the first piece of a target word")
def first_piece(weights, target_words, source_words):
    first = [target_words.index(i) for i in range(max(target_words) + 1)]
    return weights[first] @ _parts(source_words)


@wrong("02.merge_subwords", "one row a target word, one column a source word")
def transposed(weights, target_words, source_words):
    return (_mean(_parts(target_words)).T @ weights @ _parts(source_words)).T


@wrong("02.merge_subwords", "adds up to")
def drops_pieces(weights, target_words, source_words):
    first = [source_words.index(i) for i in range(max(source_words) + 1)]
    return _mean(_parts(target_words)).T @ weights[:, first]
