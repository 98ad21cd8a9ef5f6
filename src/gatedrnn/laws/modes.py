"""Ways of feeding the same sequences to a recurrent module: what the laws hold to be equal.

`run(x, state)` returns the outputs (batch, time, …) and the state after the last step; `mask` is True at real steps and
`resets` where a sequence begins. The script of a failing law quotes these functions, so they need torch alone, and they
index their input as a tensor: whatever is sliced like one, with its flags beside it, can be fed by them too.
"""
# mypy: disable-error-code="no-untyped-def"
# ruff: noqa: B905

import copy
import io
import pickle

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def whole(run, x, state=None):
    """Feed the whole sequences at once."""
    return run(x, state)


def in_chunks(run, x, cuts, state=None):
    """Feed the steps between two cuts by a call each and carry the state."""
    outputs = []
    for piece in x.tensor_split(cuts, 1):
        output, state = run(piece, state)
        outputs.append(output)
    return torch.cat(outputs, 1), state


def rows_alone(run, x):
    """Feed each sequence by a call of its own, and join the outputs."""
    return torch.cat([run(x[i : i + 1])[0] for i in range(len(x))])


def rows_alone_in_chunks(run, x, cuts):
    """Feed each sequence by calls of its own."""
    return torch.cat([in_chunks(run, x[i : i + 1], cuts)[0] for i in range(len(x))])


def rows_reversed(run, x):
    """Feed the sequences in the reverse order, and put the outputs back."""
    return run(x.flip(0))[0].flip(0)


def left_as_it_was(run, x, cut):
    """Feed the steps up to the cut and the rest; the inputs and the state that the second call was given."""
    given = x.clone()
    _, state = run(given[:, :cut])
    run(given[:, cut:], state)
    return given, state


def as_it_was(run, x, cut):
    """Feed the steps up to the cut alone."""
    return x, run(x[:, :cut])[1]


def joined_on_the_way(run, x, cut, axis):
    """Feed the first row up to the cut, then let the second begin beside it, by states joined along the batch axis."""
    _, running = run(x[:1, :cut])
    fresh = torch.utils._pytree.tree_map(torch.zeros_like, running)
    state = torch.utils._pytree.tree_map(lambda *rows: torch.cat(rows, axis), running, fresh)
    return run(torch.cat([x[:1, cut:], x[1:2, : x.shape[1] - cut]]), state)[0]


def apart_on_the_way(run, x, cut, axis):
    """Feed the same steps by separate calls."""
    first, second = in_chunks(run, x[:1], (cut,))[0][:, cut:], run(x[1:2, : x.shape[1] - cut])[0]
    return torch.cat([first, second])


def masked(run, x, mask):
    """Feed padded rows and their mask; the outputs of the real steps."""
    return run(x, mask=mask)[0][mask]


def unpadded(run, x, mask):
    """Feed the real steps of each row by a call of its own."""
    return torch.cat([run(row[real][None])[0][0] for row, real in zip(x, mask)])


def on_after_masked(run, x, mask, more):
    """Feed padded rows and their mask, and then more steps; the outputs of those."""
    return run(more, run(x, mask=mask)[1])[0]


def on_after_unpadded(run, x, mask, more):
    """Feed the real steps of each row by a call of its own, and then more steps by another."""
    states = [run(row[real][None])[1] for row, real in zip(x, mask)]
    return torch.cat([run(more[i : i + 1], state)[0] for i, state in enumerate(states)])


def packed(run, x, mask):
    """Feed a PackedSequence of the rows; the outputs of the real steps."""
    sequence = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(run(sequence)[0], batch_first=True, total_length=x.shape[1])[0][mask]


def on_after_packed(run, x, mask, more):
    """Feed a PackedSequence of the rows, and then more steps; the outputs of those."""
    sequence = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
    return run(more, run(sequence)[1])[0]


def reset(run, x, resets):
    """Feed rows that hold several sequences, and flags where one begins."""
    return run(x, resets=resets)[0]


def cut_apart(run, x, resets):
    """Feed each of these sequences by a call of its own."""
    rows = [row.tensor_split(begins.nonzero()[:, 0]) for row, begins in zip(x, resets)]
    return torch.cat([torch.cat([run(piece[None])[0] for piece in row if len(piece)], 1) for row in rows])


def before_a_change(run, x, cut):
    """Feed sequences that are others from the cut on; the outputs before it."""
    return run(torch.cat([x[:, :cut], x.flip(1)[:, : x.shape[1] - cut].flip(0)], 1))[0][:, :cut]


def before_the_cut(run, x, cut):
    """Feed the sequences as they are; the outputs before the cut."""
    return run(x)[0][:, :cut]


def strided(run, x):
    """Feed inputs whose elements do not lie side by side in memory."""
    return run(x.repeat_interleave(2, 1)[:, ::2])


def deep_copied(call, layer, x):
    """Run a deep copy of the module."""
    return call(copy.deepcopy(layer), x)


def pickled(call, layer, x):
    """Run what pickle gives back of the module."""
    return call(pickle.loads(pickle.dumps(layer)), x)


def saved(call, layer, x):
    """Run a copy with other weights that has loaded the module's own from a file."""
    file, other = io.BytesIO(), copy.deepcopy(layer)
    torch.save(layer.state_dict(), file)
    file.seek(0)
    for parameter in other.parameters():
        parameter.data = torch.zeros_like(parameter)
    other.load_state_dict(torch.load(file, weights_only=True))
    return call(other, x)


def trained(call, layer, x):
    """Run the module in training mode."""
    return call(copy.deepcopy(layer).train(), x)


def itself(call, layer, x):
    """Run the module as it is."""
    return call(layer, x)


def shortfall(run, x, generate, **options):
    """Generate greedily; how far the logit of each chosen token is below the largest of a whole forward."""
    tokens = generate(x, **options)
    logits = run(tokens[:, :-1])[0][:, x.shape[1] - 1 :]
    return logits.max(-1).values - logits.gather(2, tokens[:, x.shape[1] :, None])[..., 0]


def shortfall_of_padded(run, x, generate, mask):
    """Generate greedily from prompts padded on the left; the shortfall of each row by itself."""
    new = generate(x, mask=mask)[:, x.shape[1] :]
    rows = [torch.cat([row[real], more])[None] for row, real, more in zip(x, mask, new)]
    return torch.cat([shortfall(run, r[:, : -new.shape[1]], lambda _, r=r: r) for r in rows])


def reordered(run, x, cut, order):
    """Feed the steps up to the cut, let the cache take the rows in another order, and feed the rest in that order."""
    _, (cache, *others) = run(x[:, :cut])
    cache.reorder_cache(order)
    return run(x[order, cut:], (cache, *(seen[order] for seen in others)))[0]


def ordered_from_the_start(run, x, cut, order):
    """Feed the rows in that order from the first step on."""
    return run(x[order, cut:], run(x[order, :cut])[1])[0]


def continued_twice(run, x, cut):
    """Feed the steps up to the cut; feed the rest to a copy of the state, and then to the state itself."""
    _, state = run(x[:, :cut])
    run(x.flip(1)[:, : x.shape[1] - cut], copy.deepcopy(state))
    return run(x[:, cut:], state)[0]


def continued(run, x, cut):
    """Feed the steps up to the cut and then the rest."""
    return run(x[:, cut:], run(x[:, :cut])[1])[0]
