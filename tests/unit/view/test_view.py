"""The window: its numbers are the library's, and what it cannot show it says."""

import base64
import gzip
import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from commands import outcome
from pages import ROOT
from refusals import refused
from tolerances import assert_equal_within
from viewed import ALLOWED, SERIES, TEXT, expected_of, forecast, saved

from gatedrnn.errors import DataError, TooLarge
from gatedrnn.inspect.trace import trace
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM, GatedRNNForForecasting
from gatedrnn.models import GatedRNNForSequenceClassification as OfSequences
from gatedrnn.models import GatedRNNForTokenClassification as OfSteps
from gatedrnn.training.finished import data_of
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import Trainer
from gatedrnn.view import page
from gatedrnn.view.answer import Context
from gatedrnn.view.kinds import step_answer
from gatedrnn.view.page import page_of, view_of
from gatedrnn.view.record import ViewLayer, ViewModel, ViewState
from gatedrnn.view.step import WatchedStep, first_step, number_names
from gatedrnn.view.untrained import untrained_model

SCALE = {"channel_means": [1.0, 2.0], "channel_deviations": [3.0, 4.0], "flagged_channels": [1]}

SYMBOLS = {"vocab_size": 5}
KINDS = {
    "label of the step": {"head": OfSteps, "num_labels": 2}, "label so far": {"num_labels": 2},
    "numbers so far": {"num_labels": 1, "problem_type": "regression", "label_mean": 10.0, "label_deviation": 5.0},
}  # fmt: skip
TWO = {"seasons": [4, 6], "linear_size": 5}
FORECASTS = {"two seasons": TWO, "one": {}, "none": {"seasons": None}, "members": {"members": 2}}


def stepped(folder, rows):
    """The outputs of the module of a step at each step, by name; the page's graph is made of it."""
    step = WatchedStep(step_answer(page.open_finished(folder).model.eval().float(), str(folder)))
    states, example = step.initial(), step.answer.example
    numbers = [f"layer_{n}_{name}" for n, one in enumerate(first_step(step)[0]) for name in number_names(one)]
    names = ["answer", *(f"{name}_after" for name in states), *numbers]
    for row in rows:
        read = torch.as_tensor(row, dtype=example.dtype).reshape(example.shape)
        found = dict(zip(names, (x.detach() for x in step(read, *states.values())), strict=True))
        states = {name: found[f"{name}_after"] for name in states}
        yield {name: values.numpy() for name, values in found.items()}


def unpacked(graph):
    return onnxruntime.InferenceSession(gzip.decompress(base64.b64decode(graph)))


def check_the_step_of(folder, model, rows):
    """The graph, as the page runs it, is the module."""
    session, kept = unpacked(model.step), np.frombuffer(base64.b64decode(model.initial), "<f4")
    ends = np.cumsum([state.size for state in model.states])
    states = {one.name: kept[end - one.size : end][None] for one, end in zip(model.states, ends, strict=True)}
    names = [one.name for one in session.get_outputs()]
    for row, expected in zip(rows, stepped(folder, rows), strict=True):
        read = np.asarray(row).astype(model.read_type)
        given = {"read": read if model.read_type == "int64" else read[None], **states}
        found = dict(zip(names, session.run(None, given), strict=True))
        states = {name: found[f"{name}_after"] for name in states}
        assert found.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, atol=ALLOWED, rtol=ALLOWED, err_msg=name)


def classifier(folder, head=OfSequences, **fields):
    model = head(GatedRNNConfig(**{"embedding_size": 8, "hidden_size": 8} | fields)).eval()
    model.save_pretrained(folder)
    return model


def of_pooling(folder, pooling):
    return classifier(folder, vocab_size=5, num_labels=3, pooling=pooling)


def of_numbers(folder, kind):
    return classifier(folder, input_size=2, **SCALE, **KINDS[kind])


@pytest.fixture(scope="module")
def mingru(tmp_path_factory):
    """The folder of a MinGRU and its view, which takes longest."""
    folder = saved(tmp_path_factory.mktemp("mingru"), num_hidden_layers=1)
    return folder, view_of(folder)


def test_the_graph_of_a_step_is_that_step(mingru):
    check_the_step_of(*mingru, [[1], [4], [2], [4]])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "blocks", "qrnn", "last", "mean", "max", *KINDS, *FORECASTS])
