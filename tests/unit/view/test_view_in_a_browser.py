"""The window as a browser shows it: it asks for nothing, and its numbers are the library's."""

from functools import cache

import numpy as np
import pytest
import torch
from browser import BROWSER_MARKS, launched
from pages import ROOT
from viewed import ALLOWED, SERIES, TEXT, expected_of, forecast, read_in_both_directions, saved

from gatedrnn.inspect.trace import trace
from gatedrnn.models import GatedRNNForForecasting, GatedRNNForSequenceClassification
from gatedrnn.registry import CELLS
from gatedrnn.view import page

expect = pytest.importorskip("playwright.sync_api").expect
pytestmark = [*BROWSER_MARKS, pytest.mark.skipif(not page.BUILT.exists(), reason="the page is not built: make view")]


@pytest.fixture(scope="module")
def browser():
    """A page of a model that another page has shows the same."""
    with launched() as found, pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "view_of", cache(page.view_of))
        yield found


@pytest.fixture(scope="module")
def folders(browser, tmp_path_factory):
    """The folders of an LSTM and a MinGRU, viewed already: exporting their graphs takes longest."""
    models = [saved(tmp_path_factory.mktemp("models") / cell, cell) for cell in ("lstm", "mingru")]
    for folder in models:
        page.view_of(folder)
    return models


@pytest.fixture
def shown(browser, tmp_path):
    """Opens a page of models in Chromium from a file, which asks for nothing else and complains of nothing."""
    tabs, path, asked, said = [], tmp_path / "view.html", [], []

    def opened(*folders, **options):
        path.write_text(page.page_of(folders), encoding="utf-8")
        tab = browser.new_page(**options)
        tabs.append(tab)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(path.as_uri())
        tab.wait_for_selector("body[data-read]")
        return tab

    yield opened
    for tab in tabs:
        tab.close()
    assert [address for address in asked if not address.startswith("blob:")] == [path.as_uri()] and said == []


def typed(tab, text):
    tab.fill("#text", text)
    expect(tab.locator("body")).to_have_attribute("data-read", text, timeout=60_000)


def pressed(tab, *keys):
    tab.focus(".track")
    for key in keys:
        tab.keyboard.press(key)


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


def check_numbers_of(tab, folders, text):
    for found, folder in zip(tab.evaluate(NUMBERS), folders, strict=True):
        tokens, logits, traced = expected_of(folder, text)
        assert found["read"] == tokens
        assert np.abs(np.array(found["answers"]) - logits).max() < ALLOWED
        for layer, one in zip(found["layers"], traced, strict=True):
            expected = {**one.gates, "decay": one.gates.get("decay", one.decay)}
            assert set(layer) == set(expected)
            for name, values in expected.items():
                if values is not None:
                    assert np.abs(np.array(layer[name]) - values[0].numpy()).max() < ALLOWED, name


def test_a_sentence_is_typed_and_the_strips_move(shown, folders):
    tab = shown(*folders)
    picture = "() => [...document.querySelectorAll('canvas.strip')].map(c => c.toDataURL())"
    before = tab.evaluate(picture)
    typed(tab, TEXT)
    after = tab.evaluate(picture)
    assert len(before) == len(after) == 2 * 3 + 2 * 2
    assert all(one != two for one, two in zip(before, after, strict=True))
    for text in (TEXT, TEXT[:20] + "again"):  # what did not change is not read again, and is not wrong
        typed(tab, text)
        check_numbers_of(tab, folders, text)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["words", "bpe", "bytes", "tokens"])
def test_text_becomes_the_same_tokens_as_in_training(kind, shown, tmp_path):
    folder, text = saved(tmp_path / kind, kind=kind), "The gate, opens.\nIt's 안녕 unseen <unk> The"
    tab = shown(folder)
    typed(tab, text)
    assert tab.evaluate(NUMBERS)[0]["read"] == expected_of(folder, text)[0]


