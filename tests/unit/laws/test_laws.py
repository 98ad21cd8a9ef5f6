"""The laws, asked of layers that are not ours: each planted fault is found by its law, no sound layer is accused."""

import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from faulty_layers import FAULTS, Faulty, making
from refusals import refused
from torch import nn

from gatedrnn.errors import UsageError
from gatedrnn.laws.adapters import subject_of
from gatedrnn.laws.errors import TimeLimitExceeded
from gatedrnn.laws.time_limit import time_limit
from gatedrnn.registry import CELLS
from gatedrnn.verify import LawsBroken, Subject, cases, check

TORCH = (nn.RNN, nn.LSTM, nn.GRU, nn.RNNCell, nn.LSTMCell, nn.GRUCell)


def planted(fault):
    """The subject with a fault; it takes a PackedSequence, which only torch's own kind is known to take."""
    subject = subject_of(making(fault))
    return replace(subject, takes=subject.abilities() | {"packed"})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_the_law_that_names_it(fault):
    law = FAULTS[fault]
    (outcome,) = check(planted(fault), only=(law,)).outcomes
    assert outcome.verdict == "fails" and outcome.error > outcome.allowed and outcome.reason


def test_the_same_layer_without_a_fault_breaks_none_and_is_asked_all_that_layers_can_be_asked():
    report = check(planted(""))
    assert report.failures == [] and report.dtype == "float64"
    assert [one.law for one in report.outcomes if one.verdict != "holds"] == ["a cache reordered"]


@pytest.mark.parametrize("layer", [pytest.param(layer, id=layer.__name__) for layer in TORCH])
def test_torchs_layers_break_none(layer):
    report = check(layer)
    assert report.failures == [] and sum(one.verdict == "holds" for one in report.outcomes) >= 25


VARIANTS = {
    "time first": {"num_layers": 2}, "dropout": {"num_layers": 2, "dropout": 0.3, "batch_first": True},
    "both directions": {"bidirectional": True, "batch_first": True}, "projection": {"proj_size": 2},
}  # fmt: skip


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_a_layer_is_made_for_decides_which_laws_it_is_asked(variant):
    report = check(nn.LSTM(3, 4, **VARIANTS[variant]))
    absent = {one.law: one.reason for one in report.outcomes if one.verdict == "not applicable"}
    assert report.failures == []
    assert ("causality" in absent) == ("in two chunks" in absent) == (variant == "both directions")
    assert ("training mode" in absent) == (variant == "dropout")
    assert all(absent.values())


NAMES = list(CELLS)