def test_the_graph_of_every_kind_of_step_is_that_step(kind, tmp_path):
    rows = [[1], [4], [2], [4]]
    if kind in KINDS:
        of_numbers(tmp_path, kind)
        rows = [[1.0, 2.0], [0.5, float("nan")], [-1.0, 3.0]]
    elif kind in FORECASTS:
        forecast(tmp_path, **FORECASTS[kind])
        values = np.array(SERIES)[:, None]
        (rows,) = unpacked(view_of(tmp_path).context).run(None, {"values": values})
        np.testing.assert_allclose(rows, Context(None)(torch.from_numpy(values)), rtol=1e-12)
    elif kind in ("last", "mean", "max"):
        of_pooling(tmp_path, kind)
    else:
        saved(tmp_path, "mingru" if kind == "blocks" else kind, block=kind == "blocks")
    check_the_step_of(tmp_path, view_of(tmp_path), rows)


def test_a_step_has_the_gates_of_the_whole_sequence(tmp_path):
    for cell, block in (("lstm", False), ("mingru", True), ("qrnn", False)):
        folder = saved(tmp_path / cell, cell, block=block)
        tokens, logits, traced = expected_of(folder, TEXT)
        for step, found in enumerate(stepped(folder, tokens)):
            assert np.abs(found["answer"][0] - logits[step]).max() < ALLOWED
            for n, one in enumerate(traced):
                expected = {f"gate_{gate}": values for gate, values in one.gates.items()} | {"written": one.written}
                for name in set(expected) & set(number_names(one)):
                    assert np.abs(found[f"layer_{n}_{name}"][0] - expected[name][0, step].numpy()).max() < ALLOWED


def test_a_strip_that_would_say_the_same_twice_is_named(tmp_path, without_graphs):
    for cell, gate, inverted in (
        ("lstm", "forget", False), ("mingru", "update", True), ("signed-mingru", "decay", False), ("rg-lru", "", False),
    ):  # fmt: skip
        for layer in view_of(saved(tmp_path / cell, cell)).layers:
            assert (layer.decay_gate, layer.decay_inverted) == (gate, inverted)


def test_an_untrained_model_is_the_one_that_its_run_began_with(text_run, without_graphs, tmp_path, capsys):
    run, random = RunFolder(text_run), torch.get_rng_state()
    model, begun = untrained_model(text_run), Trainer(run.settings(), data_of(run), RunFolder(tmp_path / "anew")).bare
    for (name, weight), other in zip(model.state_dict().items(), begun.cpu().state_dict().values(), strict=True):
        assert torch.equal(weight, other), name
    trained = page.open_finished(text_run).model.state_dict()
    assert not any(torch.equal(weight, trained[name]) for name, weight in model.named_parameters() if weight.dim() > 1)
    torch.set_rng_state(random)
    untrained_model(text_run)
    assert torch.equal(torch.get_rng_state(), random)
    assert view_of(text_run).trained and not view_of(text_run, untrained=True).trained
    refused(DataError, "is no run's folder", untrained_model, saved(tmp_path / "model"))
    code, said = outcome(capsys, "view", text_run, text_run, "--untrained")
    assert code == 2 and "--untrained is of the folder of one run" in said


def test_a_forecast_begins_with_the_run_s_own_series_where_its_data_are_there(forecast_run, tmp_path, without_graphs):
    windows = data_of(RunFolder(forecast_run)).train
    own = [float(value) for value in page._own_series(forecast_run).split()]
    np.testing.assert_allclose(own, windows.series[0].values[-windows.context :], rtol=1e-5)
    found = view_of(forecast(tmp_path / "model"))
    assert found.example_of == "waves" and len(found.example.split()) >= page.FEWEST
    assert view_of(saved(tmp_path / "text")).example_of == ""


def test_the_page_knows_the_fields_that_it_is_given():
    source = (ROOT / "view" / "src" / "models.ts").read_text()
    for name, given in (("Layer", ViewLayer), ("State", ViewState), ("Model", ViewModel)):
        (body,) = re.findall(rf"^export interface {name} \{{\n(.*?)^\}}", source, re.M | re.S)
        assert set(re.findall(r"^  (\w+): ", body, re.M)) == set(given._fields)


def test_what_a_step_adds_and_what_it_keeps_is_the_memory_and_watching_leaves_a_model_as_it_was(tmp_path):
    for one in expected_of(saved(tmp_path, "lstm"), TEXT)[2]:
        before = torch.cat([torch.zeros_like(one.memory[:, :1]), one.memory[:, :-1]], dim=1)
        assert_equal_within(one.decay * before + one.written, one.memory, torch.float32, "memory")
    model = GatedRNNForCausalLM.from_pretrained(tmp_path).eval()
    first_step(WatchedStep(step_answer(model, "a folder")))
    assert all("step" not in vars(module) for module in model.modules())


