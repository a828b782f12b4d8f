"""Calls that somebody gets wrong on a Monday, and what the library says to them: the argument, what
was expected, what came.
"""

import pytest
import torch
from torch import nn

from attnbook import (
    NTM,
    AdditiveScore,
    Bahdanau,
    DotScore,
    LSTMLanguageModel,
    Luong,
    MultiHeadAttention,
    PointerNetwork,
    ScaledDotScore,
    Seq2Seq,
    SlidingWindow,
    Transformer,
    TransformerLM,
    attend,
    beam_search,
    causal_mask,
    decoder_parts,
    generate,
    greedy,
    padding_mask,
    paper_parts,
    token_distribution,
)
from attnbook.decoding import TokenIds, point_greedy, score_targets, speculative_sample
from attnbook.mechanisms import LayerNorm, RotaryPositions
from attnbook.tasks import TOKEN_IDS, Pair, SequenceBatches, Vocabulary, collate, make_task
from attnbook.training import (
    bleu,
    exact_match,
    fit,
    language_loss,
    load_model_weights,
    perplexity,
    smoothed_cross_entropy,
    token_loss,
)

X = torch.zeros(2, 3, 8)
IDS = torch.tensor([[1, 2, 3], [4, 5, 0]])
LENGTHS = torch.tensor([3, 2])
WORDS = Vocabulary(["a", "b", "c"])


def lm(size=8):
    return TransformerLM(size, paper_parts(8, 2, 16), num_layers=1)


def translator(**options):
    return Transformer(8, 8, paper_parts(8, 2, 16), num_layers=1, **options)


class Once:
    """Batches for a fit that must not get far."""

    def batch(self, step):
        return (torch.zeros(2, 3),)


def trained(**options):
    def loss(model, batch):
        return model(batch[0]).sum(), 6

    given = {"batches": Once(), "loss": loss, "steps": 2, "progress": False, **options}
    return fit(nn.Linear(3, 1), given.pop("batches"), given.pop("loss"), **given)


