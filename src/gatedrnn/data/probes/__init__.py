"""Small tasks that each ask one thing of a cell."""

from gatedrnn.data.probes.adding import ADDING
from gatedrnn.data.probes.groups import GROUPS
from gatedrnn.data.probes.probe import IGNORED, Probe, labels_in, scaled
from gatedrnn.data.probes.recall import RECALL
from gatedrnn.data.probes.strings import STRINGS

PROBES: dict[str, Probe] = {probe.name: probe for probe in (*GROUPS, *STRINGS, *RECALL, *ADDING)}
"""Every probe by its name."""

__all__ = ["IGNORED", "PROBES", "Probe", "labels_in", "scaled"]
