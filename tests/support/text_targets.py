"""Texts with a label, several, a number, and a tag for each word, all of which follow from the words."""

import json
import random
from pathlib import Path
from typing import Any

GENRES = {"comic": ("joke", "laugh", "pun"), "long": ("hours", "endless", "slow"), "war": ("tank", "siege", "army")}
FILLING = "it was the a film we saw in of and".split()
TAGS = {"the": "DET", "a": "DET", "dog": "N", "cat": "N", "sees": "V", "runs": "V", "red": "ADJ"}


def films(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of a text, its genres, which may be none, and a score."""
    own, rows = random.Random(seed), list[dict[str, Any]]()
    for _ in range(count):
        genres = [genre for genre in GENRES if own.random() < 0.4]
        words = [own.choice(GENRES[genre]) for genre in genres] + own.choices(FILLING, k=5)
        own.shuffle(words)
        score = 5 + 2 * ("comic" in genres) - 3 * ("long" in genres) + own.gauss(0, 0.1)
        rows.append({"text": " ".join(words), "genres": genres, "score": round(score, 3)})
    return rows


def sentences(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of words, each with its tag; names are many, and begin with a capital."""
    own = random.Random(seed)
    rows = []
    for _ in range(count):
        words = own.choices([*TAGS, "Name"], k=own.randint(1, 9))
        tags = [TAGS.get(word, "NAME") for word in words]
        words = [f"Name{own.randrange(40)}" if word == "Name" else word for word in words]
        rows.append({"tokens": words, "tags": tags})
    return rows


MOODS = "the a film plot actor good fine great bad dull awful tedious lovely boring".split()


def moods(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of a text and its mood; one text has a word that no other has."""
    own, rows = random.Random(seed), list[dict[str, Any]]()
    for number in range(count):
        words = own.choices(MOODS, k=own.randint(1, 8)) + ["boringly!"] * (number == 5)
        up = not {"good", "fine", "great", "lovely"}.isdisjoint(words)
        rows.append({"text": " ".join(words), "label": "up" if up else "down"})
    return rows


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
