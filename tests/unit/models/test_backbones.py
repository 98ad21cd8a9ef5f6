"""Backbones that replace recurrent layers keep the contract: shapes, masks, directions, texts, folders."""

import importlib.util
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from gatedrnn.errors import ContenderFails
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM, GatedRNNForSequenceClassification
from gatedrnn.models.backbones import BACKBONES, enter
from gatedrnn.models.structure import count_parameters, describe_structure
from gatedrnn.registry import CELLS
from gatedrnn.trust import trusting

OWN = Path(__file__).parents[3] / "examples" / "own_contender.py"
FAILING = """from torch import nn
class Base(nn.Module):
    def __init__(self, features, hidden_size, layers, *, bidirectional, dropout):
        super().__init__()
        self.map = nn.Linear(features, hidden_size)
class Made(nn.Module):
    def __init__(self, features, hidden_size, layers, **_):
        {}['key']
class Called(Base):
    def forward(self, x, mask):
        raise RuntimeError("two\\nlines")
class Shaped(Base):
    def forward(self, x, mask):
        return self.map(x)
"""
FAILS = {
    "Made": "making it fails, line 8: KeyError: 'key'", "Called": "calling it fails, line 11: RuntimeError: two lines",
    "Shaped": r"calling it fails: TypeError: it must map \(1, 1, 16\) to the same shape, and returned \(1, 1, 24\)",
}  # fmt: skip
NAMES = ["transformer", "mamba", f"{OWN}:TCN"]
WINDOW = 8


@pytest.fixture(autouse=True)
def own_is_named():
    with trusting([OWN]):
        yield


@pytest.fixture(params=NAMES, ids=["transformer", "mamba", "TCN"])
def name(own_is_named, request):
    return enter(request.param)


def module(name, bidirectional=False):
    return BACKBONES[name](16, 24, 2, bidirectional=bidirectional, dropout=0.1).eval()


def model_of(head, name, **fields):
    sizes = {"vocab_size": 11, "embedding_size": 16, "hidden_size": 24, "num_hidden_layers": 2}
    return head(GatedRNNConfig(cell=name, **sizes, **fields)).eval()


def classifier(name, **fields):
    return model_of(GatedRNNForSequenceClassification, name, num_labels=3, **fields)


def language_model(name):
    return model_of(GatedRNNForCausalLM, name, window=WINDOW)


def test_shapes_are_kept_nothing_is_seen_ahead_and_padding_on_the_right_changes_nothing(name):
    x, lengths, model = torch.randn(3, 9, 16), torch.tensor([9, 4, 1]), module(name)
    output, later = model(x, None), x.clone()
    assert output.shape == x.shape
    later[:, 6:] = 0
    torch.testing.assert_close(model(later, None)[:, :6], output[:, :6])
    assert not torch.allclose(model(later, None)[:, 6:], output[:, 6:])
    padded = model(x, torch.arange(9) < lengths[:, None])
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(padded[row, :length], model(x[row : row + 1, :length], None)[0])


def test_full_attention_sees_ahead_and_no_padding_and_what_has_no_second_direction_refuses_it():
    x, mask = torch.randn(2, 6, 16), torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    model, later = module("transformer", bidirectional=True), x.clone()
    later[:, 5] = 0
    assert not torch.allclose(model(later, None)[:, 0], model(x, None)[:, 0])
    torch.testing.assert_close(model(x, mask)[1, :4], model(x[1:, :4], None)[0])
    for name in ("mamba", enter(f"{OWN}:TCN")):
        with pytest.raises(ValueError, match="bidirectional"):
            module(name, bidirectional=True)


def test_a_classifier_trains_and_comes_back_from_its_folder(name, tmp_path):
    model = classifier(name, pooling="mean")
    tokens, labels = torch.randint(2, 11, (6, 7)), torch.tensor([0, 1, 2, 0, 1, 2])
    mask = (torch.arange(7) < torch.tensor([7, 3, 5, 7, 1, 2])[:, None]).long()
    model.train()(tokens, mask, labels=labels).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    model.eval().save_pretrained(tmp_path)
    again = GatedRNNForSequenceClassification.from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(tokens, mask).logits, model(tokens, mask).logits, rtol=0, atol=0)


