"""A type checker knows a user's script: results, and wrong arguments."""

import re
import subprocess
import sys

import pytest

from gatedrnn.registry import CELLS, CellChoice

TENSOR = "torch._tensor.Tensor"
STATES = {record.layer.__name__: len(CellChoice(name).state_names) for name, record in CELLS.items()}
"""The number of tensors in the state of each layer."""
SINGLE_STEPS = {record.single_step.__name__: STATES[record.layer.__name__] for record in CELLS.values()}
WRONG = {
    "gatedrnn.GRU(3, 4, num_layer=2)": 'Unexpected keyword argument "num_layer" for "GRU"; did you mean "num_layers"?',
    'gatedrnn.LSTM(3, hidden_size="128")': 'Argument "hidden_size" to "LSTM" has incompatible type "str"',
    "gatedrnn.MinGRU(3, 4, bidirectional=0.5)": 'Argument "bidirectional" to "MinGRU" has incompatible type "float"',
    "gatedrnn.MinGRUCell(3, 4, zone=1)": 'Unexpected keyword argument "zone" for "MinGRUCell"',
    "gatedrnn.linear_scan(x, x, backend=3)": 'Argument "backend" to "linear_scan" has incompatible type "int"',
}


def mypy_says(script, folder):
    """The first message of each line that has one."""
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache", "script.py"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout
    return {int(line): text for line, text in reversed(re.findall(r"script\.py:(\d+): \w+: (.*)", said))}


def type_of_state(count):
    return TENSOR if count == 1 else f"tuple[{', '.join([TENSOR] * count)}]"


@pytest.mark.slow
def test_every_result_and_every_wrong_argument_is_known(tmp_path):
    calls = [f"reveal_type(gatedrnn.{name}(3, 4)(x))" for name in STATES]
    calls += [f"reveal_type(gatedrnn.{name}(3, 4)(x[0]))" for name in SINGLE_STEPS]
    found = mypy_says("\n".join(["import gatedrnn, torch", "x = torch.randn(2, 5, 3)", *calls, *WRONG]), tmp_path)
    wanted = [f'Revealed type is "tuple[{TENSOR}, {type_of_state(count)}]"' for count in STATES.values()]
    wanted += [f'Revealed type is "{type_of_state(count)}"' for count in SINGLE_STEPS.values()]
    assert [found.pop(line, None) for line in range(3, 3 + len(calls))] == wanted
    assert all(message in found[line] for line, message in enumerate(WRONG.values(), 3 + len(calls)))
    assert len(found) == len(WRONG)
