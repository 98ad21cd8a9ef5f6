"""The window: its numbers are the library's, it asks for nothing, and what it cannot show it says."""

import base64
import gzip
import re
from pathlib import Path

import matplotlib.image
import numpy as np
import onnxruntime
import pytest
import torch
from browser import CHROMIUM, FLAGS, needs_a_browser
from tolerances import assert_equal_within

from gatedrnn.data.tokenizers import encode_stream, learn_tokenizer
from gatedrnn.errors import DataError, TooLarge
from gatedrnn.inspect.trace import trace
from gatedrnn.layers import RecurrentLayer
from gatedrnn.models import (
    GatedRNNConfig,
    GatedRNNForCausalLM,
    GatedRNNForecastConfig,
    GatedRNNForForecasting,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
)
from gatedrnn.registry import CELLS
from gatedrnn.view import page
from gatedrnn.view.answer import step_answer
from gatedrnn.view.page import page_of, view_of
from gatedrnn.view.record import ViewLayer, ViewModel, ViewState
from gatedrnn.view.step import WatchedStep, first_step, number_names

ALLOWED = 1e-5
TEXT = "The gate opens.\nThe state remembers, and it closes again. "
BUILT = pytest.mark.skipif(not page.BUILT.exists(), reason="the page is not built: make view")


