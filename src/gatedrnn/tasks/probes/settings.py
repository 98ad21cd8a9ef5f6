"""Settings of probes."""

from typing import Literal

from pydantic import Field, PositiveInt

from gatedrnn.data.settings import NO_CLASSES, Seed, Settings, TaskSettings


class ProbeTaskSettings(TaskSettings):
    """A probe: sequences drawn at random."""

    expert = ("labels", "curriculum", "split_seed")

    def check(self, train: Settings) -> None:
        given = train.model_dump()
        if self.curriculum > given["epochs"]:
            raise ValueError(
                f"--curriculum {self.curriculum}: sequences would still grow when training ends, after --epochs "
                f"{given['epochs']}; give a smaller one, or 0 for none"
            )
        from gatedrnn.tasks.probes.suite import PROBES  # with numpy, which a help page does without

        if not PROBES[self.task].classes:
            for name, why in NO_CLASSES.items():
                if given[name]:
                    raise ValueError(f"--{name.replace('_', '-')}{why.format(task=self.task)}")

    labels: Literal["every", "last"] = "every"
    """The steps to train and test on where every step has a label: all of them, or the last alone."""
    length: int = Field(20, ge=1)
    """Steps of a training sequence."""
    curriculum: int = Field(0, ge=0)
    """Epochs of 100 steps over which sequences grow to that length; 0: all have it from the start."""
    test_lengths: tuple[PositiveInt, ...] = ()
    """Further lengths to test; 4 times the training length if none is given."""
    split_seed: Seed = 0
    """Seed of the validation and test sequences."""