@pytest.mark.parametrize("name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_our_cells_break_none_as_layers_and_as_cells(name):
    width = 6 + -6 % CELLS[name].equations().block_size
    for module, laws in ((CELLS[name].layer(4, width, batch_first=True), 38), (CELLS[name].single_step(4, width), 22)):
        report = check(module)
        assert [one.law for one in report.failures] == []
        assert sum(one.verdict == "holds" for one in report.outcomes) >= laws


@pytest.mark.slow
def test_torchrecurrents_layers_and_cells_break_none():
    import torchrecurrent

    asked = 0
    for name in sorted(name for name in dir(torchrecurrent) if name[0].isupper()):
        try:
            report = check(getattr(torchrecurrent, name))
        except UsageError:
            continue
        asked += 1
        assert report.failures == [], name
    assert asked >= 70


@pytest.mark.slow  # a process of its own for each script
def test_minlstm_of_its_first_implementation_is_found_at_its_smallest_case():
    report = check("minGRU_pytorch.minLSTM:minLSTM")
    assert "in two chunks" in [one.law for one in report.failures]
    assert [one.verdict for one in report.outcomes if one.law == "step by step"] == ["holds"]
    outcome = next(one for one in report.failures if one.law == "in two chunks")
    assert outcome.case == "width 1, batch 1, 3 steps, cut after 1"
    for one in report.failures:
        assert 0.05 < largest_printed(one.script) and len(one.script.splitlines()) <= 20
    assert check("minGRU_pytorch.minGRU:minGRU").failures == []


def largest_printed(script):
    """Run a script where our package cannot be imported, and return what it prints."""
    code = f"import sys; sys.modules['gatedrnn'] = None\n{script}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True)
    return float(ran.stdout)


class Recurrent(nn.Module):
    """A leaky sum that is called otherwise than torch's layers are."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.input_size, self.gates = input_size, nn.Linear(input_size, 2 * hidden_size)

    def step(self, x, h=None):
        decay, value = self.gates(x).chunk(2, -1)
        h = torch.zeros_like(value) if h is None else h
        h = decay.sigmoid() * h + (1 - decay.sigmoid()) * value
        return h, h


class Scaled(Recurrent):
    """It needs an adapter: its state is a dictionary, and comes first."""

    def both(self, state, x):
        outputs, h = [], None if state is None else state["h"]
        for x_t in x.unbind(1):
            output, h = self.step(x_t, h)
            outputs.append(output)
        return {"h": h}, torch.stack(outputs, 1)


def adapted():
    module = Scaled(3, 4)
    return Subject(module, lambda module, x, state=None: module.both(state, x)[::-1], features=3)


class Mamba(Recurrent):
    """The signature of mamba_ssm's layers: a cache that counts the steps."""

    def __init__(self, d_model, layer_idx=None):
        super().__init__(d_model, d_model)
        self.layer_idx = layer_idx

    def forward(self, hidden_states, inference_params=None):
        h, outputs = None, []
        if inference_params is not None:
            h = inference_params.key_value_memory_dict.get(self.layer_idx)
            assert h is None or hidden_states.shape[1] == 1, "Only support decoding with 1 token at a time for now"
        for x in hidden_states.unbind(1):
            output, h = self.step(x, h)
            outputs.append(output)
        if inference_params is not None:
            inference_params.key_value_memory_dict[self.layer_idx] = h
        return torch.stack(outputs, 1)


class Fla(Recurrent):
    """The signature of flash-linear-attention's layers: a cache that is written into, a mask of all steps so far."""

    def __init__(self, hidden_size, layer_idx=None):
        super().__init__(hidden_size, hidden_size)

    def forward(self, hidden_states, attention_mask=None, past_key_values=None, use_cache=False, **kwargs):
        h, outputs = getattr(past_key_values, "h", None), []
        mask = torch.ones(hidden_states.shape[:2]) if attention_mask is None else attention_mask
        for x, real in zip(hidden_states.unbind(1), mask[:, -hidden_states.shape[1] :].unbind(1), strict=True):
            before = torch.zeros_like(x) if h is None else h
            output, after = self.step(x, before)
            h = torch.where(real[:, None] > 0, after, before)
            outputs.append(output)
        past_key_values.h = h
        return torch.stack(outputs, 1), None, past_key_values


@pytest.fixture
def fla(monkeypatch):
    for name in ("fla", "fla.models", "fla.models.utils"):
        monkeypatch.setitem(sys.modules, name, type(sys)(name))
    sys.modules["fla"].models = sys.modules["fla.models"]
    sys.modules["fla.models"].utils = sys.modules["fla.models.utils"]
    sys.modules["fla.models.utils"].Cache = type("Cache", (), {})


ENTRIES = {
    "layer.step(x, state)": Recurrent, "call": adapted, "layer(x, inference_params=…)": Mamba,
    "layer(x, past_key_values=…)": Fla,
}  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_way_in_is_inferred_and_said(entry, fla):
    report = check(ENTRIES[entry])
    assert report.entry == entry and report.failures == []
    held = {one.law for one in report.outcomes if one.verdict == "holds"}
    assert {"step by step", "prefill, then steps", "a row alone, gradients", "save and load"} <= held
    assert ("in two chunks" in held) != (ENTRIES[entry] is Mamba)
    assert ("on after padding on the right" in held) == (ENTRIES[entry] is Fla)
    assert f"run by {entry}, in float64" in str(report)


class Asked(nn.Module):
    """A class whose constructor asks for more than sizes."""

    def __init__(self, input_size, hidden_size, heads):
        super().__init__()


class NeedsGPU(Recurrent):
    def step(self, x, h=None):
        raise RuntimeError("Found no NVIDIA driver on your system: CUDA is needed")


class Slow(Recurrent):
    def step(self, x, h=None):
        time.sleep(0.2)
        return super().step(x, h)


class Stopping(Recurrent):
    """It hides what its steps raise."""

    def step(self, x, h=None):
        try:
            time.sleep(3)
        except Exception:
            pass
        return super().step(x, h)


BAD = {
    "not recurrent": (nn.Linear, "asks for in_features|not recurrent: it takes an input and no state"),
    "an object": (3, "takes a module, a class, a function that makes one, or a Subject, got 3"),
    "other sizes": (Asked, "asks for heads, which verify does not know; write a function without arguments"),
    "a GPU": (NeedsGPU, "needs a GPU"),
    "a file that is not there": ("nowhere.py:make", "nowhere.py: no such file"),
    "a package that is not there": ("nowhere:Layer", "nowhere cannot be imported: ModuleNotFoundError"),
    "a name that is not there": ("torch.nn:GRUU", "did you mean 'GRU'"),
    "weights to download": ("transformers:state-spaces/mamba-130m", "names weights to download"),
    "no family": ("transformers:mambo", "did you mean 'mamba'"),
    "attention": ("transformers:gpt2", "gpt2 is not among the families that recur in transformers [0-9.]+: bailing"),
}


@pytest.mark.parametrize("what", BAD)
def test_what_cannot_be_asked_is_refused_in_one_sentence(what):
    thing, said = BAD[what]
    message = refused(UsageError, said, check, thing)
    assert "\n" not in str(message)


def test_a_law_that_takes_too_long_is_stopped_and_the_next_is_asked():
    report = check(Recurrent(3, 4), only=("step by step",), seconds=60)
    assert [one.verdict for one in report.outcomes] == ["holds"]
    report = check(Slow(3, 4), only=("finite", "the same again"), seconds=0.5)
    assert [one.verdict for one in report.outcomes] == ["stopped", "not applicable"]
    assert report.outcomes[0].broken and "more than 0.5 s" in report.outcomes[0].reason


def test_a_limit_reaches_code_that_hides_exceptions_and_leaves_no_trace_where_there_was_time():
    with pytest.raises(TimeLimitExceeded), time_limit(0.2):
        for _ in range(100):
            try:
                time.sleep(0.05)
            except Exception:
                pass
    with time_limit(10):
        pass
    time.sleep(0.05)


def test_the_module_is_left_as_it_was_in_mode_weights_and_random_numbers():
    layer = Faulty(3, 4)
    before, weights, drawn = (
        layer.training,
        {k: v.clone() for k, v in layer.state_dict().items()},
        torch.get_rng_state(),
    )
    check(layer, only=("step by step", "training mode"))
    assert layer.training == before and torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(value, weights[key]) for key, value in layer.state_dict().items())


