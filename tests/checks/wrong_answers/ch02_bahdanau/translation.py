import torch

from ..collection import wrong


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


@wrong("02.merge_subwords", "one row a target word, one column a source word")
def transposed(weights, target_words, source_words):
    return (_mean(_parts(target_words)).T @ weights @ _parts(source_words)).T


@wrong("02.merge_subwords", "adds up to")
def drops_pieces(weights, target_words, source_words):
    first = [source_words.index(i) for i in range(max(source_words) + 1)]
    return _mean(_parts(target_words)).T @ weights[:, first]


def _look(embedded, state, annotations, W, real, score=None, dim=-1, after=False):
    question = torch.cat([embedded, state], -1) @ W
    scores = (
        torch.einsum("bd,bnd->bn", question, annotations)
        if score is None
        else score(question, annotations)
    )
    weights = (
        torch.softmax(scores, dim) * real
        if after
        else torch.softmax(scores.masked_fill(~real, float("-inf")), dim)
    )
    return torch.einsum("bn,bnd->bd", weights, annotations), weights


@wrong(
    "02.look_by_content",
    "the weights do not depend on the annotations: numbers of the question itself",
)
def look_as_printed(*given):
    return _look(*given, score=lambda question, annotations: question[:, : annotations.shape[1]])


@wrong("02.look_by_content", "compared with those of the first sentence")
def look_at_the_first(*given):
    return _look(*given, score=lambda question, annotations: question @ annotations[0].T)


@wrong("02.look_by_content", "only the first n numbers")
def look_at_a_part(*given):
    def score(question, annotations):
        n = annotations.shape[1]
        return torch.einsum("bd,bnd->bn", question[:, :n], annotations[..., :n])

    return _look(*given, score=score)


@wrong("02.look_by_content", "is added to the score of word j")
def look_both_ways(*given):
    return _look(
        *given,
        score=lambda question, annotations: (
            torch.einsum("bd,bnd->bn", question, annotations) + question[:, : annotations.shape[1]]
        ),
    )


@wrong("02.look_by_content", "the weights are equal")
def look_everywhere(*given):
    return _look(
        *given,
        score=lambda question, annotations: (
            (question * annotations.mean(1)).sum(-1, keepdim=True).expand(-1, annotations.shape[1])
        ),
    )


@wrong("02.look_by_content", "by their cosine")
def look_by_cosine(*given):
    return _look(
        *given,
        score=lambda question, annotations: torch.cosine_similarity(
            question[:, None], annotations, dim=-1
        ),
    )


@wrong("02.look_by_content", "the padding is not masked")
def look_at_padding(embedded, state, annotations, W, real):
    return _look(embedded, state, annotations, W, torch.ones_like(real))


@wrong("02.look_by_content", "the mask comes after the softmax")
def look_mask_after(*given):
    return _look(*given, after=True)


@wrong("02.look_by_content", "the word before is not in the question")
def look_without_the_word(embedded, *rest):
    return _look(torch.zeros_like(embedded), *rest)


@wrong("02.look_by_content", "the state is not in the question")
def look_without_the_state(embedded, state, *rest):
    return _look(embedded, torch.zeros_like(state), *rest)


@wrong("02.look_by_content", "[state; embedded] stands")
def look_turned_round(embedded, state, *rest):
    return _look(state, embedded, *rest)


@wrong("02.look_by_content", "here they are not")
def look_scaled(*given):
    return _look(
        *given,
        score=lambda question, annotations: (
            torch.einsum("bd,bnd->bn", question, annotations) / question.shape[-1] ** 0.5
        ),
    )


@wrong("02.look_by_content", "over the batch")
def look_over_the_batch(*given):
    return _look(*given, dim=0)


@wrong("02.look_by_content", "made with weights that do not know the annotations")
def look_reads_elsewhere(*given):
    return look_as_printed(*given)[0], _look(*given)[1]


@wrong("02.look_by_content", "expected (context, weights)")
def look_weights_first(*given):
    return _look(*given)[::-1]


@wrong("02.look_by_content", "no gradient reaches embedded")
def look_detached(embedded, state, annotations, W, real):
    weights = _look(embedded, state, annotations, W, real)[1].detach()
    return torch.einsum("bn,bnd->bd", weights, annotations), weights