CALLS = {
    # attention
    "a mask of numbers": (
        lambda: attend(ScaledDotScore(), X, X, X, torch.zeros(3, 3)),
        r"^mask must be a boolean.*got .*float32",
    ),
    "a mask of another shape": (
        lambda: attend(ScaledDotScore(), X, X, X, torch.ones(5, 3).bool()),
        r"^mask must .*got shape \(5, 3\)",
    ),
    "a key of another width": (
        lambda: attend(DotScore(), X, X[..., :4], X),
        r"^DotScore needs query and key of one width, got 8 and 4",
    ),
    "values for other keys": (lambda: attend(DotScore(), X, X, X[:, :2]), r"^value must .*got .*2"),
    "a class for a score": (lambda: attend(DotScore, X, X, X), r"^score must .*got"),
    "heads that do not divide": (
        lambda: MultiHeadAttention(10, 3),
        r"^d_model must .*num_heads.*got 10 and 3|^d_model .* 10 .* 3",
    ),
    "no heads": (lambda: MultiHeadAttention(8, 0), r"^num_heads must .*got 0"),
    "half a head": (lambda: MultiHeadAttention(8, 2.0), r"^num_heads must .*got 2.0"),
    "an input of another width": (
        lambda: MultiHeadAttention(8, 2)(X[..., :7]),
        r"^query must .*8.*got .*7",
    ),
    "an input of another dtype": (
        lambda: MultiHeadAttention(8, 2)(X.double()),
        r"must be of torch.float32.*got torch.float64",
    ),
    "ids for vectors": (lambda: MultiHeadAttention(8, 2)(IDS), r"^query must .*got"),
    "a window of nothing": (lambda: SlidingWindow(0), r"^size must .*got 0"),
    "dropout of all": (lambda: MultiHeadAttention(8, 2, dropout=1.0), r"^dropout must .*got 1.0"),
    "heads of keys that do not divide": (
        lambda: MultiHeadAttention(8, 4, num_kv_heads=3),
        r"^num_heads must .*num_kv_heads.*got 4 and 3|^num_kv_heads must .*got",
    ),
    "an odd width to turn": (lambda: RotaryPositions(7), r"^d_head must .*got 7"),
    "a base of nothing": (lambda: RotaryPositions(8, base=0.0), r"^base must .*got 0.0"),
    "a mask of -1": (lambda: causal_mask(-1), r"^m must .*got -1"),
    "lengths beyond": (
        lambda: padding_mask(torch.tensor([4]), 3),
        r"^(lengths|max_length) must .*got",
    ),
    "lengths with a point": (lambda: padding_mask(torch.tensor([1.5])), r"^lengths must .*got"),
    "an additive score without width": (
        lambda: AdditiveScore(8, 8, 0),
        r"^d_(attention|hidden|attn)\w* must .*got 0",
    ),
    "a norm of nothing": (lambda: LayerNorm(0), r"must be .*got 0"),
    # models
    "no vocabulary": (lambda: lm(0), r"^vocabulary_size must .*got 0"),
    "no layers": (
        lambda: TransformerLM(8, paper_parts(8, 2, 16), num_layers=0),
        r"^num_layers must .*got 0",
    ),
    "parts called": (lambda: TransformerLM(8, paper_parts), r"^parts must .*got"),
    "ids outside the vocabulary": (lambda: lm(5)(IDS), r"^tokens must .*between 0 and 4, got.*5"),
    "one text without its batch": (lambda: lm()(IDS[0]), r"^tokens must .*\(batch, length\).*got"),
    "vectors for ids": (lambda: lm()(X), r"^tokens must be token ids.*got"),
    "lengths of another batch": (lambda: lm()(IDS, torch.tensor([3])), r"^lengths must .*got"),
    "a length of 0": (lambda: lm()(IDS, torch.tensor([3, 0])), r"^lengths must .*got.* 0"),
    "a token for another batch": (
        lambda: lm().step(torch.tensor([1]), lm().encode(IDS, LENGTHS)),
        r"^token must have 2 rows as state has, got 1",
    ),
    "an unknown unit": (lambda: Seq2Seq(5, 5, unit="rnn"), r"^unit must be .*gru.*got 'rnn'"),
    "no width": (lambda: Seq2Seq(5, 5, hidden_size=0), r"^hidden_size must .*got 0"),
    "an unknown score": (
        lambda: Bahdanau(5, 5, score="dotproduct"),
        r"^score must be .*additive.*got 'dotproduct'",
    ),
    "an unknown attention": (
        lambda: Luong(5, 5, attention="local"),
        r"^attention must be .*local-m.*got 'local'",
    ),
    "an empty source": (
        lambda: Seq2Seq(8, 8).encode(IDS, torch.tensor([0, 2])),
        r"^lengths must .*got.* 0",
    ),
    "ids outside the source": (
        lambda: Seq2Seq(4, 8).encode(IDS, LENGTHS),
        r"^source must .*between 0 and 3, got .*5",
    ),
    "targets of another batch": (
        lambda: Seq2Seq(8, 8)(IDS, LENGTHS, IDS[:1]),
        r"^target_in must have 2 rows.*got 1",
    ),
    "a dropout of 1": (lambda: LSTMLanguageModel(8, dropout=1), r"^dropout must .*got 1"),
    "tying two vocabularies": (
        lambda: Transformer(8, 9, paper_parts(8, 2, 16), num_layers=1, tie="all"),
        r"^tie='all' needs one vocabulary.*8 and 9",
    ),
    "a machine without a memory": (lambda: NTM(4, 4, slots=0), r"^slots must .*got 0"),
    "an input for another machine": (
        lambda: NTM(4, 4)(torch.zeros(2, 5, 3)),
        r"^inputs? must .*4.*got .*3",
    ),
    "points of another width": (
        lambda: PointerNetwork(2, 8, ends=True).encode(torch.zeros(1, 4, 3), torch.tensor([4])),
        r"^inputs must .*2.*got .*3",
    ),
    "answers longer than the rows": (
        lambda: point_greedy(
            PointerNetwork(2, 8, ends=True), torch.zeros(1, 4, 2), torch.tensor([5])
        ),
        r"^lengths must .*got .*5",
    ),
    "a hidden layer without width": (
        lambda: decoder_parts(8, 2, 0).feed_forward(),
        r"^d_feed_forward must .*got 0|^d_hidden must .*got 0",
    ),
    # decoding
    "a search without a start": (
        lambda: greedy(translator(), IDS, LENGTHS, 4),
        r"^model must say with which id its targets start.*got none from Transformer",
    ),
    "ids for a name": (lambda: translator(token_ids=2), r"^token_ids must be TokenIds.*got int"),
    "a beam of nothing": (
        lambda: beam_search(
            translator(token_ids=TOKEN_IDS), IDS, LENGTHS, beam_size=0, max_length=3
        ),
        r"^beam_size must .*got 0",
    ),
    "a translator for a language model": (
        lambda: generate(translator(token_ids=TOKEN_IDS), [[3]], max_new_tokens=3),
        r"^model must be a language model.*got Transformer: greedy",
    ),
    "a language model for a translator": (
        lambda: score_targets(lm(), collate([Pair(("a",), ("b",))], WORDS, WORDS)),
        r"^model must read a source and a target, got .*TransformerLM: language_loss",
    ),
    "text for ids": (lambda: generate(lm(), ["a b"], max_new_tokens=3), r"^prompts\[0\] must"),
    "an empty prompt": (lambda: generate(lm(), [[]], max_new_tokens=3), r"^prompts\[0\] must"),
    "an end outside the vocabulary": (
        lambda: generate(lm(), [[1]], max_new_tokens=3, end=8),
        r"^end must be below 8.*got 8",
    ),
    "a batch to speculate on": (
        lambda: speculative_sample(lm(), lm(), IDS, 3),
        r"^prompt must be token ids \(n,\)",
    ),
    "a draft that speaks otherwise": (
        lambda: speculative_sample(lm(), lm(9), IDS[0], 3),
        r"^draft must have the vocabulary of model, 8 tokens, got 9",
    ),
    "a temperature below 0": (
        lambda: token_distribution(torch.zeros(3), temperature=-1),
        r"^temperature must .*got -1",
    ),
    "an end with a point": (lambda: TokenIds(end=2.0), r"^end must be an integer >= 0, got 2.0"),
    # data
    "a sentence for words": (lambda: WORDS.encode("a b"), r"^tokens must .*got the string 'a b'"),
    "an unknown word": (lambda: WORDS.encode(["a", "z"]), r"^tokens holds 'z', unknown"),
    "an id outside": (lambda: WORDS.decode([9]), r"^ids must lie in 0..6, got 9"),
    "a word twice": (lambda: Vocabulary(["a", "a"]), r"^tokens must differ.*got repeated \['a'\]"),
    "no pairs": (
        lambda: collate([], WORDS, WORDS),
        r"^pairs must hold at least one pair, got none",
    ),
    "a batch of nothing": (
        lambda: SequenceBatches([Pair(("a",), ("b",))], WORDS, WORDS, 0),
        r"^batch_size must .*got 0",
    ),
    "an unknown task": (
        lambda: make_task("phrase", train=1, valid=0, test=0, seed=0),
        r"^name must be .*phrases.*got 'phrase'",
    ),
    # training
    "a list for batches": (
        lambda: trained(batches=[(torch.zeros(2, 3),)]),
        r"^batches must have a method batch\(step\)|^batches must .*got list",
    ),
    "no steps": (lambda: trained(steps=0), r"^steps must .*got 0"),
    "an unknown optimizer": (
        lambda: trained(optimizer="adamm"),
        r"^optimizer must be .*adam.*got 'adamm'",
    ),
    "an unknown schedule": (
        lambda: trained(schedule="cos"),
        r"^schedule must be .*cosine.*got 'cos'",
    ),
    "a loss without its count": (
        lambda: trained(loss=lambda model, batch: model(batch[0]).sum()),
        r"^loss must return .*\(total, count\).*got",
    ),
    "an optimizer that is one": (
        lambda: trained(optimizer=torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)),
        r"^optimizer must be a name or a function.*got SGD",
    ),
    "a rate below 0": (lambda: trained(learning_rate=-1e-3), r"^learning_rate must .*got -0.001"),
    "a device that is none": (lambda: trained(device="gpu"), r"^device must .*got 'gpu'"),
    "smoothing of all": (
        lambda: token_loss(translator(), None, 1.0),
        r"^label_smoothing must .*got 1.0",
    ),
    "targets of another length": (
        lambda: smoothed_cross_entropy(torch.zeros(3, 4), torch.zeros(2).long()),
        r"^logits and target must .*got \(3, 4\) and \(2,\)",
    ),
    "ids for a batch": (
        lambda: language_loss(lm(), IDS),
        r"^batch must have target_in, target_out, as a NamedTuple or a mapping, got Tensor",
    ),
    "a batch without targets": (
        lambda: token_loss(translator(), {"source": IDS, "lengths": LENGTHS}),
        r"^batch must have source.*got dict without target_in, target_out$",
    ),
    "ids for batches": (
        lambda: perplexity(lm(), IDS),
        r"^batches must have a length and a method batch\(k\).*got Tensor",
    ),
    "a seed for a generator": (
        lambda: generate(lm(), [[1]], max_new_tokens=1, generator=0),
        r"^generator must be a torch.Generator, got 0",
    ),
    "a width for heads that do not divide it": (
        lambda: decoder_parts(18, 4, 32),
        r"^d_model must be a multiple of num_heads.*got 18 and 4",
    ),
    "nothing that may be written": (
        lambda: generate(
            TransformerLM(
                3, paper_parts(8, 2, 16), num_layers=1, token_ids=TokenIds(forbidden=range(3))
            ),
            [[1]],
            max_new_tokens=1,
        ),
        r"^token_ids must leave a token that may be written, got all 3 forbidden",
    ),
    "weights from nowhere": (
        lambda: load_model_weights(lm(), "nowhere.safetensors"),
        r"nowhere.safetensors",
    ),
    "fewer answers than references": (
        lambda: exact_match([["a"]], [["a"], ["b"]]),
        r"^predictions must be as many as references, 2, got 1",
    ),
    "a list of words for a text": (lambda: bleu([["a"]], ["a"]), r"^hypotheses must .*got"),
    "nothing to measure": (lambda: perplexity(lm(), _Nothing()), r"^batches must .*got none"),
}


class _Nothing:
    def batch(self, step):
        raise AssertionError("there is none")

    def __len__(self):
        return 0


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_answered_with_the_argument_and_what_came(name):
    call, words = CALLS[name]
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        call()


def test_there_are_sixty():
    assert len(CALLS) >= 60
