"""Large tensors in large pages."""

import os


def use_large_pages() -> None:
    """Have torch ask Linux for pages of 2 MiB behind its large tensors; to be called before the first tensor is made.

    glibc maps a tensor of 32 MiB or more anew whenever it is made, by default in pages of 4 KiB: with a vocabulary of
    33,278 that took a quarter of a training step. To have glibc keep such memory instead is faster still, and no way:
    a small number that outlives a large one next to it leaves a hole that the next large one does not fit, and memory
    runs out. A variable that is set already stands.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