def test_parameters_are_all_counted_and_multiply_adds_grow_with_attention(name):
    model = classifier(name)
    counts = count_parameters(model)
    assert counts.total == sum(parameter.numel() for parameter in model.parameters())
    assert (counts.embedding, counts.block, counts.head) == (11 * 16, 0, 16 * 3 + 3)
    short, long = (describe_structure(model, steps).multiply_adds_per_step for steps in (10, 100))
    assert short > 0.5 * counts.core
    assert (long - short == 2 * 2 * 90 * 16) == (name == "transformer"), "two products a layer, over all steps"
    assert describe_structure(model).state_size is None
    with torch.device("meta"):
        assert describe_structure(classifier(name)).multiply_adds_per_step == 0, "it cannot run"


def test_a_text_in_pieces_is_read_as_in_one_piece_and_generated_with_and_without_a_state(name):
    """A text is read in halves of the window: where pieces end at such a half, the losses are the same to rounding."""
    model, tokens = language_model(name), torch.randint(1, 11, (2, 33))
    with torch.no_grad():
        whole, _ = model.token_losses(tokens[:, :-1], tokens[:, 1:])
        state, parts = None, []
        for inputs, labels in zip(tokens[:, :-1].split(WINDOW, 1), tokens[:, 1:].split(WINDOW, 1), strict=True):
            found, state = model.token_losses(inputs, labels, state)
            parts.append(found)
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    _, state = model.train().model.read(tokens[:, :WINDOW], use_cache=True)
    found = []
    for given in ({"past_key_values": state}, {}):
        torch.manual_seed(1)
        found.append(model.model.read(tokens[:, :WINDOW], **given)[0])
    torch.testing.assert_close(*found)  # training sees its own piece alone
    model.eval()
    prompt, settings = tokens[:, :3], {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(model.generate(prompt, **settings), model.generate(prompt, use_cache=False, **settings))


def test_every_step_looks_back_on_half_a_window_at_least_and_on_no_more_than_one(name):
    model, tokens = language_model(name), torch.randint(0, 11, (1, 40))
    with torch.no_grad():
        logits = model(tokens).logits
        for changed, same in ((0, 12), (20, 32)):
            other = tokens.clone()
            other[0, changed] = (other[0, changed] + 1) % 11
            moved = (model(other).logits - logits).abs().amax(-1)[0] > 0
            assert not moved[:changed].any(), "an earlier step changed"
            assert moved[changed : changed + WINDOW // 2].any()
            assert not moved[same:].any(), "a step beyond the window changed"


def test_a_word_that_names_no_class_is_refused_in_a_sentence_and_a_folder_that_names_a_file_runs_nothing(tmp_path):
    broken, clash = tmp_path / "broken.py", tmp_path / "clash.py"
    broken.write_text("1 / 0\n")
    fails = tmp_path / "fails.py"
    fails.write_text(FAILING)
    clash.write_text("class lstm: ...\nclass transformer: ...\n")
    layer = tmp_path / "layer.py"
    layer.write_text("from gatedrnn import MinGRU\n")
    mine = [broken, clash, layer, tmp_path / "none.py"]
    for word, why in {
        f"{tmp_path}/none.py:A": "there is no file", f"{OWN}:Nothing": "has no class Nothing",
        f"{broken}:A": "ZeroDivisionError", f"{clash}:lstm": "is taken", f"{clash}:transformer": "is taken",
        f"{layer}:MinGRU": "MinGRU is the layer of a cell, not a whole model; .* train --cell mingru",
    }.items():  # fmt: skip
        with pytest.raises(ValueError, match=why), trusting(mine):
            enter(word)
    for name, why in FAILS.items():
        with pytest.raises(ContenderFails, match=rf"^fails\.py:{name}: {why}$"), trusting([fails]):
            module_of_file = model_of(GatedRNNForSequenceClassification, enter(f"{fails}:{name}"))
            describe_structure(module_of_file)
    assert not set(BACKBONES) & set(CELLS)
    assert enter(f"{OWN}:TCN") == "TCN" and importlib.util.find_spec("own_contender") is None
    # Only words of the user run files: a configuration that names one is refused.
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(StrictDataclassError, match="there is no cell"):
        GatedRNNForSequenceClassification(GatedRNNConfig(cell=f"{evil}:Evil", vocab_size=3))
    assert not (tmp_path / "ran").exists() and "Evil" not in BACKBONES