@pytest.mark.slow
def test_steps_and_channels_are_chosen_a_channel_is_held_and_bad_text_is_a_sentence(shown, folders):
    import matplotlib.image

    tab = shown(folders[0])
    typed(tab, TEXT)
    pressed(tab, "Home", "ArrowRight", "ArrowRight", "ArrowDown")
    assert tab.inner_text("h3.step").startswith(f"Step 3 of {1 + len(TEXT)}, “h”")
    expect(tab.locator(".reach-says")).to_contain_text("finite differences")
    tab.click("button.zero")
    expect(tab.locator(".held")).to_contain_text("→")
    tokens, logits, (first, *_) = expected_of(folders[0], TEXT)
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(logits[:-1]), torch.tensor(tokens[1:])).item()
    assert f"loss {loss:.4f} →" in tab.inner_text(".held")
    tab.fill(".temperature", "0")
    assert "100.0 %" in tab.inner_text(".next")
    step, gate = 1 + TEXT.index("."), first.gates["forget"][0]
    pressed(tab, "Home", *["ArrowRight"] * step)
    tab.select_option(".gate", "forget")
    tab.click("button.closes")
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
    for text, note in (
        ("", "Nothing is typed: the page shows what a model does as it reads."),
        ("gate 안", "Tokens outside the vocabulary: 1; the model reads <unk>."),
        ("gate " * 1000, "Cut after 4000 steps; 1001 are left out"),
    ):
        typed(tab, text)
        assert note in tab.inner_text("#note")


@pytest.mark.slow
def test_a_series_of_numbers_and_its_forecast(shown, tmp_path):
    folder = forecast(tmp_path / "load")
    tab = shown(folder)
    typed(tab, " ".join("nan" if np.isnan(value) else str(value) for value in SERIES))
    pressed(tab, "End")
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
    pressed(tab, "ArrowLeft")  # there is no step to choose
    typed(tab, "1 2 3 4")
    assert tab.inner_text("h3.step").startswith("Step 4 of 4, “4”; layer 1") and tab.inner_text("#note") == ""


@pytest.mark.slow
def test_what_is_read_from_the_end_is_shown_in_the_order_of_the_text_and_no_channel_is_held(shown, tmp_path):
    folder, tokens = read_in_both_directions(tmp_path / "both"), torch.tensor([[1, 4, 2, 2, 0, 3]])
    tab, model = shown(folder), GatedRNNForSequenceClassification.from_pretrained(folder).eval()
    layer = model.model.parts[0].layer
    traced = list(trace(layer, model.model.embeddings(tokens).detach()))
    for text in ("1422", "142203"):  # one token more moves every step of the backward direction
        typed(tab, text)
    (found,) = tab.evaluate(NUMBERS)
    for own, one in zip(found["layers"], traced, strict=True):
        for gate, values in one.gates.items():
            expected = values[0].flip(0) if one.reverse else values[0]
            assert np.abs(np.array(own[gate]) - expected.numpy()).max() < ALLOWED
    assert np.abs(np.array(found["answers"]) - model(tokens).logits.detach().numpy()).max() < ALLOWED
    tab.select_option(".layer", "1")
    pressed(tab, "Home")
    expect(tab.locator(".reach-says")).to_contain_text("is left after step 1, read from the end")
    assert "The label of all that was typed" in tab.inner_text(".next") and tab.locator("button.zero").count() == 0


@pytest.mark.slow
def test_a_browser_without_webassembly_or_scripts_is_told_so(browser, folders, tmp_path):
    path = tmp_path / "view.html"
    path.write_text(page.page_of(folders[:1]), encoding="utf-8")
    old, silent = browser.new_page(), browser.new_page(java_script_enabled=False)
    old.add_init_script("delete globalThis.WebAssembly")
    for tab, place, said in ((old, "#note", "no WebAssembly"), (silent, "noscript", "JavaScript, which is off")):
        tab.goto(path.as_uri())
        tab.wait_for_function(f"document.querySelector('{place}').textContent.includes('{said}')")
        tab.close()


@pytest.mark.slow
@pytest.mark.parametrize("width, scheme", [(1280, "light"), (400, "dark")])
def test_no_error_of_accessibility_and_no_sideways_scrolling(width, scheme, shown, folders):
    axe = ROOT / "view" / "node_modules" / "axe-core" / "axe.min.js"
    screen = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    tab = shown(*folders, **screen, bypass_csp=True)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    if not axe.exists():
        pytest.skip("axe-core is not installed: make view")
    tab.add_script_tag(content=axe.read_text())
    found = tab.evaluate("axe.run().then(({violations}) => violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
    assert found == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_gates_in_the_page_are_those_of_inspect_for_every_cell(shown, tmp_path):
    folders = [saved(tmp_path / cell, cell, num_hidden_layers=1) for cell in CELLS]
    tab = shown(*folders)
    typed(tab, TEXT)
    check_numbers_of(tab, folders, TEXT)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_scrolling_2000_steps_of_128_channels_is_smooth(shown, tmp_path):
    tab = shown(saved(tmp_path / "lstm", "lstm", hidden_size=128, embedding_size=32))
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
