"""Random texts, right and wrong, cut in blocks of a few bytes: what read_ratings gives or complains of, to the letter."""

import os
import random

import pytest

import starcast as sc
from starcast.distributed import cutting, parts, texts

N_TEXTS = 12
STRANGE = ["", '"', "'", '1"2', '"x', " 7 ", "a", "b", "é", "007", "-3", "x y"]
QUOTED = ["q", "1", "a{sep}b", "two\nlines", 'd""e', ""]
TIMES = ["5", "60", "700", "2005-09-06", "1125964800000", "2005-09-06 12:30", "1970-01-01T00:01:00Z"]
RATINGS = ["1", "2", "3", "4", "5"] * 6 + ["x", "nan", "1e400", "2.5", '"3"']


def draw_text(draw):
    """Lines of fields, most of them good; the first tells the separator and opens no quote."""
    sep = draw.choice([",", "::", "\t", ";", " "])
    timed, floats = draw.random() < 0.4, draw.random() < 0.3
    number = (lambda: f"{draw.randint(0, 4)}.0") if floats else (lambda: str(draw.randint(0, 20)))

    def field():
        kind = draw.random()
        if kind < 0.7 or floats:
            return str(draw.randint(0, 4)) if floats and kind < 0.1 else number()
        return f'"{draw.choice(QUOTED).format(sep=sep)}"' if kind < 0.9 else draw.choice(STRANGE[draw.choice([0, 6]) :])

    lines = [draw.choice([["user", "item", "rating"] + ["date"] * timed, ["1", "2", "3"] + ["9"] * timed])]
    for _ in range(draw.randint(1, 25)):
        row = [field(), field(), draw.choice(RATINGS)]
        row += [draw.choice(TIMES)] * timed
        more = [draw.choice(["99", "later"])] if draw.random() < 0.1 else []
        lines.append([""] if draw.random() < 0.05 else row[: draw.choice([len(row)] * 30 + [2])] + more)
    text = draw.choice(["\n", "\r\n"]).join(map(sep.join, lines)) + draw.choice(["", "\n", "\n\n"])
    content = (draw.choice(["", "", "\ufeff"]) + text).encode()
    return content.replace(b"a", b"\xff", 1) if draw.random() < 0.03 else content


def outcome(read):
    try:
        return read()
    except sc.StarcastError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("seed", range(3))
def test_blocks_say_what_the_whole_says(seed, tmp_path, monkeypatch):
    draw = random.Random(seed)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(parts, "TEXT_SHARE", 1 << 40)
    file = tmp_path / "t.csv"
    for number in range(N_TEXTS):
        monkeypatch.setattr(texts, "SHORTEST", draw.choice([16, 24, 40, 100]))
        monkeypatch.setattr(cutting, "BUCKET_SHARE", draw.choice([100, (1 << 30) // 5]))
        file.write_bytes(draw_text(draw))
        options = {
            "on_bad": draw.choice(["error", "skip"]),
            "duplicates": draw.choice(["error", "first", "last", "mean"]),
        }
        options |= {"scores": [1, 2, 3, 4]} if draw.random() < 0.2 else {}
        options |= {"ids": "text"} if draw.random() < 0.2 else {}
        options |= {"off_scale": "nearest"} if draw.random() < 0.2 else {}
        whole = outcome(lambda options=options: sc.read_ratings(file, **options).digest())
        if "holds no rating" in str(whole):
            continue  # a part may be empty
        cut = tmp_path / f"cut{number}"
        assert outcome(lambda options=options, cut=cut: sc.cut_ratings(file, cut, **options).digest) == whole
