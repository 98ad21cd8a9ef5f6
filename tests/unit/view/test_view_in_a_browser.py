"""The window as a browser shows it: it asks for nothing, and its numbers are the library's."""

import json
import re
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
pytestmark = [*BROWSER_MARKS, pytest.mark.skipif(not page._BUILT.exists(), reason="the page is not built: make view")]


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

    def opened(*folders, address="", untrained=False, **options):
        path.write_text(page.page_of(folders, untrained), encoding="utf-8")
        tab = browser.new_page(**options)
        tabs.append(tab)
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(path.as_uri() + address)
        tab.wait_for_selector("body[data-read]")
        return tab

    yield opened
    for tab in tabs:
        tab.close()
    asked_for = {address.partition("#")[0] for address in asked if not address.startswith("blob:")}
    assert asked_for == {path.as_uri()} and said == []


def typed(tab, text):
    tab.fill("#text", text)
    expect(tab.locator("body")).to_have_attribute("data-read", text, timeout=60_000)


def pressed(tab, *keys, panel=0):
    tab.locator(".track").nth(panel).focus()
    for key in keys:
        tab.keyboard.press(key)


def until(tab, expression):
    """Wait until an expression holds; the page's policy forbids the waiting of Playwright, which evaluates a string."""
    for _ in range(400):
        if tab.evaluate(expression):
            return
        tab.wait_for_timeout(25)
    raise AssertionError(expression)


def kept(tab, **fields):
    """Wait until the address has these fields, and return it."""
    for name, value in fields.items():
        until(tab, f"new URLSearchParams(location.hash.slice(1)).get({json.dumps(name)}) === {json.dumps(str(value))}")
    return tab.evaluate("location.hash")


def steps_of(tab):
    """The chosen step, layer and channel of each panel, as their titles say."""
    says = tab.locator("h3.step").all_inner_texts()
    found = [re.match(r"Step (\d+) of .*; layer (\d+), channel (\d+)", one).groups() for one in says]
    return [tuple(map(int, one)) for one in found]


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
    assert len(before) == len(after) == 2 * 3 + 2 * 1  # of a mingru, the decay is 1 minus its gate
    assert all(one != two for one, two in zip(before, after, strict=True))
    for text in (TEXT, TEXT[:20] + "again"):  # what did not change is not read again, and is not wrong
        typed(tab, text)
        check_numbers_of(tab, folders, text)


def test_linked_panels_follow_one_another_and_a_link_restores_what_is_shown(shown, folders):
    tab = shown(*folders)
    typed(tab, TEXT)
    pressed(tab, "Home", "ArrowRight", "ArrowRight")
    assert [step for step, *_ in steps_of(tab)] == [3, 3]
    tab.select_option(".channel >> nth=0", "7")
    assert [channel for *_, channel in steps_of(tab)] == [7, 7]
    tab.click("button.step-next")
    tab.uncheck(".link")
    tab.locator(".own textarea").fill("The state. It closes.")
    expect(tab.locator("h3.step").nth(1)).to_contain_text("of 22")
    pressed(tab, "End", panel=1)
    assert [step for step, *_ in steps_of(tab)] == [4, 22]
    tab.click("button.wider")
    tab.check(".big")
    address = kept(tab, step=4, step2=22, link=0, big=1, text2="The state. It closes.", text=TEXT)
    again = shown(*folders, address=address)
    assert steps_of(again) == steps_of(tab) and again.input_value(".own textarea") == "The state. It closes."
    assert not again.is_checked(".link") and again.is_checked(".big") and again.input_value("#text") == TEXT
    assert again.evaluate("gatedrnn.panels[0].track.scaled") == tab.evaluate("gatedrnn.panels[0].track.scaled")
    again.evaluate("location.hash = 'step=2&layer=2&channel=3&gate=output'")
    until(again, "document.querySelector('h3.step').textContent.startsWith('Step 2 of')")
    assert steps_of(again) == [(2, 2, 3), (2, 2, 3)] and again.is_checked(".link")
    assert again.input_value(".gate >> nth=0") == "output" and again.locator(".own").is_hidden()
    # What was shown before is written into the address after the link, and before the page is told of it.
    again.evaluate("location.hash = 'step=5'; history.replaceState(null, '', '#step=1')")
    until(again, "document.querySelector('h3.step').textContent.startsWith('Step 5 of')")


