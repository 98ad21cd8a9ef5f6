"""What a layer returns, by the names that `layer_laws.assert_same` compares."""

from layer_laws import as_tuple


def results(output, state):
    return {"output": output} | {f"state {i}": s for i, s in enumerate(as_tuple(state))}
