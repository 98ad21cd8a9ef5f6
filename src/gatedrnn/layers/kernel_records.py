"""The kernel record of each cell that has a kernel, by `Equations.kernel`."""

from gatedrnn.equations import BlockKernel, LoopKernel, ScanKernel

SCAN = {
    "mingru": ScanKernel("replace", "g", candidate=0, first=1, second=1),
    "mingru-identity": ScanKernel("replace", "identity", candidate=0, first=1, second=1),
    "minlstm": ScanKernel("share", "g", candidate=0, first=1, second=2),
    "minlstm-identity": ScanKernel("share", "identity", candidate=0, first=1, second=2),
    "lstm-input-gated": ScanKernel("free", "tanh", candidate=2, first=1, second=0, squash=True),
    "lstm-normalized": ScanKernel("share", "tanh", candidate=2, first=1, second=0, squash=True),
    "gru-input-gated": ScanKernel("keep", "tanh", candidate=1, first=0, second=0),
    "signed-mingru": ScanKernel("signed", "identity", candidate=0, first=1, second=1),
}
LOOP = {
    "lstm": LoopKernel("lstm", gates=4, saved=4, state=("h", "c")),
    "lstm-no-output-gate": LoopKernel("lstm-no-output-gate", gates=3, saved=3, state=("c",)),
    "gru": LoopKernel("gru", gates=3, saved=4, state=("h",), separate_candidate=True),
    "gru-reset-before": LoopKernel("gru-reset-before", gates=3, saved=3, state=("h",), gated_state=True),
    "gru-no-reset-gate": LoopKernel("gru-no-reset-gate", gates=2, saved=2, state=("h",)),
    "mgu": LoopKernel("mgu", gates=2, saved=2, state=("h",), gated_state=True),
    "mgu-keep": LoopKernel("mgu-keep", gates=2, saved=2, state=("h",), gated_state=True),
}
BLOCK = {"block-rotation": BlockKernel("rotation"), "block-reflections": BlockKernel("reflections")}
