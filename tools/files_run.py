"""Print the files of the package in which Python code runs while a layer is called, forward and backward, as JSON.

    PYTHONPATH=src python tools/files_run.py src/gatedrnn

The second call counts, in training mode: kernels are compiled and what is cached is cached. A compiled kernel runs no
Python, though Numba reports its call as one; the file that calls it counts.
"""

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

LAYERS = ("MinGRU", "LSTM")


def files_run(call: Callable[[], object], folder: Path) -> list[str]:
    """The files below a folder in which a function is entered during a call, relative to it."""
    from numba.core.dispatcher import Dispatcher

    # By identity: the hash of a code object changes as Python specialises it.
    compiled = {id(each.py_func.__code__) for each in gc.get_objects() if issubclass(type(each), Dispatcher)}
    files = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and id(frame.f_code) not in compiled:
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return sorted(Path(file).relative_to(folder).as_posix() for file in files if Path(file).is_relative_to(folder))


def main(folder: Path) -> None:
    """Print {layer: {"forward": files, "backward": files}}.

    Raises:
        ImportError: another gatedrnn is imported than that of the folder.
    """
    import torch

    import gatedrnn

    if not Path(gatedrnn.__file__).is_relative_to(folder):
        raise ImportError(
            f"gatedrnn is imported from another folder than {folder}; PYTHONPATH must begin with its parent"
        )
    runs = {}
    for name in LAYERS:
        layer, x = getattr(gatedrnn, name)(8, 8, batch_first=True), torch.randn(2, 16, 8)
        layer(x)[0].sum().backward()
        outputs = []
        forward = files_run(lambda: outputs.append(layer(x)[0]), folder)  # noqa: B023
        loss = outputs[0].sum()
        runs[name] = {"forward": forward, "backward": files_run(loss.backward, folder)}
    print(json.dumps(runs))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
