"""Every part that a recipe adds to a model survives: a kill, a folder, `evaluate`, ONNX, a stream, `view`, `describe`.

The recipe of each task beside each of them; a default that fails one is no default.
"""

import json
import signal

import numpy as np
import onnxruntime
import pytest
import torch
from commands import call, outcome, printed
from outcomes import Killed, assert_same_outcome
from recipe_runs import CLASSIFIERS, FORECASTERS, RECIPES, as_predicted, begun, inputs_of, predicted, read_by_auto
from struck import Run, Strike, endings

from gatedrnn.data import load_task
from gatedrnn.inspect.parts import parts_of
from gatedrnn.training.finished import open_finished
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.loop import run as train
from gatedrnn.view import page


@pytest.fixture(scope="module", params=RECIPES)
def trained(request, tmp_path_factory):
    """The name of a recipe, and its run."""
    folder = tmp_path_factory.mktemp("recipe")
    call(*begun(request.param, folder, folder / "run"))
    return request.param, folder / "run"


def of(*names):
    return pytest.mark.parametrize("trained", names, indirect=True)


def new_rows(name, folder):
    """A file that the run was not trained on."""
    return RECIPES[name].write(folder / RECIPES[name].file, 12, seed=1)


def killed_each(count):
    """Kills a run after so many steps from its beginning or from where it goes on, whichever training they are of."""
    steps = []

    def on_step(progress):
        steps.append(progress.step)
        if len([step for step in steps if step]) == count:
            raise Killed

    return on_step


def test_a_run_that_is_killed_again_and_again_resumes_to_the_same_bits(trained, tmp_path):
    name, whole = trained
    settings = RunFolder(whole).settings()
    for count in (5, 4) if name not in FORECASTERS else (5, 9, 9):
        with pytest.raises(Killed):
            train(settings, tmp_path / "run", killed_each(count))
    train(settings, tmp_path / "run")
    assert_same_outcome(whole, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_process_that_is_killed_goes_on_to_the_same_bits(tmp_path):
    """The process is killed by SIGKILL, after the fifth step; a forecast in its second training too."""
    runs, codes = [], []
    folders = {name: tmp_path / name.replace(" ", "-") for name in RECIPES}
    for name, folder in folders.items():
        folder.mkdir()
        whole, killed = (begun(name, folder, folder / which) for which in ("whole", "killed"))
        resume = killed if name in FORECASTERS else ["train", "--resume", folder / "killed"]
        strikes = [Strike(times=5)] + ([Strike(times=9)] if name in FORECASTERS else [])
        runs += [Run(whole), *(Run(resume if turn else killed, strike) for turn, strike in enumerate(strikes))]
        runs.append(Run(resume))
        codes += [[0], *[[-signal.SIGKILL]] * len(strikes), [0]]
    assert endings(*runs) == codes
    for folder in folders.values():
        assert_same_outcome(folder / "whole", folder / "killed")


@of(*CLASSIFIERS)
def test_the_auto_class_gives_each_row_the_scores_that_predict_writes(trained, tmp_path):
    """Each by itself, where `predict` reads them together."""
    (name, run), recipe = trained, RECIPES[trained[0]]
    file = new_rows(name, tmp_path)
    rows = predicted(run, file)
    model, found = read_by_auto(run, file, rows, recipe.opened)
    assert len(rows) == len(found) >= 12
    for row, logits in zip(rows, found, strict=True):
        for column, value in as_predicted(logits, model.config).items():
            assert row[column] == pytest.approx(value, rel=1e-5, abs=1e-5), column


@of(*FORECASTERS)
def test_the_auto_class_gives_the_forecast_that_is_written(trained):
    name, run = trained
    model = RECIPES[name].opened.from_pretrained(run / "model").eval()
    windows = load_task(RunFolder(run).settings().data).train
    written = np.loadtxt(run / "forecast.csv", delimiter=",", skiprows=1, usecols=(3, 2, 4)).reshape(2, 6, 3)
    for one, expected in zip(windows.series, written, strict=True):
        found = model.predict(torch.from_numpy(one.values[None, -24:]), deviation=torch.tensor([np.nanstd(one.values)]))
        # The table's values have four decimals, and a forecast is written with two more.
        np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=0.5e-6)


@of("language")
def test_the_auto_class_gives_the_loss_of_the_test(trained):
    _, run = trained
    model = RECIPES["language"].opened.from_pretrained(run / "model").eval()
    tokens = torch.tensor(np.array(load_task(RunFolder(run).settings().data).evaluation["test"].stream.tokens))[None]
    with torch.no_grad():
        loss = model(tokens.long(), labels=tokens.long()).loss
    assert loss.item() == pytest.approx(RunFolder(run).finished().scores["test"].loss, rel=1e-5)


def test_evaluate_gives_the_scores_of_the_result(trained, capsys):
    name, run = trained
    found = json.loads(printed(capsys, "evaluate", run, "--json", "--threads", "1"))[0]
    found, result = found["scores"], json.loads((run / "result.json").read_text())
    for own, theirs in RECIPES[name].scores.items():
        assert found[own] == pytest.approx(result[theirs], rel=1e-5), own