def test_the_page_opens_on_what_a_measure_found_and_says_the_loss_of_each_token(shown, folders):
    tab = shown(*folders)
    typed(tab, TEXT)
    tokens, logits, layers = expected_of(folders[0], TEXT)
    stops = 1 + np.array([n for n, letter in enumerate(TEXT) if letter == "."])
    found = {}
    for number, one in enumerate(layers):
        for gate, values in one.gates.items():
            series = values[0].numpy()
            depth = np.delete(series, stops, axis=0).mean(0) - series[stops].mean(0)
            found[number, gate, int(depth.argmax())] = depth.max()
    layer, gate, channel = max(found, key=found.get)
    tab.click("[data-preset=stop] >> nth=0")
    assert steps_of(tab)[0] == (stops[0] + 1, layer + 1, channel) and steps_of(tab)[1][0] == stops[0] + 1
    said, clear = tab.inner_text(".preset-says >> nth=0"), found[layer, gate, channel] >= 0.2
    assert said.startswith(f"closes most at full stops: {gate + ' gate' if clear else 'no gate closes clearly'}")
    count = sum(values.shape[-1] for one in layers for values in one.gates.values())
    assert clear or f"the strongest of {count} goes from" in said
    likely = torch.from_numpy(logits[:-1]).log_softmax(1)
    losses = -likely[torch.arange(len(likely)), torch.tensor(tokens[1:])]
    here = losses[stops[0] - 1]
    assert np.allclose(tab.evaluate("gatedrnn.panels[0].track.losses")[1:], losses, atol=1e-4)
    assert f"mean {losses.mean():.2f} nats; here {here:.2f} (" in tab.inner_text(".loss-says >> nth=0")
    tab.click("[data-preset=surprise] >> nth=0")
    assert steps_of(tab)[0][0] == int(losses.argmax()) + 2
    tab.click("[data-preset=memory] >> nth=0")
    halves = [np.log(0.5) / one.decay[0].log().mean(0).numpy() for one in layers]
    longest = int(np.argmax([half.max() for half in halves]))
    assert steps_of(tab)[0][1:] == (1 + longest, int(halves[longest].argmax()))
    opened = shown(*folders)
    assert opened.get_attribute(".presets [aria-pressed=true] >> nth=0", "data-preset") == "stop"


@pytest.mark.slow
def test_a_guided_situation_is_shown_the_steps_are_played_and_reset_begins_anew(shown, folders):
    tab = shown(*folders)
    begun = steps_of(tab)
    tab.click("[data-guide=stop]")
    expect(tab.locator(".guide-says")).to_contain_text("where the sentences end")
    kept(tab, guide="stop", text="The gate opens. The state remembers. The gate closes again. It opens again.")
    first = steps_of(tab)[0][0]
    pressed(tab, " ")
    expect(tab.locator(".play")).to_contain_text("Stop")
    until(tab, f"gatedrnn.panels.every(({{chosen}}) => chosen.step >= {first + 1})")
    pressed(tab, " ")
    expect(tab.locator(".play")).to_contain_text("Play")
    tab.click("button.step-previous")
    tab.click("button.reset")
    expect(tab.locator(".guide-says")).to_have_text("")
    expect(tab.locator("h3.step").first).to_have_text(re.compile(rf"Step {begun[0][0]} of"))
    assert steps_of(tab) == begun and "\n" in tab.input_value("#text")
    calm = shown(*folders, reduced_motion="reduce")
    assert calm.locator(".play").count() == 0
    before = steps_of(calm)
    pressed(calm, " ")
    calm.click("button.step-next")
    assert [step for step, *_ in steps_of(calm)] == [step + 1 for step, *_ in before]