@pytest.fixture
def without_graphs(monkeypatch):
    for name in ("watched_graph", "context_graph"):
        monkeypatch.setattr(page, name, lambda *given: onnx.ModelProto())


def test_what_the_page_cannot_show_or_be_without_node_is_said_in_a_sentence(tmp_path, monkeypatch, without_graphs):
    for name, fields in {
        "uneven": {"input_size": 5, "gap_unit": 1.0},
        "backbone": SYMBOLS | {"cell": "transformer"}, "symbols": SYMBOLS, "numbers": {"input_size": 1},
    }.items():  # fmt: skip
        classifier(tmp_path / name, num_labels=2, **fields)
    forecast(tmp_path / "known", flagged_covariates=[0], known_size=1)
    for name, said in (
        ("uneven", "reads uneven times"), ("known", "reads covariates"),
        ("backbone", "transformer has no gates"), ("nothing", "nothing"),
    ):  # fmt: skip
        refused(DataError, said, view_of, tmp_path / name)
    with pytest.raises(DataError, match=r"do not read the same \(mingru · symbols: symbols and mingru · numbers: numb"):
        page_of([tmp_path / "symbols", tmp_path / "numbers"])
    monkeypatch.setattr(page, "LARGEST", 100)
    refused(TooLarge, r"parameters are more than the page shows, 100", page_of, [saved(tmp_path / "large")])
    monkeypatch.setattr(page, "_BUILT", tmp_path / "page.html")
    monkeypatch.setattr(page.shutil, "which", lambda name: None)
    refused(DataError, r"install Node\.js 20 or newer; the first `gatedrnn view` then builds it", page.built_page)


def test_the_label_so_far_is_that_of_the_sequence_if_it_ended_there(tmp_path):
    tokens = torch.tensor([[1, 4, 2, 2, 0, 3]])
    for pooling in ("last", "mean", "max", "last-mean-max"):
        model = of_pooling(tmp_path / pooling, pooling)
        for step, found in enumerate(stepped(tmp_path / pooling, tokens[0])):
            expected = model(tokens[:, : step + 1]).logits.detach().numpy()
            assert np.abs(found["answer"] - expected).max() < ALLOWED, pooling


def test_models_of_several_numbers_a_step(tmp_path, without_graphs):
    values = torch.randn(1, 6, 2)
    values[0, 3, 1] = torch.nan
    for kind in KINDS:
        model, found = of_numbers(tmp_path / kind, kind), view_of(tmp_path / kind)
        assert (found.answers, found.reads, found.columns, found.missing) == (kind, "numbers", 2, True)
        assert found.pooling == ([] if kind == "label of the step" else ["last"])
        *_, last = stepped(tmp_path / kind, values[0])
        expected = model(input_values=values).logits.detach().numpy()
        expected = expected[:, -1] if kind == "label of the step" else expected
        assert np.abs(last["answer"] - expected).max() < ALLOWED


LINEAR = {"vocab_size": 5, "linear_path": {"pairs": 2, "grams": 3, "grams_per_token": 2}}
WHOLE = {
    "both directions of two layers": {"cell": "lstm,qrnn", "num_hidden_layers": 2, "bidirectional": True, **SYMBOLS},
    "a stack in blocks": {"num_hidden_layers": 2, "bidirectional": True, "block": True, "pooling": "mean", **SYMBOLS},
    "texts": {"bidirectional": True, "pooling": "last-mean-max", "character_grams": 4, "grams_per_token": 2, **LINEAR},
    "letters": {"pooling": "mean", "vocab_size": 5, "linear_path": {"triples": 2, **LINEAR["linear_path"]}},
    "members": {"members": 2, "num_hidden_layers": 2, **LINEAR},
    "several labels": {"problem_type": "multi_label_classification", **SYMBOLS},
    "series": {"bidirectional": True, "pooling": "mean", "convolution_size": 3, "random_convolutions": 90,
               "longest_steps": 9, "input_size": 2, "embedding_size": 0, **SCALE},
    "a number": {"bidirectional": True, "problem_type": "regression", "num_labels": 1, "label_mean": 10.0,
                 "label_deviation": 5.0, "input_size": 2},
    "tags": {"head": OfSteps, "bidirectional": True, **SYMBOLS},
}  # fmt: skip


