"""Measure a text of 2 GB: how fast it is tokenised, in what memory, and how long training waits for it.

    python tools/measure_long_text.py OUTPUT.json [MEGABYTES]

The text is the reference of the Python language, again and again, in ten files. Encoding is measured on three of them,
in turn by one thread on one core, by all cores, and by the tokenizer's own `encode_batch` on all cores.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil

from gatedrnn.data.corpus import python_topics, read_corpus
from gatedrnn.data.stream import _PARALLELISM, encode_long
from gatedrnn.data.tokenizers import in_batches, learn_tokenizer
from gatedrnn.records import environment

FILES, ENCODED, STARTS = 10, 3, 3
LIBRARY_AT_ONCE = 1 << 20  # characters of a list for encode_batch: large, so that it has work for all cores
RUN = ("--tokenizer", "words", "--test-fraction", "0", "--batch-size", "16", "--length", "128")


def main(output: Path, megabytes: int) -> None:
    """Write the text into a temporary folder, and measure."""
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place, "text"), Path(place, "cache")
        folder.mkdir()
        topics = "".join(piece.text for piece in python_topics().pieces())
        for number in range(FILES):
            with (folder / f"part-{number}.txt").open("w") as file:
                for _ in range(megabytes * 10**6 // FILES // len(topics.encode())):
                    file.write(topics)
        Path(place, "validation.txt").write_text(topics[:100_000])
        measured = {
            "bytes": sum(path.stat().st_size for path in folder.iterdir()),
            "encoding": encoding(sorted(folder.iterdir())[:ENCODED]),
            "training": training(folder, Path(place, "validation.txt"), cache, Path(place, "runs")),
        }
    output.write_text(json.dumps({**environment(), **measured}, indent=1) + "\n")
    print(json.dumps(measured, indent=1))


def encoding(files: Sequence[Path]) -> dict[str, object]:
    """Seconds of each way over all files, and the median ratios with their ranges."""
    topics = (line for piece in python_topics().pieces() for line in piece.text.split("\n"))
    tokenizer = learn_tokenizer("words", topics, 2, 0, stream=True)

    def texts(path: Path) -> Iterator[str]:
        return (piece.text for piece in read_corpus(path, None, None).pieces())

    def ours(path: Path) -> int:
        return sum(map(len, encode_long(tokenizer, texts(path))))

    def one_thread(path: Path) -> int:
        cores = os.sched_getaffinity(0)
        os.environ[_PARALLELISM] = "false"
        os.sched_setaffinity(0, {min(cores)})
        try:
            return ours(path)
        finally:
            del os.environ[_PARALLELISM]
            os.sched_setaffinity(0, cores)

    def library(path: Path) -> int:
        encode = tokenizer.backend_tokenizer.encode_batch
        batches = in_batches(texts(path), LIBRARY_AT_ONCE)
        return sum(len(row.ids) for batch in batches for row in encode("".join(batch).split("\n")))

    encoders: dict[str, Callable[[Path], int]] = {"one core": one_thread, "all cores": ours, "encode_batch": library}
    seconds: dict[str, list[float]] = {name: [] for name in encoders}
    for path in files:
        for name, encode in encoders.items():
            started = time.perf_counter()
            encode(path)
            seconds[name].append(time.perf_counter() - started)
        print(path.name, {name: round(times[-1], 1) for name, times in seconds.items()}, flush=True)

    def ratio(name: str) -> list[float]:
        each = sorted(a / b for a, b in zip(seconds[name], seconds["all cores"], strict=True))
        return [round(x, 3) for x in (statistics.median(each), each[0], each[-1])]

    return {
        "files": len(files), "seconds": {name: round(sum(each), 1) for name, each in seconds.items()},
        "one core over all cores": ratio("one core"), "encode_batch over all cores": ratio("encode_batch"),
    }  # fmt: skip


def training(folder: Path, validation: Path, cache: Path, runs: Path) -> dict[str, object]:
    """The first start, with an empty cache; the second one; and what steps wait."""
    files = ("--train-file", str(folder), "--validation-file", str(validation))
    first = _run(*files, "--total-steps", "1", "--output", str(runs / "first"), cache=cache)
    second = _run(*files, "--total-steps", "1", "--output", str(runs / "second"), cache=cache)
    config = runs / "second" / "config.yaml"
    starts = [_to_the_first_step(config, runs / f"start-{n}", cache) for n in range(STARTS)]
    waits = {}
    for order in ("lanes", "shuffled"):
        for workers in ("0", "1"):
            name = f"{order}, {workers} workers"
            output = runs / name
            _run(
                *files, "--total-steps", "200", "--order", order, "--workers", workers, "--output", str(output),
                cache=cache,
            )  # fmt: skip
            waits[name] = round(json.loads((output / "result.json").read_text())["measured"]["waiting_share"], 5)
    return {
        "first start": first,
        "second start": second,
        "seconds to the first step": starts,
        "share of a step that waits": waits,
    }


def _to_the_first_step(config: Path, folder: Path, cache: Path) -> float:
    """The seconds of a process that trains with these settings, from its start on, imports included."""
    command = [sys.executable, __file__, "--first-step", str(config), str(folder)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def first_step(config: Path, folder: Path) -> None:
    """Train until a step is done, and print the seconds since this process began."""
    from gatedrnn.progress import Progress
    from gatedrnn.training.folder import RunFolder
    from gatedrnn.training.loop import run

    def on_step(progress: Progress) -> None:
        if progress.step:
            print(time.time() - psutil.Process().create_time(), flush=True)
            os._exit(0)

    run(RunFolder(config.parent).settings(), folder, on_step)


def _run(*options: str, cache: Path) -> dict[str, float]:
    """Seconds of `gatedrnn train`, and the most memory of its processes together: private, and with mapped files."""
    started = time.perf_counter()
    process = psutil.Popen(
        [sys.executable, "-m", "gatedrnn", "train", *RUN, *options],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    private = resident = 0
    while process.poll() is None:
        try:
            each = [memory.memory_full_info() for memory in (process, *process.children(recursive=True))]
        except psutil.NoSuchProcess:
            continue
        private, resident = (
            max(private, sum(memory.uss for memory in each)),
            max(resident, sum(memory.pss for memory in each)),
        )
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit(f"gatedrnn train ended with {process.returncode}")
    return {
        "seconds": round(time.perf_counter() - started, 1), "private_gb": round(private / 1e9, 3),
        "resident_gb": round(resident / 1e9, 3),
    }  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1] == "--first-step":
        first_step(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
