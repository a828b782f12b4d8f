"""The treebank's sentences parsed again by rules written here, and batches with their trees."""

import random

from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.tasks import PAD, Vocabulary
from attnbook.tasks.text.treebank import TreeBatches, collate_trees, sentence, tokens, treebank

SINGULAR = {"sleeps", "sings", "waits", "smiles", "sees", "likes", "knows", "hears"}
PLURAL = {verb[:-1] for verb in SINGULAR}
VERBS = SINGULAR | PLURAL
TRANSITIVE = {"sees", "likes", "knows", "hears", "see", "like", "know", "hear"}
PLACES = {"near", "behind", "beside"}
NOUNS = set("boy girl dog cat horse farmer doctor king sailor house tree boat".split())
VOCABULARY = Vocabulary(tokens())


def is_noun(word):
    return word in NOUNS or word.removesuffix("s") in NOUNS


class Parser:
    """Recursive descent over one sentence, told only which noun an insertion belongs to."""

    def __init__(self, tree):
        self.words, self.told, self.at = tree.words, tree.heads, 0
        self.heads, self.subjects = [None] * len(tree.words), [-1] * len(tree.words)
        self.insertions = 0
        subject = self.noun_phrase()
        verb = self.verb(subject, -1)
        self.heads[subject] = verb
        if self.words[verb] in TRANSITIVE and self.words[self.at] == "the":
            self.heads[self.noun_phrase()] = verb
        assert self.words[self.at] == "." and self.at == len(self.words) - 1
        self.heads[self.at] = verb

    def take(self):
        self.at += 1
        return self.at - 1

    def verb(self, subject, head):
        at = self.take()
        assert self.words[at] in VERBS
        self.heads[at], self.subjects[at] = head, subject
        return at

    def noun_phrase(self):
        assert self.words[self.at] == "the"
        before = [self.take()]
        while not is_noun(self.words[self.at]):
            before.append(self.take())
        noun = self.take()
        for word in before:
            self.heads[word] = noun
        while self.words[self.at] in PLACES | {"that"} and self.belongs(noun):
            self.insertion(noun)
        return noun

    def belongs(self, noun):
        """Whether what comes next hangs on this noun and not on one further out, as is told."""
        return self.told[self.told[self.at]] == noun

    def insertion(self, noun):
        self.insertions += 1
        opener = self.take()
        if self.words[opener] in PLACES:
            other = self.noun_phrase()
            self.heads[opener], self.heads[other] = other, noun
        elif self.words[self.at] == "the":
            other = self.noun_phrase()
            verb = self.verb(other, noun)
            self.heads[other] = self.heads[opener] = verb
        else:
            verb = self.verb(noun, noun)
            self.heads[opener] = verb
            self.heads[self.noun_phrase()] = verb


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 7), st.integers(0, 3))
def test_every_sentence_parses_to_its_tree_and_every_verb_agrees(seed, insertions, adjectives):
    tree = sentence(random.Random(seed), insertions=insertions, adjectives=adjectives)
    parsed = Parser(tree)
    assert tuple(parsed.heads) == tree.heads and tuple(parsed.subjects) == tree.decided
    assert parsed.insertions == insertions
    for word, subject in zip(tree.words, tree.decided):
        assert (subject >= 0) == (word in VERBS)
        if subject >= 0:
            assert is_noun(tree.words[subject])
            assert (word in PLURAL) == tree.words[subject].endswith("s")
    assert tree.words[tree.main_verb] in VERBS and tree.relations[tree.main_verb] == "root"
    assert tree.relations.count("root") == 1 and set(tree.words) <= set(tokens())


@given(st.integers(0, 10**5))
def test_no_two_branches_cross_and_relations_fit_their_words(seed):
    tree = sentence(random.Random(seed), insertions=4)
    spans = [(min(k, head), max(k, head)) for k, head in enumerate(tree.heads) if head >= 0]
    assert not any(a < c < b < d for a, b in spans for c, d in spans)
    for word, head, relation in zip(tree.words, tree.heads, tree.relations):
        assert {
            "det": word == "the",
            "case": word in PLACES,
            "mark": word == "that",
            "punct": word == ".",
            "nmod": is_noun(word),
            "nsubj": is_noun(word),
            "obj": is_noun(word),
            "acl": word in TRANSITIVE,
            "root": word in VERBS,
            "amod": not is_noun(word) and word not in VERBS,
        }[relation]
        if head >= 0 and relation in ("nsubj", "obj", "mark", "punct"):
            assert tree.words[head] in VERBS


def test_insertions_stand_behind_and_within_one_another():
    trees = treebank(300, seed=0, insertions=2)
    nested = [max(_depth(tree.heads, k) for k in range(len(tree.words))) for tree in trees]
    assert min(nested) == 3 and max(nested) >= 5
    assert {len(set(tree.relations) & {"nmod", "acl"}) for tree in trees} == {1, 2}


def _depth(heads, k):
    return 0 if heads[k] < 0 else 1 + _depth(heads, heads[k])


def test_a_batch_hides_the_number_of_verbs_and_keeps_the_trees():
    trees = treebank(40, seed=3, insertions=(0, 3))
    batch = collate_trees(trees, VOCABULARY)
    for b, tree in enumerate(trees):
        n = len(tree.words)
        shown = [VOCABULARY.tokens[i] for i in batch.tokens[b, :n].tolist()]
        assert batch.lengths[b] == n and batch.heads[b, :n].tolist() == list(tree.heads)
        assert (batch.tokens[b, n:] == PAD).all() and (batch.heads[b, n:] == -1).all()
        assert (batch.target[b, n:] == PAD).all()
        for k, (word, seen) in enumerate(zip(tree.words, shown)):
            wanted = int(batch.target[b, k])
            assert seen not in SINGULAR
            if word in VERBS:
                assert VOCABULARY.tokens[wanted] == word
                assert seen in PLURAL and seen == word.removesuffix("s")
            else:
                assert wanted == PAD and seen == word


test_bad_input_is_named = refusals(
    ("count", lambda: treebank(-1, seed=0)),
    ("insertions", lambda: treebank(1, seed=0, insertions=(3, 1))),
    ("adjectives", lambda: treebank(1, seed=0, adjectives=99)),
    ("insertions", lambda: TreeBatches(VOCABULARY, 2, insertions=-1)),
    ("trees", lambda: collate_trees([], VOCABULARY)),
)