def of_whole(folder, kind):
    """A model with drawn weights, of a linear path too; what is typed; and the model's answer to it."""
    model = classifier(folder, **{"num_labels": 3} | WHOLE[kind])
    for name, weight in model.named_parameters():
        if name.startswith("linear_path") or "embeddings" in name:
            torch.nn.init.normal_(weight)
    for name, buffer in model.named_buffers():
        if name.endswith(("pairs", "triples")):
            buffer.copy_(torch.randint(2 * 5, buffer.shape).sort().values)
        if name.endswith("grams"):
            buffer.copy_(torch.randint(3, buffer.shape))
    model.save_pretrained(folder)
    typed = torch.randint(5, (6, 1)).double() if model.config.vocab_size else torch.randn(6, 2).double()
    read = {"input_ids": typed.long().T} if model.config.vocab_size else {"input_values": typed[None]}
    if model.config.channel_means is None and not model.config.vocab_size:
        read["input_values"] = read["input_values"].float()
    return model, typed, read


def near(found, expected):
    return np.abs(found - expected.numpy()).max() < ALLOWED * expected.abs().max().clamp(min=1)


@pytest.mark.parametrize("kind", WHOLE)
@torch.no_grad()
def test_a_model_that_reads_all_first_has_its_answer_at_each_step_and_its_gates_as_it_reads(kind, tmp_path):
    model, typed, read = of_whole(tmp_path, kind)
    inputs = []
    for layer in (module for module in model.modules() if isinstance(module, RecurrentLayer)):
        layer.register_forward_pre_hook(lambda layer, given: inputs.append((layer, given[0])))
    expected, labels = model(**read).logits, model.config.num_labels
    traced = [one for layer, x in list(inputs) for one in trace(layer, x)]
    answer = step_answer(model, "a folder")
    assert answer.whole and [place.reverse for place in answer.places] == [one.reverse for one in traced]
    for step, found in enumerate(stepped(tmp_path, answer.context(typed))):
        assert near(found["answer"][:, :labels], expected[:, step] if kind == "tags" else expected)
        for n, one in enumerate(traced):
            assert all(near(found[f"layer_{n}_gate_{gate}"][0], x[0, step]) for gate, x in one.gates.items())


@pytest.mark.parametrize("kind", ["texts", "letters", "series"])
@torch.no_grad()
def test_beside_the_answer_are_those_of_the_network_and_of_the_linear_path_alone(kind, tmp_path):
    model, typed, read = of_whole(tmp_path, kind)
    answer, path = step_answer(model, "a folder"), model.linear_path
    both, network, linear = answer.context(typed)[0, -9:].view(3, 3).numpy()
    assert near(linear, path(*read.values(), None)[0]) and near(both, model(**read).logits[0])
    model.linear_path = None
    assert near(network, model(**read).logits[0]) and len(answer.parts) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", WHOLE)
def test_the_graphs_of_a_model_that_reads_all_first_are_its_modules(kind, tmp_path):
    model, typed, _ = of_whole(tmp_path, kind)
    view = view_of(tmp_path)
    for steps in (1, 6):
        (rows,) = unpacked(view.context).run(None, {"values": typed[:steps].numpy()})
        with torch.no_grad():
            expected = step_answer(model, "a folder").context(typed[:steps])
        np.testing.assert_allclose(rows, expected, atol=ALLOWED, rtol=ALLOWED)
    check_the_step_of(tmp_path, view, rows)


def test_a_forecast_by_steps_is_that_of_the_window(tmp_path):
    values = torch.tensor(SERIES, dtype=torch.float64)
    for name, fields in FORECASTS.items():
        model = GatedRNNForForecasting.from_pretrained(forecast(tmp_path / name, **fields)).eval()
        steps = list(stepped(tmp_path / name, Context(None)(values[:, None])))
        expected = model.predict(values[None]).flatten().numpy()
        assert np.abs(steps[-1]["answer"][0] / expected - 1).max() < ALLOWED
        names = [place.name for place in step_answer(model, "a folder").places]
        assert names == [f"network {1 + n // 2}, layer {1 + n % 2}" for n in range(4 if name == "members" else 0)]
        inputs = model.inputs_of(values[None])
        cores = [network.model for network in model.networks]
        traced = [one for core in cores for one in trace(core.parts[0].layer, core.embeddings(inputs).detach())]
        for number, one in enumerate(traced):
            gate, *_ = one.gates
            seen = np.concatenate([found[f"layer_{number}_gate_{gate}"] for found in steps])
            assert np.abs(seen - one.gates[gate][0].numpy()).max() < ALLOWED