LAWS_OF_GRU = cases(nn.GRU)


@pytest.mark.parametrize("law", LAWS_OF_GRU)
def test_each_law_is_a_test_of_another_projects_suite(law):
    law()


def test_a_test_that_fails_says_the_law_the_case_and_the_script():
    laws = {law.__name__: law for law in cases("minGRU_pytorch.minLSTM:minLSTM")}
    with pytest.raises(LawsBroken) as caught:
        laws["in-two-chunks"]()
    said = str(caught.value)
    assert "Two chunks, with the state carried, give what the whole sequence gives." in said
    assert "width 1, batch 1, 3 steps, cut after 1" in said and "def in_chunks(run, x, cuts" in said
    report = check("minGRU_pytorch.minLSTM:minLSTM", only=("in two chunks", "pickle"))
    with pytest.raises(LawsBroken, match="breaks 1 laws"):
        report.raise_if_failed()
    assert report.verdict() == "minGRU_pytorch.minLSTM:minLSTM: 1 hold, 1 FAIL"
    assert "<td>fails</td>" in report._repr_html_() and report.as_record()["passed"] is False


class Loop(nn.Module):
    """A tanh layer whose step is written in `forward`, for what others do around it."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.i, self.h = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size)

    def start(self, x):
        return x.new_zeros(len(x), self.h.out_features, dtype=self.h.weight.dtype)

    def loop(self, x, h):
        outputs = []
        for x_t in x.unbind(1):
            h = torch.tanh(self.i(x_t) + self.h(h))
            outputs.append(h)
        return torch.stack(outputs, 1), h

    def forward(self, x, state=None):
        return self.loop(x, self.start(x) if state is None else state)


class CrashesAlone(Loop):
    def forward(self, x, state=None):
        output, h = super().forward(x, state)
        return output, h.squeeze().reshape(x.shape[0], h[:2].shape[0] * h.shape[1] // 2)


class Unpacks(Loop):
    def forward(self, x, state=None):
        if state is not None and x.shape[1] > 1:
            _, _, _ = state.shape
        return super().forward(x, state)


class ImaginaryLost(Loop):
    def forward(self, x, state=None):
        h = self.start(x).to(torch.complex64 if x.dtype == torch.float32 else torch.complex128)
        h = h if state is None else state.real + 0j
        outputs = []
        for x_t in x.unbind(1):
            h = h * complex(0.6, 0.5) + self.i(x_t)
            outputs.append(h)
        return torch.stack(outputs, 1), h


class InfiniteLater(Loop):
    def forward(self, x, state=None):
        output, h = super().forward(x, state)
        return output * (float("inf") if x.shape[1] > 700 else 1), h


class EvenWidths(Loop):
    def __init__(self, input_size, hidden_size):
        if hidden_size % 2:
            raise ValueError("hidden_size must be even")
        super().__init__(input_size, hidden_size)

    def forward(self, x, state=None):
        return super().forward(x, state if x.shape[1] == 1 else None)


def refusing():
    """A layer without source text, which takes no chunk of several steps after the first."""
    names = {"Loop": Loop}
    exec(
        "class Refusing(Loop):\n    def forward(self, x, state=None):\n"
        "        if state is not None and x.shape[1] > 1:\n            raise ValueError('one step at a time')\n"
        "        return super(Refusing, self).forward(x, state)\n",
        names,
    )
    return names["Refusing"](3, 4)


def test_a_use_that_a_statement_refuses_is_not_applicable_wherever_the_layer_was_written():
    (chunks, steps) = check(refusing(), input_size=3, only=("step by step", "in two chunks")).outcomes[::-1]
    assert steps.verdict == "holds" and chunks.verdict == "not applicable"
    assert chunks.reason == "it refuses: ValueError: one step at a time"


OTHERS = {
    CrashesAlone: "a row alone", Unpacks: "in two chunks", ImaginaryLost: "in two chunks",
    InfiniteLater: "any length", EvenWidths: "in two chunks",
}  # fmt: skip


@pytest.mark.parametrize("layer", OTHERS)
def test_a_crash_an_operation_that_fails_and_values_beyond_the_real_ones_are_faults(layer):
    (outcome,) = check(layer, only=(OTHERS[layer],)).outcomes
    assert outcome.verdict == "fails", outcome.reason


class TimeFirst(Loop):
    def forward(self, x, state=None):
        output, h = super().forward(x.transpose(0, 1), state)
        return output.transpose(0, 1), h


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.GRU(4, 6, batch_first=True, bidirectional=True)

    def forward(self, x, state=None):
        return self.inner(x, state)


class Bounded(Loop):
    """Its parameter lies below 1, as the modulus of an LRU."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.a = nn.Parameter(torch.full((hidden_size,), 0.99))

    def forward(self, x, state=None):
        h, outputs = self.start(x) if state is None else state, []
        for x_t in x.unbind(1):
            h = self.a * h + (1 - self.a**2).sqrt() * self.i(x_t)
            outputs.append(h)
        return torch.stack(outputs, 1), h


