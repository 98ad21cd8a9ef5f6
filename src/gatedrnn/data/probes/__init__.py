"""Small tasks that each ask one thing of a cell."""

from gatedrnn.data.probes.suite import ADDING, GROUPS, IGNORED, RECALL, STRINGS, Probe, labels_in, scaled

PROBES: dict[str, Probe] = {probe.name: probe for probe in (*GROUPS, *STRINGS, *RECALL, *ADDING)}
"""Every probe by its name."""

__all__ = ["IGNORED", "PROBES", "Probe", "labels_in", "scaled"]