def saved(folder: Path, cell: str = "mingru", kind: str = "characters", **fields) -> Path:
    """A language model with drawn weights, as a run leaves it."""
    torch.manual_seed(0)
    tokenizer = learn_tokenizer(kind, TEXT.split("\n") if kind == "words" else [TEXT], 1, 300, stream=True)
    sizes = {"embedding_size": 8, "hidden_size": 12, "num_hidden_layers": 2} | fields
    ends = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1, "unk_token_id": 0}
    GatedRNNForCausalLM(GatedRNNConfig(cell=cell, vocab_size=len(tokenizer), **ends, **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def expected_of(folder: Path, text: str):
    """Tokens; the whole sequence's logits; and of each layer its gates and decay, by `inspect` over the sequence."""
    model = GatedRNNForCausalLM.from_pretrained(folder).eval()
    tokenizer = page.open_finished(folder).tokenizer
    tokens = torch.tensor([[1, *next(encode_stream(tokenizer, [text]))]])
    inputs = []
    hooks = [
        module.register_forward_pre_hook(lambda layer, given: inputs.append((layer, given[0])))
        for module in model.modules()
        if isinstance(module, RecurrentLayer)
    ]
    with torch.no_grad():
        logits = model(tokens).logits
    for hook in hooks:
        hook.remove()
    traced = [one for layer, x in inputs for one in trace(layer, x)]
    return tokens[0].tolist(), logits[0].numpy(), traced


def run_by_steps(model, rows):
    """The graph of a model as the page runs it: what it finds at each step, by name."""
    session = onnxruntime.InferenceSession(unpacked(model.step))
    kept = np.frombuffer(base64.b64decode(model.initial), "<f4")
    ends = np.cumsum([state.size for state in model.states])
    states = {one.name: kept[end - one.size : end][None] for one, end in zip(model.states, ends, strict=True)}
    names = [one.name for one in session.get_outputs()]
    for row in rows:
        read = row.astype(model.read_type)
        given = {"read": read if model.read_type == "int64" else read[None], **states}
        found = dict(zip(names, session.run(None, given), strict=True))
        states = {name: found[f"{name}_after"] for name in states}
        yield found


def unpacked(graph):
    return gzip.decompress(base64.b64decode(graph))


@pytest.mark.parametrize(
    "cell, block",
    [("lstm", False), *(pytest.param(*case, marks=pytest.mark.slow) for case in (("mingru", True), ("qrnn", False)))],
)
def test_the_graph_of_a_step_has_the_gates_of_the_whole_sequence(cell, block, tmp_path):
    folder = saved(tmp_path, cell, block=block)
    tokens, logits, traced = expected_of(folder, TEXT)
    for step, found in enumerate(run_by_steps(view_of(folder), np.array(tokens)[:, None])):
        assert np.abs(found["answer"][0] - logits[step]).max() < ALLOWED
        for n, one in enumerate(traced):
            for gate, values in one.gates.items():
                assert np.abs(found[f"layer_{n}_gate_{gate}"][0] - values[0, step].numpy()).max() < ALLOWED
            if "written" in number_names(one):
                assert np.abs(found[f"layer_{n}_written"][0] - one.written[0, step].numpy()).max() < ALLOWED


@pytest.mark.parametrize("name, given", [("Layer", ViewLayer), ("State", ViewState), ("Model", ViewModel)])
def test_the_page_knows_the_fields_that_it_is_given(name, given):
    source = (Path(__file__).parents[3] / "view" / "src" / "models.ts").read_text()
    (body,) = re.findall(rf"^export interface {name} \{{\n(.*?)^\}}", source, re.M | re.S)
    assert set(re.findall(r"^  (\w+): ", body, re.M)) == set(given._fields)


def test_what_a_step_adds_and_what_it_keeps_is_the_memory(tmp_path):
    _, _, traced = expected_of(saved(tmp_path, "lstm"), TEXT)
    for one in traced:
        before = torch.cat([torch.zeros_like(one.memory[:, :1]), one.memory[:, :-1]], dim=1)
        assert_equal_within(one.decay * before + one.written, one.memory, torch.float32, "memory")


def test_watching_leaves_a_model_as_it_was(tmp_path):
    model = GatedRNNForCausalLM.from_pretrained(saved(tmp_path)).eval()
    first_step(WatchedStep(step_answer(model, "a folder")))
    assert all("step" not in vars(module) for module in model.modules())


def test_what_the_page_cannot_show_is_refused_in_a_sentence(tmp_path, monkeypatch):
    both = GatedRNNConfig(vocab_size=5, embedding_size=8, hidden_size=8, bidirectional=True, num_labels=2)
    GatedRNNForSequenceClassification(both).save_pretrained(tmp_path / "both")
    uneven = GatedRNNConfig(input_size=5, embedding_size=8, hidden_size=8, num_labels=2, gap_unit=1.0)
    GatedRNNForSequenceClassification(uneven).save_pretrained(tmp_path / "uneven")
    forecast(tmp_path / "known", input_size=3, flagged_channels=[0, 2], known_size=1)
    backbone = GatedRNNConfig(cell="transformer", vocab_size=5, embedding_size=8, hidden_size=8, num_labels=2)
    GatedRNNForSequenceClassification(backbone).save_pretrained(tmp_path / "backbone")
    for name, said in (
        ("both", "reads in both directions"), ("uneven", "reads uneven times"), ("known", "reads covariates"),
        ("backbone", "transformer has no gates"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=said):
            view_of(tmp_path / name)
    with pytest.raises(DataError):
        view_of(tmp_path / "nothing")
    monkeypatch.setattr(page, "LARGEST", 100)
    with pytest.raises(TooLarge, match=r"parameters are more than the page shows, 100"):
        page_of([saved(tmp_path / "large")])


def test_without_node_and_without_a_page_one_sentence_says_how(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "BUILT", tmp_path / "page.html")
    monkeypatch.setattr(page.shutil, "which", lambda name: None)
    with pytest.raises(DataError, match=r"install Node\.js 20 or newer, and run `make view`"):
        page.built_page()


def test_models_that_read_different_things_are_not_shown_side_by_side(tmp_path):
    sizes = {"embedding_size": 8, "hidden_size": 8, "num_labels": 2}
    for name, reads in (("symbols", {"vocab_size": 5}), ("numbers", {"input_size": 1})):
        GatedRNNForSequenceClassification(GatedRNNConfig(**sizes, **reads)).save_pretrained(tmp_path / name)
    with pytest.raises(DataError, match=r"do not read the same \(mingru · symbols: symbols and mingru · numbers: numb"):
        page_of([tmp_path / "symbols", tmp_path / "numbers"])


@pytest.mark.parametrize("pooling", [*(pytest.param(how, marks=pytest.mark.slow) for how in ("last", "mean")), "max"])
def test_the_label_so_far_is_that_of_the_sequence_if_it_ended_there(pooling, tmp_path):
    config = GatedRNNConfig(vocab_size=5, embedding_size=8, hidden_size=8, num_labels=3, pooling=pooling)
    model = GatedRNNForSequenceClassification(config).eval()
    model.save_pretrained(tmp_path)
    tokens = torch.tensor([[1, 4, 2, 2, 0, 3]])
    for step, found in enumerate(run_by_steps(view_of(tmp_path), tokens[0].numpy()[:, None])):
        with torch.no_grad():
            expected = model(tokens[:, : step + 1]).logits
        assert np.abs(found["answer"] - expected.numpy()).max() < ALLOWED


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(k, marks=pytest.mark.slow) for k in ("label of the step", "label so far")), "numbers so far"],
)
def test_models_of_several_numbers_a_step(kind, tmp_path):
    scale = {"channel_means": [1.0, 2.0], "channel_deviations": [3.0, 4.0], "flagged_channels": [1]}
    if kind == "numbers so far":
        scale |= {"problem_type": "regression", "label_mean": 10.0, "label_deviation": 5.0}
    config = GatedRNNConfig(input_size=2, embedding_size=8, hidden_size=8, num_labels=1 + ("label" in kind), **scale)
    head = GatedRNNForTokenClassification if kind == "label of the step" else GatedRNNForSequenceClassification
    model = head(config).eval()
    model.save_pretrained(tmp_path)
    found, values = view_of(tmp_path), torch.randn(1, 6, 2)
    values[0, 3, 1] = torch.nan
    assert (found.answers, found.reads, found.columns, found.missing) == (kind, "numbers", 2, True)
    *_, last = run_by_steps(found, values[0].numpy())
    with torch.no_grad():
        expected = model(input_values=values).logits
    expected = expected[:, -1] if kind == "label of the step" else expected
    assert np.abs(last["answer"] - expected.numpy()).max() < ALLOWED


