"""Documents of several sentences with a class: film reviews, synthetic and real."""

import random
import zipfile
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_range, check_seed, plain_number, require
from .. import datasets
from ..endless_batches import EpochBatches, drawn
from ..sequences.batches import pad_rows
from ..sequences.vocabulary import PAD, Vocabulary

CLASSES = ("negative", "positive")

GOOD = ("wonderful", "brilliant", "charming", "gripping", "superb", "moving")
BAD = ("dreadful", "boring", "clumsy", "tedious", "awful", "lifeless")
FILMS = ("film", "picture", "movie")
OTHERS = ("trailer", "book", "poster", "cinema", "weather", "sequel", "soundtrack", "dinner")
OPENINGS = ("to my mind", "in short", "all in all", "i think", "for me", "in the end")
FACTS = (
    "we saw it on a rainy evening",
    "the story begins in a small town by the sea",
    "it runs for two hours and ten minutes",
    "the director also wrote the script",
    "most of it was shot in one house",
    "the cast is young and little known",
    "a lawyer looks for her brother",
    "there were twelve people in the room",
    "it is the third part of a series",
    "the camera follows a dog through the streets",
    "it was made for very little money",
    "nobody spoke on the way home",
)


class Document(NamedTuple):
    """A text in sentences.

    Attributes:
        sentences: tuples of words
        label: 0 (negative) or 1 (positive), an index into `CLASSES`
        deciding: (sentence, word) of the one word that decides, where it is known
    """

    sentences: tuple[tuple[str, ...], ...]
    label: int
    deciding: tuple[int, int] | None = None


def generate(
    count: int, *, seed: int, sentences: tuple[int, int] = (4, 8), others: tuple[int, int] = (1, 3)
) -> list[Document]:
    """Reviews in which one word decides: the adjective in the one sentence about the film.

    Each document has that sentence, sentences about other things (a book, the weather) with
    adjectives of the same list and of independent polarity, and plain facts. So no word decides by
    itself: the same "boring" decides about the film and is irrelevant for the dinner.

    Args:
        sentences: (least, most) sentences
        others: (least, most) of them about other things
    """
    check_integer("count", count, 0)
    check_range("sentences", sentences)
    check_range("others", others, 0)
    room = f"room for one about the film and {others[1]} others"
    require(sentences[0] > others[1], f"sentences must leave {room}, got {sentences!r}")
    most = len(FACTS) + 1 + others[0]
    require(
        sentences[1] <= most,
        f"sentences must leave room for at most {len(FACTS)} facts, all different, beside one "
        f"about the film and {others[0]} others: at most {most}, got {sentences!r}",
    )
    generator = random.Random(check_seed(seed))
    return [_document(generator, sentences, others) for _ in range(count)]


def _document(
    generator: random.Random, sentences: tuple[int, int], others: tuple[int, int]
) -> Document:
    def opinion(thing: str, word: str) -> tuple[str, ...]:
        opening = generator.choice(OPENINGS).split() if generator.random() < 0.5 else []
        really = ["really"] if generator.random() < 0.3 else []
        return (*opening, "the", thing, "was", *really, word)

    label = generator.randrange(2)
    deciding = opinion(generator.choice(FILMS), generator.choice((BAD, GOOD)[label]))
    rows = [
        opinion(generator.choice(OTHERS), generator.choice(GOOD + BAD))
        for _ in range(generator.randint(*others))
    ]
    plain = generator.randint(*sentences) - len(rows) - 1
    rows += [tuple(fact.split()) for fact in generator.sample(FACTS, plain)]
    generator.shuffle(rows)
    place = generator.randint(0, len(rows))
    rows.insert(place, deciding)
    return Document(tuple(rows), label, (place, len(deciding) - 1))


def movie_reviews() -> list[Document]:
    """The polarity data set of Pang and Lee (2004): 1,000 positive and 1,000 negative film reviews,
    one sentence per line, in lower case and with punctuation apart. In the order of the files:
    negative first."""
    documents_read = []
    with zipfile.ZipFile(datasets.fetch("movie_reviews", "movie_reviews.zip")) as archive:
        names = [name for name in archive.namelist() if name.endswith(".txt")]
        for name in sorted(name for name in names if name.split("/")[-2] in ("neg", "pos")):
            lines = archive.read(name).decode("utf-8", errors="replace").split("\n")
            rows = tuple(tuple(line.split()) for line in lines if line.split())
            if rows:
                documents_read.append(Document(rows, int("/pos/" in name)))
    expected = "movie_reviews/neg/*.txt and pos/*.txt"
    require(len(documents_read) > 0, f"movie_reviews.zip holds no review: expected {expected}")
    return documents_read