@pytest.mark.slow
def test_an_address_that_names_a_situation_shows_its_text_below_its_sentence(shown, folders):
    for language, sentence in (("", "A bracket opens"), ("&lang=ko", "괄호가 열리고")):
        tab = shown(*folders, address=f"#guide=memory{language}")
        assert "(" in tab.input_value("#text") and sentence in tab.inner_text(".guide-says")
        assert [panel["guided"] for panel in tab.evaluate(GUIDED)] == [True, True]
    tab.evaluate("location.hash = 'guide=surprise&lang=ko'")
    until(tab, "document.getElementById('text').value.includes('zyxqb')")
    expect(tab.locator(".guide-says")).to_contain_text("zyxqb")
    tab.evaluate("location.hash = 'guide=memory&text=A.&lang=ko'")  # a text that the sentence does not speak of
    until(tab, "document.getElementById('text').value === 'A.'")
    expect(tab.locator(".guide-says")).to_have_text("")


GUIDED = """
() => gatedrnn.panels.map(({shown, chosen, found}) => ({
    shown: shown.join(""), guided: found.some(one => one.name === "memory" && one.channel === chosen.channel),
}))
"""


IN_VIEW = """
selector => {
    const {top, bottom} = document.querySelector(selector).getBoundingClientRect();
    const bar = document.getElementById("bar").getBoundingClientRect();
    const covered = document.querySelector("#bar " + selector) === null && bar.top <= 0 && top < bar.bottom - 1;
    return top >= 0 && bottom <= innerHeight && !covered;
}
"""


@pytest.mark.slow
def test_projector_size_keeps_controls_and_the_chosen_gate_on_one_screen(shown, folders):
    screen = {"viewport": {"width": 1280, "height": 720}}
    for language in ("en", "ko"):
        tab = shown(folders[0], address=f"#guide=stop&big=1&lang={language}", **screen)
        for asked in ("[data-guide=surprise]", "[data-preset=stop]", "[data-preset=memory]"):
            tab.click(asked)
            for selector in (".step-previous", ".play", ".step-next", ".big", ".chosen canvas", ".ruler"):
                assert tab.evaluate(IN_VIEW, selector), (language, asked, selector)
        for gate in ("output", "input"):  # of another strip, which is far below
            tab.select_option(".gate", gate)
            assert tab.evaluate(IN_VIEW, ".play") and tab.evaluate(IN_VIEW, ".chosen canvas"), gate


@pytest.mark.slow
def test_the_page_speaks_korean_by_the_browser_or_by_its_address(shown, folders):
    for options in ({"locale": "ko-KR"}, {"address": "#lang=ko"}):
        tab = shown(folders[0], **options)
        assert tab.evaluate("document.documentElement.lang") == "ko" and tab.inner_text("h1") == "학습된 모델의 게이트"
        text = re.sub(r"lstm|LSTM|English|Tab|log|nat|unk|\bp\b|Ctrl", "", tab.inner_text("main").split("A channel")[0])
        left = [word for word in re.findall(r"[A-Za-z]{3,}", text) if word not in page.EXAMPLE]
        assert left == [], "English words on the Korean page"
    assert shown(folders[0], locale="ko-KR", address="#lang=en").evaluate("document.documentElement.lang") == "en"


@pytest.mark.slow
def test_an_untrained_model_is_beside_its_trained_one_on_the_same_channel(shown, text_run):
    tab = shown(text_run, untrained=True)
    trained, untrained = steps_of(tab)
    assert (
        trained == untrained
        and "untrained" in tab.inner_text("#title-1")
        and "untrained" not in tab.inner_text("#title-0")
    )


