"""Every kept comparison has a part that is run again: to the bit on the processor that made it, else nearly so."""

import subprocess
import sys

import pytest
from pages import ROOT, SHARED

sys.path.insert(0, str(ROOT / "tools"))
import kept_parts
from kept_parts import PARTS, RESULTS, Part, allowed, compared, file_of

from gatedrnn.records import environment
from gatedrnn.training.result import read_record

RUNS = ("results.json", "probes.json", "result.json", "folds.json")
"""The files of a folder of results whose numbers come from training."""
PART = Part(
    losses=[4.0, 2.0, 1.0], scores={"test": {"loss": 1.5, "accuracy": 0.5}}, weights="0123", precision="float32",
    instructions={"torch": "AVX512"}, **environment(),
)  # fmt: skip


def test_every_kept_comparison_has_a_part_and_each_part_has_all_of_its_steps():
    trained = {path.parent.relative_to(RESULTS).as_posix() for name in RUNS for path in RESULTS.rglob(name)}
    assert {folder for folder in trained if not any(part.startswith(f"{folder}") for part in PARTS)} == set()
    assert {path for path in kept_parts.KEPT.iterdir()} == {file_of(name) for name in PARTS}
    assert {name: len(read_record(file_of(name), Part).losses) for name in PARTS} == PARTS


def changed(**fields):
    return PART.model_copy(update=fields)


def test_the_same_processor_gives_the_same_bits(tmp_path):
    PART.write(tmp_path / "part.json")
    assert compared(read_record(tmp_path / "part.json", Part), PART).agrees
    found = compared(PART, changed(losses=[4.0, 2.0000000000000004, 1.0]))
    assert found == (False, "DIFFERS from step 2 on: loss 2.0000000000000004, kept 2.0, off by 2.2e-16 of it")
    for other in changed(weights="4567"), changed(scores={"test": {"loss": 1.5, "accuracy": 0.25}}):
        assert compared(PART, other).words.startswith("DIFFERS after step 3")
    assert compared(PART, changed(losses=[4.0])).words.startswith("DIFFERS: 3 steps are kept, 1 were run")


@pytest.mark.parametrize("precision", kept_parts.FIRST)
@pytest.mark.parametrize("step", [1, 3])
def test_another_processor_may_be_off_by_what_is_allowed_at_a_step(step, precision):
    most, elsewhere = allowed(step, precision), {"precision": precision, "instructions": {"torch": "AVX2"}}

    def beside(share, loss=1.5):
        losses = list(PART.losses)
        losses[step - 1] *= 1 + share
        other = changed(losses=losses, scores={"test": {"loss": loss}}, **elsewhere)
        return compared(changed(precision=precision), other)

    agrees, words = beside(0.9 * most)
    assert agrees and "agrees in 3 steps, off by 90%" in words and "'AVX512' kept, 'AVX2' here" in words
    for share in (1.1 * most, -1.1 * most, float("nan")):
        assert not beside(share).agrees and beside(share).words.startswith(f"DIFFERS from step {step} on")
    assert beside(0.0, 1.5 * (1 + 0.9 * allowed(3, precision))).agrees
    assert not beside(0.0, 1.5 * (1 + 1.1 * allowed(3, precision))).agrees


def test_another_processor_is_compared_as_far_as_that_says_anything():
    kept = changed(losses=[1.0] * 200)
    last = sum(allowed(step, "float32") <= kept_parts.SAYS_NOTHING for step in range(1, 201))
    assert 50 < last < 100
    later = changed(losses=[1.0] * last + [2.0] * (200 - last), instructions={}, scores={"test": {"loss": 9.0}})
    assert compared(kept, later).words.startswith(f"agrees in {last} steps, off by 0% of what is allowed")


@pytest.fixture(scope="module")
def said(request):
    """The output of the command for a part: one process for all that are asked for, so that libraries are loaded
    once.
    """
    asked = [item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")]
    names, found = [name for name in PARTS if name in asked], {}
    command = [sys.executable, kept_parts.__file__, "check", *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:

        def of(name):
            for line in process.stdout:
                part, _, found[part] = line.rstrip().partition(": ")
                if part == name:
                    break
            return found.get(name, "nothing was said of it")

        yield of
        process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_a_part_comes_out_again(name, said):
    """A part comes out with its data: where there are shared data, those of a part must be among them."""
    words = said(name)
    if not SHARED.is_dir() and words.startswith("not checked"):
        pytest.skip(words)
    assert words.startswith(("the same", "agrees")), words
