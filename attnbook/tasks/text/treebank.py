"""A synthetic treebank: sentences with their dependency trees, exact because a grammar draws them.

    the old dogs near the house that the farmer likes sleep .

Every word has a head; that of the main verb is −1, the root. A noun is the head of its article, its
adjectives and its modifiers; a verb is the head of its subject, its object, its *that* and the full
stop. Any noun may have modifiers after it, so they follow one another or are nested.
"""

import random
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_range, check_seed, require
from ..endless_batches import GeneratedBatches, drawn, text_generator
from ..sequences.batches import pad_rows
from ..sequences.vocabulary import PAD, Vocabulary
from ..translation import phrases
from .sentences import ANIMATE, INTRANSITIVE, NOUNS, PLACES, TRANSITIVE

ADJECTIVES = tuple(adjective.english for adjective in phrases.BEFORE + phrases.COLOURS)
# both forms of a verb from either
_FORMS = {form: pair for pair in INTRANSITIVE + TRANSITIVE for form in pair}


class Tree(NamedTuple):
    """A sentence of n words with its tree.

    Attributes:
        words: n words
        heads: n positions: of each word that of its head, −1 for the root
        relations: n names: det, amod, case, nmod, nsubj, obj, acl, mark, punct, root (those of
            Universal Dependencies)
        decided: n positions: of each verb that of the noun which decides its number, −1 for other
            words
    """

    words: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    decided: tuple[int, ...]

    @property
    def main_verb(self) -> int:
        """The position of the root."""
        return self.heads.index(-1)


class _Builder:
    """Builds a sentence from left to right; heads are filled in once they are known."""

    def __init__(self, generator: random.Random, adjectives: tuple[int, int]) -> None:
        self.generator, self.adjectives = generator, adjectives
        self.words: list[str] = []
        self.heads: list[int] = []
        self.relations: list[str] = []
        self.decided: list[int] = []
        self.plural: dict[int, bool] = {}

    def add(self, word: str, relation: str = "") -> int:
        self.words.append(word)
        self.relations.append(relation)
        self.heads.append(-1)
        self.decided.append(-1)
        return len(self.words) - 1

    def hang(self, word: int, head: int, relation: str) -> None:
        self.heads[word], self.relations[word] = head, relation

    def noun(self, nouns: tuple[str, ...], insertions: int) -> int:
        """A noun phrase with so many insertions; the position of its noun, still without head."""
        draw = self.generator
        before = [self.add("the", "det")]
        wanted = draw.randint(*self.adjectives)
        before += [self.add(adjective, "amod") for adjective in draw.sample(ADJECTIVES, wanted)]
        plural = draw.random() < 0.5
        at = self.add(draw.choice(nouns) + ("s" if plural else ""))
        self.plural[at] = plural
        for word in before:
            self.heads[word] = at
        while insertions:
            within = draw.randint(0, insertions - 1)  # so many of the others are nested in this one
            self.insertion(at, within)
            insertions -= 1 + within
        return at

    def insertion(self, noun: int, within: int) -> None:
        kind = self.generator.randrange(3)
        if kind == 0:  # near the house
            case = self.add(self.generator.choice(PLACES), "case")
            other = self.noun(NOUNS, within)
            self.heads[case] = other
            self.hang(other, noun, "nmod")
            return
        mark = self.add("that", "mark")
        if kind == 1:  # that the farmer likes
            other = self.noun(ANIMATE, within)
            verb = self.verb(TRANSITIVE, other)
            self.hang(other, verb, "nsubj")
        else:  # that likes the farmer
            verb = self.verb(TRANSITIVE, noun)
            self.hang(self.noun(ANIMATE, within), verb, "obj")
        self.heads[mark] = verb
        self.hang(verb, noun, "acl")

    def verb(self, verbs: tuple[tuple[str, str], ...], subject: int) -> int:
        at = self.add(self.generator.choice(verbs)[self.plural[subject]])
        self.decided[at] = subject
        return at


def sentence(
    generator: random.Random,
    *,
    insertions: tuple[int, int] | int = (0, 2),
    adjectives: tuple[int, int] | int = (0, 2),
) -> Tree:
    """One sentence with its tree.

    Args:
        insertions: (fewest, most) modifiers of the nouns of the subject, in a row or nested; or one
            number
        adjectives: (fewest, most) adjectives of each noun
    """
    fewest, most = check_range("insertions", insertions, 0)
    few, many = check_range("adjectives", adjectives, 0)
    limit = len(ADJECTIVES)
    require(many <= limit, f"adjectives must not exceed {limit}, got {adjectives!r}")
    built = _Builder(generator, (few, many))
    subject = built.noun(ANIMATE, generator.randint(fewest, most))
    with_object = generator.random() < 0.5
    verb = built.verb(TRANSITIVE if with_object else INTRANSITIVE, subject)
    built.hang(subject, verb, "nsubj")
    built.relations[verb] = "root"
    if with_object:
        built.hang(built.noun(ANIMATE, 0), verb, "obj")
    built.hang(built.add("."), verb, "punct")
    words, heads = tuple(built.words), tuple(built.heads)
    return Tree(words, heads, tuple(built.relations), tuple(built.decided))


def treebank(count: int, *, seed: int, **options) -> list[Tree]:
    """``count`` sentences drawn from one seed; they may repeat. Options as in :func:`sentence`."""
    generator = random.Random(check_seed(seed))
    return [sentence(generator, **options) for _ in range(check_integer("count", count, 0))]


def tokens() -> tuple[str, ...]:
    """Every word of the grammar, in code-point order."""
    plurals = (noun + "s" for noun in NOUNS)
    return tuple(sorted({"the", "that", ".", *PLACES, *NOUNS, *plurals, *ADJECTIVES, *_FORMS}))


class TreeBatch(NamedTuple):
    """B sentences whose verbs have lost their number, as CPU tensors of int64, padded with 0.

    Attributes:
        tokens: (B, n) the words, each verb in the form of the plural, which does not show its
            number
        lengths: (B,) number of words
        heads: (B, n) position of the head; −1 for the root and at the padding
        target: (B, n) at each verb the form that agrees with its subject, PAD elsewhere
    """

    tokens: Tensor
    lengths: Tensor
    heads: Tensor
    target: Tensor


@drawn
def collate_trees(trees: list[Tree], vocabulary: Vocabulary) -> TreeBatch:
    """One batch."""
    require(len(trees) > 0, "trees must hold at least one tree, got none")
    shown, wanted = [], []
    for tree in trees:
        verb = [subject >= 0 for subject in tree.decided]
        words = [_FORMS[word][1] if v else word for word, v in zip(tree.words, verb)]
        shown.append(vocabulary.encode(words))
        wanted.append([i if v else PAD for i, v in zip(vocabulary.encode(tree.words), verb)])
    lengths = torch.tensor([len(tree.words) for tree in trees])
    heads = pad_rows([tree.heads for tree in trees], -1)
    return TreeBatch(pad_rows(shown), lengths, heads, pad_rows(wanted))


class TreeBatches(GeneratedBatches[TreeBatch]):
    """Endless batches of new sentences; options as in :func:`sentence`."""

    def __init__(self, vocabulary: Vocabulary, batch_size: int, seed: int = 0, **options) -> None:
        def draw(count: int, generator: random.Random) -> TreeBatch:
            return collate_trees([sentence(generator, **options) for _ in range(count)], vocabulary)

        super().__init__(draw, batch_size, seed, text_generator)
