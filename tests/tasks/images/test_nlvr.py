"""NLVR: first on a small file made here, then, where the data is at hand, on the real one."""

import json

import torch
from assertions import assert_refused
from task_data import real

from attnbook.tasks import UNK
from attnbook.tasks.images import nlvr
from attnbook.tasks.images.captioned_pictures import Box
from attnbook.tasks.images.nlvr import Item, Statement

SCENE = [
    [(10, 20, 20, "square", "Yellow")],
    [(0, 70, 30, "circle", "#0099ff"), (60, 0, 10, "square", "Black")],
    [(90, 90, 10, "triangle", "Black")],
]


def test_true_statements_are_read_with_their_items(mirror):
    keys = ("x_loc", "y_loc", "size", "type", "color")
    scene = [[dict(zip(keys, item)) for item in box] for box in SCENE]
    rows = [
        {"sentence": s, "label": label, "identifier": i, "structured_rep": scene}
        for s, label, i in (("There is a box.", "true", "12-3"), ("Not so.", "false", "13-0"))
    ]
    mirror("nlvr", "nlvr/dev/dev.json", "\n".join(map(json.dumps, rows)).encode())
    (found,) = nlvr.read("dev")
    assert (found.sentence, found.identifier) == ("There is a box.", "12")
    assert found.boxes == (
        (Item(10, 20, 20, "square", "yellow"),),
        (Item(0, 70, 30, "circle", "blue"), Item(60, 0, 10, "square", "black")),
        (Item(90, 90, 10, "triangle", "black"),),
    )
    assert_refused("file", nlvr.read, "train")


def test_the_picture_is_drawn_from_the_description():
    boxes = (
        (Item(0, 50, 50, "square", "yellow"),),
        (Item(25, 25, 50, "circle", "blue"),),
        (Item(0, 0, 100, "triangle", "black"),),
    )
    data = nlvr.captioned([Statement("A yellow square, 2 circles; one triangle!", "1", boxes)])
    (picture,) = data.pictures
    assert picture.shape == (3, 48, 192) and picture.dtype == torch.uint8

    def colour(y, x):
        return tuple(picture[:, y, x].tolist())

    # between the boxes
    assert {colour(y, x) for y in (0, 47) for x in (48, 71, 120, 143)} == {(128, 128, 128)}
    assert colour(24, 0) == colour(47, 23) == (255, 255, 0)
    assert colour(23, 0) == colour(24, 24) == (211, 211, 211)
    # the circle has no corner
    assert colour(24, 72 + 24) == (0, 153, 255) and colour(12, 72 + 12) == (211, 211, 211)
    assert colour(13, 72 + 24) == (0, 153, 255) and colour(11, 72 + 24) == (211, 211, 211)
    assert colour(46, 144 + 2) == colour(6, 144 + 24) == (0, 0, 0)
    assert colour(2, 144 + 2) == (211, 211, 211)
    assert data.captions == [("a", "yellow", "square", "2", "circles", "one", "triangle")]
    square = (Box(0, 24, 24, 48),)
    circle = (Box(84, 12, 108, 36),)
    triangle = (Box(144, 0, 192, 48),)
    assert data.boxes == [((), square, square, (), circle, (), triangle)]


def test_a_word_means_every_object_of_its_colour_or_shape_in_every_box():
    boxes = (
        (Item(0, 0, 20, "square", "black"),),
        (Item(50, 50, 10, "square", "blue"),),
        (Item(0, 0, 10, "circle", "black"),),
    )
    assert nlvr.named("black", boxes) == (nlvr.place(boxes[0][0], 0), nlvr.place(boxes[2][0], 2))
    assert nlvr.named("squares", boxes) == (nlvr.place(boxes[0][0], 0), nlvr.place(boxes[1][0], 1))
    assert nlvr.named("triangle", boxes) == nlvr.named("tower", boxes) == ()


def test_all_orders_of_the_boxes():
    boxes = tuple((Item(0, 0, 100, "square", c),) for c in ("yellow", "black", "blue"))
    data = nlvr.captioned([Statement("yellow", "1", boxes)], permute=True)
    seen = {tuple(tuple(p[:, 24, x].tolist()) for x in (24, 96, 168)) for p in data.pictures}
    assert len(data) == 6 and len(seen) == 6
    for picture, ((box,),) in zip(data.pictures, data.boxes):
        inside = picture[:, box.top : box.bottom, box.left : box.right].flatten(1)
        assert inside.T.unique(dim=0).tolist() == [[255, 255, 0]]


def test_the_split_shares_no_sentence_and_no_identifier():
    sentences = [
        Statement(f"{'Sentence' if k % 2 else 'sentence'} {k // 3}.", str(k // 4), ((), (), ()))
        for k in range(240)
    ]
    parts = nlvr.split(sentences, (0.2, 0.2), seed=1)
    assert sorted(s for part in parts for s in part) == sorted(sentences)
    for key in (lambda s: nlvr.words(s.sentence), lambda s: s.identifier):
        a, b, c = ({key(s) for s in part} for part in parts)
        assert not a & b and not a & c and not b & c
    assert all(24 < len(part) <= 48 for part in parts[1:])
    again, other = (nlvr.split(sentences, (0.2, 0.2), seed=seed) for seed in (1, 2))
    assert again == parts != other
    assert_refused("shares", nlvr.split, sentences, (0.5, 0.5))


def test_rare_words_are_unknown_and_bad_input_is_named():
    data = nlvr.captioned([Statement("box box box odd", "1", ((), (), ()))])
    common, rare = nlvr.vocabulary(data).encode(("box", "odd"))
    assert rare == UNK != common
    assert_refused("statements", nlvr.captioned, [])
    assert_refused("shape", lambda: nlvr.draw_box([Item(0, 0, 10, "star", "blue")]))


@real
def test_the_real_corpus():
    read = [nlvr.read(file) for file in nlvr.FILES]
    assert [len(part) for part in read] == [547, 556, 546]
    train, valid, test = nlvr.split([s for part in read for s in part])
    assert 140 < len(valid) <= 164 and 140 < len(test) <= 164
    data = nlvr.captioned(test)
    assert sum(bool(b) for boxes in data.boxes for b in boxes) > 200
    assert all(data.alignment(nlvr.GRID))