def forecast(folder, cell="mingru", **fields):
    """A model of forecasts with drawn weights."""
    torch.manual_seed(0)
    sizes = {"input_size": 2, "flagged_channels": [0], "seasons": [4], "horizon": 3, "context": 20} | fields
    model = GatedRNNForForecasting(GatedRNNForecastConfig(cell=cell, hidden_size=12, num_hidden_layers=2, **sizes))
    for parameter in model.head.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # a new head is the seasonal naive forecast
    model.save_pretrained(folder)
    return folder


SERIES = [101.5, 98.0, float("nan"), 110.25, 99.0, 95.5, 107.0, 112.0, float("nan"), 97.0, 104.0, 115.0]


@pytest.mark.parametrize(
    "fields",
    [
        {"seasons": [4, 6], "input_size": 3, "linear_size": 5},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"seasons": None}, marks=pytest.mark.slow),
    ],
)
def test_a_forecast_by_steps_is_that_of_the_window(fields, tmp_path):
    shown = view_of(forecast(tmp_path, **fields))
    model = GatedRNNForForecasting.from_pretrained(tmp_path).eval()
    values = torch.tensor(SERIES, dtype=torch.float64)
    context = onnxruntime.InferenceSession(unpacked(shown.context))
    (rows,) = context.run(None, {"values": values[:, None].numpy()})
    steps = list(run_by_steps(shown, rows))
    expected = model.predict(values[None]).flatten().numpy()
    assert np.abs(steps[-1]["answer"][0] / expected - 1).max() < ALLOWED
    with torch.no_grad():
        inputs = model.model.embeddings(model.inputs_of(values[None]))
    (first, *_) = trace(model.model.parts[0].layer, inputs)
    gate, *_ = first.gates
    for step, found in enumerate(steps):
        assert np.abs(found[f"layer_0_gate_{gate}"][0] - first.gates[gate][0, step].numpy()).max() < ALLOWED


