"""gatedrnn probe."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gatedrnn.cli.arguments import at_least_one, command_line, use_large_pages
from gatedrnn.cli.interrupted import goes_on, now, of_study
from gatedrnn.machine import cores
from gatedrnn.progress import RunsDisplay
from gatedrnn.studies import probe as run_probes
from gatedrnn.study.settings import ProbeSettings
from gatedrnn.terminal import Console


def probe(
    *cells: str,
    tasks: tuple[str, ...] = ProbeSettings.model_fields["tasks"].default,
    seeds: tuple[int, ...] = ProbeSettings.model_fields["seeds"].default,
    lengths: tuple[int, ...] = ProbeSettings.model_fields["lengths"].default,
    on: str = "local",
    jobs: Annotated[int | None, Parameter(validator=at_least_one)] = None,
    output: Path = Path("runs/probes"),
    fresh: bool = False,
    wait: bool = False,
) -> None:
    """Test what cells can learn, and up to what length.

    Small tasks, each trained at a short length on fresh data and tested up to 65,536 steps; every cell with the
    same number of recurrent parameters. Finished runs are not run again: the same command continues an interrupted
    suite.

    Args:
        cells: Cells to probe, with options as in gru:reset_after=false; lstm, gru, mingru, minlstm, signed-mingru and
            block-orthogonal if none is named.
        tasks: parity, modular-addition, cycle-navigation, s3, s5, s5-all, even-pairs, majority, bucket-sort,
            missing-duplicate, copying, selective-copying, mqar or adding.
        seeds: One run each.
        lengths: Lengths of the tests, beside the training length; up to 65,536 (4,096 where a row has but a few
            labels), if none is given.
        on: Engine of the runs: local, slurm, ray (a cluster on this machine) or ray:HOST:6379; options of the engine
            after commas, as in slurm,slurm_partition=long. The results do not depend on it.
        jobs: Runs at the same time, each in a process of its own with one thread; as many as cores, if not given, and
            on slurm or ray as many as run there.
        output: Folder of the suite.
        fresh: Remove the results of these tasks first and start over.
        wait: Wait while another process writes into the folder, instead of stopping.
    """
    use_large_pages()
    console = Console()
    jobs = jobs or (cores() if on == "local" else None)
    since = now()
    goes_on(lambda: of_study(output, fresh=fresh, since=since))
    with RunsDisplay(console, "probe") as display:
        study = run_probes(
            cells, tasks=tasks, seeds=seeds, lengths=lengths, output=output, on=on, jobs=jobs, fresh=fresh, wait=wait,
            command=command_line(), on_progress=display.show,
        )  # fmt: skip
    from gatedrnn.study.tables import print_probes  # after settings are refused: it imports what takes seconds

    print_probes(study.probes, console)
    console.print(f"report: {study.page}", soft_wrap=True, highlight=False)