def test_describe_names_each_part_and_counts_each_parameter_once(trained, capsys):
    name, run = trained
    model = open_finished(run).model
    parts, said = parts_of(model), printed(capsys, "describe", "--model", run)
    assert [part.name for part in parts] == RECIPES[name].parts.split(", ")
    assert sum(part.trained + part.fitted for part in parts) == sum(p.numel() for p in model.parameters())
    rows = {line.split("│")[1].strip(): line for line in said.splitlines() if line.startswith("│")}
    for part in parts:
        assert f" {part.trained:,} │" in rows[part.name] and f" {part.fitted:,} │" in rows[part.name]
        assert (part.fitted > 0) == (part.name in ("linear path", "convolutions"))
        assert part.name != "linear path" or not part.trained
    for told, there in (
        ("2 networks of ", name.startswith("members")),
        ("their quantiles are averaged", name == "members that forecast"),
        ("network and linear path;", "linear path" in RECIPES[name].parts),
        ("shrinkage ", name in FORECASTERS), ("intervals are calibrated", name in FORECASTERS),
    ):  # fmt: skip
        assert (told in said) == there, told


@pytest.mark.slow
def test_the_page_of_its_gates_is_written_or_says_why_not(trained, tmp_path, monkeypatch, capsys):
    name, run = trained
    html, unseen = tmp_path / "page.html", RECIPES[name].unseen
    monkeypatch.setattr(page, "_BUILT", tmp_path / "built.html")  # in the place of what `make view` builds
    page._BUILT.write_text(page._PLACE)
    code, said = outcome(capsys, "view", run, "--html", html)
    if unseen:
        assert code == 2 and unseen in said and said.count("\n") == 1
        return
    (shown,), config = json.loads(html.read_text()), open_finished(run).model.config
    assert code == 0 and len(shown["layers"]) == config.num_hidden_layers * (1 + config.bidirectional) * config.members
    assert all(layer["gates"] for layer in shown["layers"])
    assert (len(shown["parts"]) == 3) == ("linear path" in RECIPES[name].parts)


@of(*CLASSIFIERS)
@pytest.mark.slow
def test_the_graph_of_a_classifier_gives_each_row_the_scores_of_the_model(trained, tmp_path):
    name, run = trained
    call("export", run, "--output", tmp_path / "onnx")
    (graph,) = (tmp_path / "onnx").glob("*.onnx")
    session, file = onnxruntime.InferenceSession(graph), new_rows(name, tmp_path)
    rows = predicted(run, file)
    _, expected = read_by_auto(run, file, rows, RECIPES[name].opened)
    for given, logits in zip(inputs_of(run, file, rows), expected, strict=True):
        (found,) = session.run(None, {name: value.numpy() for name, value in given.items()})
        np.testing.assert_allclose(found[0], logits, atol=1e-5, rtol=1e-5)


def waves(steps):
    return torch.sin(torch.arange(float(steps), dtype=torch.float64) * 0.5)[None] * 3 + 10


@of(*FORECASTERS)
@torch.no_grad()
def test_a_stream_gives_after_each_value_the_forecast_of_the_window(trained):
    model, values = open_finished(trained[1]).model, waves(40)
    state = model.start(values[:, :24])
    for steps in range(25, 41):
        found = model.forecast(model.update(state, values[:, steps - 1 : steps]))
        window = model(values[:, :steps], scale=state.scale).quantiles
        torch.testing.assert_close(found, window, rtol=1e-5, atol=1e-5)


@of(*FORECASTERS)
@pytest.mark.slow
def test_the_graphs_of_a_forecast_give_that_of_the_model(trained, tmp_path):
    call("export", trained[1], "--output", tmp_path)
    model, values = open_finished(trained[1]).model, waves(30)
    window, step = (onnxruntime.InferenceSession(tmp_path / f"{name}.onnx") for name in ("window", "step"))
    found, *carried = window.run(None, {"past_values": values[:, :24].numpy()})
    state = model.start(values[:, :24])
    for steps in range(25, 31):
        np.testing.assert_allclose(found, model.forecast(state), rtol=1e-5)
        new = values[:, steps - 1 : steps]
        given = dict(zip((one.name for one in step.get_inputs()), [new.numpy(), *carried], strict=True))
        (found, *carried), state = step.run(None, given), model.update(state, new)


@of("language")
@pytest.mark.slow
def test_the_graph_of_a_language_model_gives_its_scores(trained, tmp_path):
    call("export", trained[1], "--output", tmp_path)
    model, tokens = open_finished(trained[1]).model, torch.arange(20)[None] % 7
    session = onnxruntime.InferenceSession(tmp_path / "sequence.onnx")
    with np.load(tmp_path / "initial_state.npz") as initial:
        states = {one.name: initial[one.name][None] for one in session.get_inputs()[1:]}
    (found,) = session.run(["logits"], {"tokens": tokens.numpy(), **states})
    np.testing.assert_allclose(found, model(tokens).logits.detach(), rtol=1e-5, atol=1e-5)
