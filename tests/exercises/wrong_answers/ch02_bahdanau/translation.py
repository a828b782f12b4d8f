import torch

from ..collection import edits, wrong


def _parts(words):
    return torch.nn.functional.one_hot(torch.tensor(words)).float()


def _mean(parts):
    return parts / parts.sum(0, keepdim=True)


edit = edits("02.bleu_by_hand")
edit("that is a share", "59.5", "0.595")
edit("the root is missing", "59.5", "12.5")
edit("the score is not 60", "59.5", "60")


edit = edits("02.words_in_reverse")
edit("expected one of '0'", 'return "0"', 'return "none"')
edit("a float came back", 'return "0"', "return 0.0")
edit("None came back", 'return "0"', "pass")


edit = edits("02.merge_subwords")
edit(
    "one row per target word, one column per source word",
    "target @ weights @ source",
    "(target @ weights @ source).T",
)


@wrong("02.merge_subwords", "the largest weight of a block")
def largest(weights, target_words, source_words):
    rows, columns = torch.tensor(target_words), torch.tensor(source_words)
    return torch.stack(
        [
            torch.stack(
                [weights[rows == i][:, columns == j].max() for j in range(max(source_words) + 1)]
            )
            for i in range(max(target_words) + 1)
        ]
    )


@wrong("02.merge_subwords", "only the first piece of a target word")
def first_piece(weights, target_words, source_words):
    first = [target_words.index(i) for i in range(max(target_words) + 1)]
    return weights[first] @ _parts(source_words)


@wrong("02.merge_subwords", "adds up to")
def drops_pieces(weights, target_words, source_words):
    first = [source_words.index(i) for i in range(max(source_words) + 1)]
    return _mean(_parts(target_words)).T @ weights[:, first]


@wrong(
    "02.look_by_content",
    "the weights do not depend on the annotations: numbers of the question itself",
)
def look_as_printed(embedded, state, annotations, W, real):
    scores = (torch.cat([embedded, state], -1) @ W)[:, : annotations.shape[1]]
    weights = torch.softmax(scores.masked_fill(~real, float("-inf")), -1)
    return torch.einsum("bn,bnd->bd", weights, annotations), weights


edit = edits("02.look_by_content")
edit("expected (context, weights)", "return context, weights", "return weights, context")
edit("no gradient reaches embedded", "softmax(scores, dim=-1)", "softmax(scores, dim=-1).detach()")
edit(
    "the weights are equal",
    'torch.einsum("bd…',
    "(question * annotations.mean(1)).sum(-1, keepdim=True).expand(real.shape)",
)
edit(
    "made with weights that do not know the annotations",
    "weights, annotations)",
    'question[:, : real.shape[1]].masked_fill(~real, float("-inf")).softmax(-1), annotations)',
)
