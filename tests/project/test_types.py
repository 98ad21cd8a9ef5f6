"""A type checker knows a user's script: results, and wrong arguments."""

import re
import subprocess
import sys

import pytest

import gatedrnn

TENSOR = "torch._tensor.Tensor"
PAIRS = {name + end for name in ("LSTM", "PeepholeLSTM", "CIFG", "ParaLSTM", "SRU", "QRNN") for end in ("", "Cell")}
"""Their state is a pair."""
FOURS = {"SLSTM", "SLSTMCell"}  # theirs is (h, c, n, m)
LAYERS = [name for name in gatedrnn.__all__ if hasattr(getattr(gatedrnn, name), "cell_class")]
CELLS = [name for name in gatedrnn.__all__ if hasattr(getattr(gatedrnn, name), "layer_class")]
WRONG = {
    "gatedrnn.GRU(3, 4, num_layer=2)": 'Argument "num_layer" to "GRU" has incompatible type "int"',
    'gatedrnn.LSTM(3, hidden_size="128")': 'Argument "hidden_size" to "LSTM" has incompatible type "str"',
    "gatedrnn.MinGRU(3, 4, bidirectional=0.5)": 'Argument "bidirectional" to "MinGRU" has incompatible type "float"',
    "gatedrnn.MinGRUCell(3, 4, zone=1)": 'Argument "zone" to "MinGRUCell" has incompatible type "int"',
    "gatedrnn.linear_scan(x, x, backend=3)": 'Argument "backend" to "linear_scan" has incompatible type "int"',
}


def mypy_says(script, folder):
    """The message of each line that has one."""
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache", "script.py"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout
    return {int(line): text for line, text in re.findall(r"script\.py:(\d+): \w+: (.*)", said)}


@pytest.mark.slow
def test_every_result_and_every_wrong_argument_is_known(tmp_path):
    calls = [f"reveal_type(gatedrnn.{name}(3, 4)(x))" for name in LAYERS]
    calls += [f"reveal_type(gatedrnn.{name}(3, 4)(x[0]))" for name in CELLS]
    found = mypy_says("\n".join(["import gatedrnn, torch", "x = torch.randn(2, 5, 3)", *calls, *WRONG]), tmp_path)
    pair = f"tuple[{TENSOR}, {TENSOR}]"
    four = f"tuple[{', '.join([TENSOR] * 4)}]"
    states = {name: pair if name in PAIRS else four if name in FOURS else TENSOR for name in [*LAYERS, *CELLS]}
    wanted = [f'Revealed type is "tuple[{TENSOR}, {states[name]}]"' for name in LAYERS]
    wanted += [f'Revealed type is "{states[name]}"' for name in CELLS]
    assert [found.pop(line, None) for line in range(3, 3 + len(calls))] == wanted
    assert all(message in found[line] for line, message in enumerate(WRONG.values(), 3 + len(calls)))
    assert len(found) == len(WRONG)