@pytest.fixture
def shown(tmp_path):
    """Opens a page of models in Chromium from a file: (tab, addresses asked for, errors)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)

        def opened(*folders, **options):
            path = tmp_path / "view.html"
            path.write_text(page_of(folders), encoding="utf-8")
            tab, asked, said = browser.new_page(**options), [], []
            tab.on("request", lambda request: asked.append(request.url))
            tab.on("console", lambda message: said.append(message.text))
            tab.on("pageerror", lambda error: said.append(str(error)))
            tab.goto(path.as_uri())
            tab.wait_for_selector("body[data-read]")
            assert asked == [path.as_uri()] and said == []
            return tab, asked, said

        yield opened
        browser.close()


def typed(tab, text):
    from playwright.sync_api import expect

    tab.fill("#text", text)
    expect(tab.locator("body")).to_have_attribute("data-read", text, timeout=60_000)


NUMBERS = """
() => gatedrnn.panels.map(({runner}) => ({
    read: runner.read.map(([token]) => token),
    answers: runner.read.map((_, t) => [...runner.answers.row(t)]),
    layers: runner.seen.map(({gates, decay}) => ({
        decay: decay && runner.read.map((_, t) => [...decay.row(t)]),
        ...Object.fromEntries([...gates].map(([name, gate]) => [name, runner.read.map((_, t) => [...gate.row(t)])])),
    })),
}))
"""


def demand_numbers_of(tab, folder, text, number=0):
    found = tab.evaluate(NUMBERS)[number]
    tokens, logits, traced = expected_of(folder, text)
    assert found["read"] == tokens
    assert np.abs(np.array(found["answers"]) - logits).max() < ALLOWED
    for layer, one in zip(found["layers"], traced, strict=True):
        expected = {**one.gates, "decay": one.gates.get("decay", one.decay)}
        assert set(layer) == set(expected)
        for name, values in expected.items():
            if values is not None:
                assert np.abs(np.array(layer[name]) - values[0].numpy()).max() < ALLOWED, name


@BUILT
@needs_a_browser
def test_a_sentence_is_typed_and_the_strips_move(shown, tmp_path):
    folders = [saved(tmp_path / "lstm", "lstm"), saved(tmp_path / "mingru", "mingru")]
    tab, asked, said = shown(*folders)
    picture = "() => [...document.querySelectorAll('canvas.strip')].map(c => c.toDataURL())"
    before = tab.evaluate(picture)
    typed(tab, TEXT)
    after = tab.evaluate(picture)
    assert len(before) == len(after) == 2 * 3 + 2 * 2 and all(
        one != two for one, two in zip(before, after, strict=True)
    )
    for number, folder in enumerate(folders):
        demand_numbers_of(tab, folder, TEXT, number)
    typed(tab, TEXT[:20] + "again")  # what did not change is not read again, and is not wrong
    demand_numbers_of(tab, folders[0], TEXT[:20] + "again")
    assert len(asked) == 1 and said == []


@BUILT
@needs_a_browser
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "bpe", "bytes", "tokens"])
def test_text_becomes_the_same_tokens_as_in_training(kind, shown, tmp_path):
    folder, text = saved(tmp_path / kind, kind=kind), "The gate, opens.\nIt's 안녕 unseen <unk> The"
    tab, *_ = shown(folder)
    typed(tab, text)
    assert tab.evaluate(NUMBERS)[0]["read"] == expected_of(folder, text)[0]


@pytest.mark.slow
@BUILT
@needs_a_browser
def test_steps_and_channels_are_chosen_by_keys_and_a_channel_is_held(shown, tmp_path):
    from playwright.sync_api import expect

    folder = saved(tmp_path / "lstm", "lstm")
    tab, *_ = shown(folder)
    typed(tab, TEXT)
    tab.focus(".track")
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowDown"):
        tab.keyboard.press(key)
    assert tab.inner_text("h3.step").startswith(f"Step 3 of {1 + len(TEXT)}, “h”")
    expect(tab.locator(".reach-says")).to_contain_text("finite differences")
    tab.click("button.zero")
    expect(tab.locator(".held")).to_contain_text("→")
    said = tab.inner_text(".held")
    tokens, logits, _ = expected_of(folder, TEXT)
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(logits[:-1]), torch.tensor(tokens[1:])).item()
    assert f"loss {loss:.4f} →" in said
    tab.fill(".temperature", "0")
    assert "100.0 %" in tab.inner_text(".next")


@BUILT
@needs_a_browser
def test_the_channel_that_closes_at_a_step_is_found_and_saved_as_a_picture(shown, tmp_path):
    folder = saved(tmp_path / "lstm", "lstm")
    tab, *_ = shown(folder)
    typed(tab, TEXT)
    step = 1 + TEXT.index(".")
    tab.focus(".track")
    for key in ("Home", *["ArrowRight"] * step):
        tab.keyboard.press(key)
    tab.select_option(".gate", "forget")
    tab.click("button.closes")
    _, _, (first, *_) = expected_of(folder, TEXT)
    gate = first.gates["forget"][0]
    channel = int((gate[step] - gate.mean(0)).argmin())
    assert f"“.”; layer 1, channel {channel}: " in tab.inner_text("h3.step")
    assert f"forget gate {gate[step, channel]:.2f}" in tab.inner_text("h3.step")
    lower = int((gate[:, channel] < gate[step, channel]).sum())
    assert f"more closed at {lower} of the other {len(gate) - 1} steps" in tab.inner_text(".rank")
    with tab.expect_download() as download:
        tab.click("button.save")
    path = download.value.path()
    assert download.value.suggested_filename == "gates-lstm-lstm.png" and path.read_bytes()[:4] == b"\x89PNG"
    assert len(set(matplotlib.image.imread(path).reshape(-1, 4)[:, 0].tolist())) > 50  # not an empty sheet


@BUILT
@needs_a_browser
def test_bad_text_is_a_sentence_in_the_page(shown, tmp_path):
    tab, _, said = shown(saved(tmp_path / "run"))
    typed(tab, "")
    assert tab.inner_text("#note") == "Nothing is typed: the page shows what a model does as it reads."
    typed(tab, "gate 안")
    assert "Tokens outside the vocabulary: 1; the model reads <unk>." in tab.inner_text("#note")
    typed(tab, "gate " * 1000)
    assert "Cut after 4000 steps; 1001 are left out" in tab.inner_text("#note")
    assert said == []


@BUILT
@needs_a_browser
def test_a_series_of_numbers_and_its_forecast(shown, tmp_path):
    from playwright.sync_api import expect

    folder = forecast(tmp_path / "load")
    tab, asked, said = shown(folder)
    typed(tab, " ".join("nan" if np.isnan(value) else str(value) for value in SERIES))
    tab.focus(".track")
    tab.keyboard.press("End")
    model = GatedRNNForForecasting.from_pretrained(folder).eval()
    expected = model.predict(torch.tensor([SERIES], dtype=torch.float64))[0]
    rows = tab.locator(".next tr").all_inner_texts()
    found = [[float(number) for number in row.split()[1:]] for row in rows[1:]]
    assert np.allclose(found, expected.numpy(), rtol=1e-4) and "+1" in rows[1]
    tab.click("button.zero")
    expect(tab.locator(".held")).to_contain_text("mean error one step ahead")
    typed(tab, "1 two 3")
    assert "“two” is no number; nan stands for a missing one" in tab.inner_text("#note")
    assert tab.inner_text(".held") == "" and tab.locator(".next tr").count() == 0
    tab.focus(".track")
    tab.keyboard.press("ArrowLeft")  # there is no step to choose
    typed(tab, "1 2 3 4")
    assert tab.inner_text("h3.step").startswith("Step 4 of 4, “4”; layer 1") and tab.inner_text("#note") == ""
    assert len(asked) == 1 and said == []


@BUILT
@needs_a_browser
@pytest.mark.slow
def test_a_browser_without_webassembly_or_scripts_is_told_so(tmp_path):
    from playwright.sync_api import sync_playwright

    path = tmp_path / "view.html"
    path.write_text(page_of([saved(tmp_path / "run")]), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        old, silent = browser.new_page(), browser.new_context(java_script_enabled=False).new_page()
        old.add_init_script("delete globalThis.WebAssembly")
        for tab, place, said in ((old, "#note", "no WebAssembly"), (silent, "noscript", "JavaScript, which is off")):
            tab.goto(path.as_uri())
            tab.wait_for_function(f"document.querySelector('{place}').textContent.includes('{said}')")
        browser.close()


@BUILT
@needs_a_browser
@pytest.mark.slow
@pytest.mark.parametrize("width, scheme", [(1280, "light"), (400, "dark")])
def test_no_error_of_accessibility_and_no_sideways_scrolling(width, scheme, shown, tmp_path):
    axe = Path(page.__file__).parents[3] / "view" / "node_modules" / "axe-core" / "axe.min.js"
    folders = [saved(tmp_path / "lstm", "lstm"), saved(tmp_path / "mingru")]
    tab, *_ = shown(*folders, viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    if not axe.exists():
        pytest.skip("axe-core is not installed: make view")
    tab.add_script_tag(content=axe.read_text())
    found = tab.evaluate("axe.run().then(({violations}) => violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
    assert found == []


@BUILT
@needs_a_browser
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cell", CELLS)
def test_gates_in_the_page_are_those_of_inspect_for_every_cell(cell, shown, tmp_path):
    folder = saved(tmp_path / cell, cell)
    tab, *_ = shown(folder)
    typed(tab, TEXT)
    demand_numbers_of(tab, folder, TEXT)


@BUILT
@needs_a_browser
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_scrolling_2000_steps_of_128_channels_is_smooth(shown, tmp_path):
    tab, *_ = shown(saved(tmp_path / "lstm", "lstm", hidden_size=128, embedding_size=32))
    typed(tab, (TEXT * 40)[:2000])
    scrolled = """async () => {
        const [panel] = gatedrnn.panels, track = document.querySelector(".track");
        frames = panel.track.frames;
        frames.length = 0;
        for (let left = 0; left < track.scrollWidth; left += 120) {
            track.scrollLeft = left;
            await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
        }
        return frames;
    }"""
    frames = np.array(tab.evaluate(scrolled))
    print(f"{len(frames)} redraws: median {np.median(frames):.2f} ms, 95 % {np.quantile(frames, 0.95):.2f} ms")
    assert len(frames) > 100 and np.median(frames) <= 17 and np.quantile(frames, 0.95) <= 33