class Counting(Loop):
    def forward(self, x, state=None):
        h, count = (self.start(x), 0) if state is None else state
        output, h = self.loop(x, h)
        return output, (h, count + x.shape[1])


class Dropping(Loop):
    def forward(self, x, state=None):
        output, h = super().forward(x, state)
        return nn.functional.dropout(output, 0.5, self.training), h


class Flagged(Loop):
    def forward(self, x, state=None, reset=False):
        return super().forward(x, None if reset else state)


def chaotic():
    layer = nn.RNN(4, 64, batch_first=True)
    with torch.no_grad():
        layer.weight_hh_l0.mul_(8)
    return layer


def compiled():
    return torch.compile(nn.GRU(4, 6, batch_first=True), backend="eager")


@pytest.mark.parametrize("layer", [TimeFirst, Wrapped, Bounded, Counting, Dropping, Flagged, chaotic, compiled])
def test_an_unusual_layer_that_is_sound_is_not_accused(layer):
    report = check(layer)
    assert [(one.law, one.reason) for one in report.failures] == []
    assert sum(one.verdict == "holds" for one in report.outcomes) >= (10 if layer is Wrapped else 17)
    assert ("time first" in report.entry) == (layer is TimeFirst)


def test_frozen_weights_are_asked_and_stay_frozen():
    layer = nn.GRU(3, 4, batch_first=True).requires_grad_(False)
    report = check(layer)
    asked = {one.law for one in report.outcomes if one.verdict == "holds"}
    assert report.failures == [] and {"in two chunks, gradients", "packed, gradients"} <= asked
    assert not any(weight.requires_grad for weight in layer.parameters())


