"""Pictures of the documentation say what the library does, in both languages, and are described in a sentence."""

import re
import sys
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from pages import ROOT

import gatedrnn
from gatedrnn.registry import CELLS
from gatedrnn.study.settings import LADDERS

sys.path.insert(0, str(ROOT / "docs"))
import figures
import pictures
from pictures import sequences, words

EVERY = pictures.every()


def labels(svg):
    """The words of a picture, indices apart."""
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(text.itertext()).replace("\u200b", "") for text in texts]


@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_picture_is_drawn_in_the_colour_of_the_text_and_says_itself_in_a_sentence(language):
    for name, stage in EVERY:
        svg = pictures.picture(name, stage, language)
        root = ElementTree.fromstring(svg)
        said = root.get("aria-label")
        assert root.get("role") == "img" and len(said) > 20 and said.endswith("."), (name, stage)
        colours = set(re.findall(r'(?:stroke|fill)="([^"]+)"', svg))
        assert colours <= {"none", "currentColor", "var(--color-brand-content, #2f7fd6)"}, colours


def test_the_picture_of_the_readmes_is_the_present_one():
    for language in ("en", "ko"):
        kept = (ROOT / "docs" / "static" / f"mingru.{language}.svg").read_text(encoding="utf-8")
        assert kept == pictures.picture("mingru", 0, language, own_file=True) + "\n", "python docs/pictures writes it"


def test_labels_are_words_in_one_table_of_translations():
    for name, stage in EVERY:
        english, korean = (labels(pictures.picture(name, stage, language)) for language in ("en", "ko"))
        kept = [word for word in english if word in korean and re.search(r"[a-z]{3}", word)]
        assert [word for word in kept if word not in ("tanh", "tanh g", "tanh n")
                and not hasattr(gatedrnn, word)] == [], (name, stage)  # fmt: skip
    drawn = {word for name, stage in EVERY for word in labels(pictures.picture(name, stage))}
    assert {word.replace("_", "") for word in words.KOREAN} <= drawn, "a translation that nothing uses"
    assert set(words.DESCRIPTIONS) == {f"{name} {stage}" if stage else name for name, stage in EVERY}


def test_the_steps_of_a_ladder_are_those_of_the_library():
    for name, steps in sequences.LADDERS.items():
        assert [cell for cell, _ in steps] == [CELLS[cell].layer.__name__ for cell in LADDERS[name]]


def test_the_last_round_of_the_scan_has_the_states():
    decays, drives = (torch.tensor([[[value] for value in each]]) for each in (sequences.DECAYS, sequences.DRIVES))
    states, _ = gatedrnn.linear_scan(decays, drives)
    assert [b for _, b in sequences.rounds_of_scan(sequences.DECAYS, sequences.DRIVES)[-1]] == states.flatten().tolist()


def test_files_follow_the_theme_of_the_system_and_a_name_that_is_none_is_refused(tmp_path):
    pictures.write(tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert len(files) == 2 * len(EVERY) and "lstm-2.ko.svg" in files
    assert all("prefers-color-scheme" in path.read_text() for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match="no picture 'lstm' 4"):
        pictures.picture("lstm", 4)


def test_a_figure_of_a_notebook_has_the_colour_of_the_page_a_sentence_and_names_of_its_own(tmp_path):
    with matplotlib.rc_context(figures.DRAWN):
        figure, axes = plt.subplots()
        axes.plot([1, 2], color="black", label="a line")
        axes.set_title("letters")
        axes.legend()
        figure.savefig(tmp_path / "figure.svg")
        plt.close(figure)
    svg = (tmp_path / "figure.svg").read_text()
    one, other = (ElementTree.fromstring(figures.inline(svg, 'a "line"', number)) for number in (1, 2))
    assert one.get("role") == "img" and one.get("aria-label") == 'a "line"'
    text = ElementTree.tostring(one, "unicode")
    assert "currentColor" in text and figures.INK not in text and "#000000" not in text
    assert "letters" in "".join(one.itertext()), "text stays text"
    first, second = ({element.get("id") for element in each.iter()} - {None} for each in (one, other))
    assert first and not first & second
    used = re.findall(r"url\(#([^)]+)\)", text) + re.findall(r'href="#([^"]+)"', text)
    assert used and set(used) <= first
