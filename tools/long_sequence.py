"""A sequence over processes, forward and backward: seconds, memory and numbers sent by each.

    torchrun --nproc_per_node 4 tools/long_sequence.py OUTPUT.json [STEPS]

The first process then runs the whole sequence alone, forward, and compares.
"""

import json
import resource
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from gatedrnn import MinGRU
from gatedrnn.layers.context_parallel import context_parallel
from gatedrnn.records import environment

FEATURES, HIDDEN = 16, 16


def main(output: Path, steps: int) -> None:
    """Run it and write what was measured."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    sent, gather = [0], dist.all_gather

    def counted(into: list[torch.Tensor], x: torch.Tensor, group: dist.ProcessGroup | None = None) -> None:
        sent[0] += x.numel()
        gather(into, x, group)

    dist.all_gather = counted  # type: ignore[assignment]
    torch.manual_seed(0)
    alone = MinGRU(FEATURES, HIDDEN, batch_first=True)
    layer = MinGRU(FEATURES, HIDDEN, batch_first=True)
    layer.load_state_dict(alone.state_dict())
    context_parallel(layer, init_device_mesh("cpu", (size,)))
    piece = _piece(rank, steps // size)
    dist.barrier()
    before, started = _peak(), time.perf_counter()
    result, state = layer(piece)
    result.square().sum().backward()
    dist.barrier()
    mine = {"seconds": round(time.perf_counter() - started, 2), "mib_before": before, "mib_at_peak": _peak(),
            "numbers_sent": sent[0]}  # fmt: skip
    rows: list[dict[str, float]] = [{} for _ in range(size)]
    dist.all_gather_object(rows, mine)
    if rank == 0:
        del result
        with torch.no_grad():
            hx = torch.zeros_like(state)
            for number in range(size):
                _, hx = alone(_piece(number, steps // size), hx)
            worst = float((hx - state).abs().max())
        record = {**environment(), "steps": steps, "processes": size, "channels": HIDDEN, "each": rows,
                  "largest_error_of_the_last_state": worst}  # fmt: skip
        output.write_text(json.dumps(record, indent=1) + "\n")
        print(record)
    dist.destroy_process_group()


def _piece(number: int, steps: int) -> torch.Tensor:
    return torch.randn(1, steps, FEATURES, generator=torch.Generator().manual_seed(number))


def _peak() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4_000_000)