def test_an_lstm_is_read_anew_at_every_move_of_its_forget_bias(browser):
    tab, said = browser.new_page(), []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.goto((ROOT / "view" / "build" / "forget-bias.html").as_uri() + "#bias=3")
    for bias in (3.0, 2.9):
        found = tab.evaluate("""() => {
            const {lstm, read, forget, cell, half, bias} = gatedrnn;
            const rows = series => read.map((_, t) => [...series.row(t)]);
            return {...Object.fromEntries(Object.entries(lstm).map(([k, v]) => [k, v.length ? [...v] : v])), bias, half,
                    read: read.map(x => [...x]), forget: rows(forget), cell: rows(cell), weights: [...lstm.bias]};
        }""")
        assert found["bias"] == bias
        hidden, inputs = found["hidden"], found["inputs"]
        layer = torch.nn.LSTMCell(inputs, hidden, dtype=torch.float64)
        with torch.no_grad():
            layer.weight_ih.copy_(torch.tensor(found["ofInput"]).view(4 * hidden, inputs))
            layer.weight_hh.copy_(torch.tensor(found["ofState"]).view(4 * hidden, hidden))
            layer.bias_ih.copy_(torch.tensor(found["weights"]))
            layer.bias_hh.zero_()
            layer.bias_hh[hidden : 2 * hidden] = bias
            state, forgets = None, []
            for step, x in enumerate(torch.tensor(found["read"], dtype=torch.float64)):
                h = torch.zeros(hidden, dtype=torch.float64) if state is None else state[0]
                sums = layer.weight_ih @ x + layer.bias_ih + layer.weight_hh @ h + layer.bias_hh
                forgets.append(sums[hidden : 2 * hidden].sigmoid())
                state = layer(x, state)
                np.testing.assert_allclose(found["forget"][step], forgets[-1], atol=ALLOWED)
                np.testing.assert_allclose(found["cell"][step], state[1], atol=ALLOWED)
        half = np.log(0.5) / torch.stack(forgets).log().mean().item()
        assert abs(found["half"] / half - 1) < ALLOWED and f"after {half:.1f} steps" in tab.inner_text(".says")
        tab.focus(".bias")
        tab.keyboard.press("ArrowLeft")
    until(tab, "location.hash === '#bias=2.8'")
    tab.fill(".bias", "5")  # the answer of the exercise on a half-life of 100 steps
    assert 95 < tab.evaluate("gatedrnn.half") < 105 and "0.99 in the mean" in tab.inner_text(".says")
    assert "5" in tab.evaluate("[...document.querySelectorAll('#ticks option')].map(({value}) => value)")
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280 and said == []
    tab.close()


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
    tab.select_option(".layer", "0")
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
    assert tab.inner_text("h3.step").startswith("Step 4 of 4, “4”; layer ") and tab.inner_text("#note") == ""


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
@pytest.mark.parametrize(
    "width, scheme, address",
    [
        (1280, "light", ""), (400, "dark", ""), (1280, "dark", "#lang=ko&big=1&guide=stop"),
        (400, "light", "#link=0&zoom=2&lang=ko&text2=B.&step2=1"),
    ],
)  # fmt: skip
def test_no_error_of_accessibility_and_no_sideways_scrolling(width, scheme, address, shown, folders, browser):
    axe = ROOT / "view" / "node_modules" / "axe-core" / "axe.min.js"
    screen = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    tab = shown(*folders, address=address, **screen, bypass_csp=True)
    check_axe(tab, axe, width)
    other = browser.new_page(**screen, bypass_csp=True)
    other.goto((ROOT / "view" / "build" / "forget-bias.html").as_uri() + address)
    check_axe(other, axe, width)
    other.close()


def check_axe(tab, axe, width):
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
    assert tab.evaluate("document.querySelector('.track').scrollWidth <= document.querySelector('.track').clientWidth")
    for _ in range(4):
        tab.click("button.wider")
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