def test_gradients_are_asked_whatever_the_caller_has_switched_off():
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            report = check(nn.GRU(3, 4), only=("in two chunks, gradients",))
        assert [one.verdict for one in report.outcomes] == ["holds"]


class Decaying(Loop):
    """A call changes its weights and its buffer."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.norm = nn.BatchNorm1d(hidden_size)

    def forward(self, x, state=None):
        with torch.no_grad():
            self.h.weight.mul_(0.99)
        output, h = super().forward(x, state)
        return self.norm(output.transpose(1, 2)).transpose(1, 2), h


def test_weights_buffers_and_the_mode_of_each_part_are_as_before_whatever_a_call_changes():
    layer = Decaying(3, 4)
    layer.i.eval()
    kept = {name: value.clone() for name, value in layer.state_dict().items()}
    check(layer, input_size=3, only=("finite",))
    assert layer.training and layer.norm.training and not layer.i.training
    assert all(torch.equal(value, kept[name]) for name, value in layer.state_dict().items())


def test_a_law_is_named_as_it_is_or_as_pytest_shows_it_and_no_other_way():
    for name in ("step by step", "step-by-step"):
        assert [one.law for one in check(nn.GRU, only=name).outcomes] == ["step by step"]
    refused(
        UsageError,
        "there is no law 'step by steps'; did you mean 'step by step'",
        check,
        nn.GRU,
        only=("step by steps",),
    )
    refused(UsageError, "pass its .float", check, nn.GRU(3, 4).bfloat16())
    assert check("mingru", only=("finite",)).failures == []
    refused(UsageError, "name a layer as PACKAGE.MODULE:CLASS", check, "transformers")


def test_the_first_law_that_fails_is_the_one_that_is_named_for_the_others():
    report = check(making("not a number"))
    assert report.failures[0].law == "finite"
    assert {one.reason for one in report.outcomes[1:]} == {"'finite' fails, and nothing can be judged without it"}


class Endless(Loop):
    def forward(self, x, state=None):
        while True:
            pass


def test_a_first_call_that_does_not_end_is_refused(monkeypatch):
    monkeypatch.setattr("gatedrnn.laws.suite._MIN_BEGIN", 0.5)
    refused(UsageError, "Endless takes more than 0.5 s for its first call", check, Endless, seconds=0.5)


def test_the_script_of_a_layer_in_a_file_finds_the_file(tmp_path):
    (tmp_path / "neighbour.py").write_text("import torch\nfrom torch import nn\n")
    (tmp_path / "own_layer.py").write_text(
        "from neighbour import nn\n\n\nclass Own(nn.GRU):\n    def forward(self, x, hx=None):\n"
        "        return super().forward(x, hx if x.shape[1] == 1 else None)\n"
    )
    (outcome,) = check(f"{tmp_path / 'own_layer.py'}:Own", only=("in two chunks",)).outcomes
    assert outcome.verdict == "fails" and f"sys.path.insert(0, {str(tmp_path)!r})" in outcome.script
    assert outcome.case.startswith("width 1, batch 1")