def sentence_polarity() -> list[Document]:
    """The sentence polarity data set of Pang and Lee (2005): 5,331 negative and as many positive
    sentences from short reviews of films, in lower case and with punctuation apart, each as a
    document of one sentence. Negative first."""
    files = (datasets.fetch("rt-polarity", f"rt-polarity.{name}") for name in ("neg", "pos"))
    texts = (path.read_text(encoding="cp1252").split("\n") for path in files)
    rows = ((tuple(line.split()), label) for label, text in enumerate(texts) for line in text)
    return [Document((words,), label) for words, label in rows if words]


def split(
    documents: Sequence[Document], sizes: Sequence[int], seed: int = 0
) -> list[list[Document]]:
    """Random parts of the given sizes, each with as many documents of one class as of the other."""
    whole = [plain_number(size) for size in sizes]
    even = all(isinstance(size, int) and size >= 0 and size % 2 == 0 for size in whole)
    require(even, f"sizes must be even numbers >= 0, half for each class, got {list(sizes)!r}")
    generator = random.Random(check_seed(seed))
    parts: list[list[Document]] = [[] for _ in sizes]
    for label in range(len(CLASSES)):
        chosen = [document for document in documents if document.label == label]
        half, n = sum(sizes) // 2, len(chosen)
        require(n >= half, f"sizes ask for {half} documents of class {label}, there are {n}")
        generator.shuffle(chosen)
        for part, size in zip(parts, sizes):
            part += chosen[: size // 2]
            del chosen[: size // 2]
    return parts


class DocumentBatch(NamedTuple):
    """B documents as int64, padded with PAD=0, ``(B, sentences, words)``; lengths
    ``(B, sentences)``, the words of each sentence, 0 for padding; and label ``(B,)``.
    """

    documents: Tensor
    lengths: Tensor
    label: Tensor


@drawn
def collate_documents(
    documents: Sequence[Document],
    vocab: Vocabulary,
    *,
    max_sentences: int | None = None,
    max_words: int | None = None,
) -> DocumentBatch:
    """One batch; longer documents and sentences are cut off at the end."""
    return _pad(_encode(documents, vocab, max_sentences, max_words))


def _encode(documents, vocab, max_sentences, max_words):
    """For each document the ids of its sentences, and its label."""
    require(len(documents) > 0, "documents must hold at least one document, got none")
    cut = [(document.sentences[:max_sentences], document.label) for document in documents]
    return [([vocab.encode(row[:max_words]) for row in rows], label) for rows, label in cut]


def _pad(encoded) -> DocumentBatch:
    n = max(1, *(len(rows) for rows, _ in encoded))
    filled = [[*rows, *[[]] * (n - len(rows))] for rows, _ in encoded]
    # after them a row of one word: that is the least width
    words = pad_rows([*(row for rows in filled for row in rows), [PAD]])[:-1]
    lengths = torch.tensor([[len(row) for row in rows] for rows in filled])
    labels = torch.tensor([label for _, label in encoded])
    return DocumentBatch(words.unflatten(0, (-1, n)), lengths, labels)


class DocumentBatches(EpochBatches[DocumentBatch]):
    """Endless batches of documents; ``bucket`` puts documents of like length together.

    Other arguments as in :func:`collate_documents`.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        vocab: Vocabulary,
        batch_size: int,
        seed: int = 0,
        *,
        bucket: bool = False,
        max_sentences: int | None = None,
        max_words: int | None = None,
    ):
        encoded = _encode(documents, vocab, max_sentences, max_words)
        super().__init__(
            lambda indices: _pad([encoded[i] for i in indices]),
            len(encoded),
            batch_size,
            seed,
            length=(lambda i: len(encoded[i][0])) if bucket else None,
            shuffle_batches=True,
        )
