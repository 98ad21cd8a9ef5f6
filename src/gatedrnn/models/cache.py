"""The state of a model's recurrent layers between two calls, as transformers' `generate` carries it."""

from copy import copy
from typing import Any, NoReturn

import torch
from torch import Tensor
from transformers.cache_utils import Cache, LinearAttentionCacheLayerMixin

from gatedrnn.models.configuration import GatedRNNConfig
from gatedrnn.shapes import States

SEEN = "seen tokens"


class RecurrentState(LinearAttentionCacheLayerMixin):
    """The state of one layer: tensors (batch, size), as many as its cell has."""

    is_compileable = False
    is_croppable = False
    recurrent_states: dict[int, Tensor | None]

    def lazy_initialization(
        self, conv_states: Tensor | None = None, recurrent_states: Tensor | None = None, state_idx: int = 0
    ) -> None:
        assert recurrent_states is not None
        self.device, self.dtype = recurrent_states.device, recurrent_states.dtype
        self.is_recurrent_states_initialized[state_idx] = True

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Replace the state; the old tensor is not written to, so that gradients through it remain valid."""
        self.lazy_initialization(recurrent_states=recurrent_states, state_idx=state_idx)
        self.recurrent_states[state_idx] = recurrent_states
        self.has_previous_state[state_idx] = True
        return recurrent_states

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: Any) -> NoReturn:
        raise NotImplementedError("a gated recurrent layer has no convolution")

    def reset(self) -> None:
        """Back to the layer's initial state."""
        self.__init__(number_of_states=self.number_of_states)  # type: ignore[misc]

    def crop(self, tokens_to_remove: int) -> NoReturn:
        raise ValueError("a recurrent state cannot be cropped; start anew, or copy it beforehand (copy.deepcopy)")

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every row `repeats` times, for beams and several answers to one prompt."""
        self.recurrent_states = {
            i: None if s is None else s.repeat_interleave(repeats, 0) for i, s in self.recurrent_states.items()
        }

    def batch_select_indices(self, indices: Tensor) -> None:
        """The named rows alone."""
        self.recurrent_states = {i: None if s is None else s[indices] for i, s in self.recurrent_states.items()}


class GatedRNNCache(Cache):
    """The state of all layers, and how many tokens went into it. Its size does not depend on that number.

    Pass the one that a call returned to the next call, as `past_key_values`: a stream, a conversation, or the next
    chunk of a text in training (see `detached`).

    Args:
        networks: how many networks of this configuration it has the layers of, those of the first one first.
    """

    def __init__(self, config: GatedRNNConfig, networks: int = 1) -> None:
        # A backbone carries the steps that it has read.
        states = [len(cell.state_names) for cell in config.cells] or [1]
        super().__init__(layers=[RecurrentState(number_of_states=number) for number in states * networks])
        self.seen_tokens, self.networks = 0, networks

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.seen_tokens

    def read(self, first: int, count: int) -> States | tuple[Tensor, ...] | None:
        """The states of `count` layers, stacked as a layer takes them; None before the first token."""
        layers = self.layers[first : first + count]
        if not layers[0].has_previous_state[0]:
            return None
        kinds = layers[0].number_of_states
        if count == 1:
            alone = tuple(layers[0].recurrent_states[kind].unsqueeze(0) for kind in range(kinds))
            return alone if kinds > 1 else alone[0]
        stacked = tuple(torch.stack([layer.recurrent_states[kind] for layer in layers]) for kind in range(kinds))
        return stacked if kinds > 1 else stacked[0]

    def write(self, first: int, states: States | tuple[Tensor, ...]) -> None:
        """Store the states that a stacked layer returned, from layer `first` on."""
        for kind, stacked in enumerate(states if isinstance(states, tuple) else (states,)):
            for index, state in enumerate(stacked):
                self.layers[first + index].update_recurrent_state(state, state_idx=kind)

    def of_networks(self) -> "list[GatedRNNCache]":
        """The state of each network; what a network writes there is written here too, but for `seen_tokens`."""
        count, caches = len(self.layers) // self.networks, [copy(self) for _ in range(self.networks)]
        for number, cache in enumerate(caches):
            cache.layers, cache.networks = self.layers[number * count : (number + 1) * count], 1
        return caches

    def detached(self) -> "GatedRNNCache":
        """Detach this state from its graph, in place, for truncated backpropagation through time."""
        for layer in self.layers:
            layer.recurrent_states = {i: None if s is None else s.detach() for i, s in layer.recurrent_states.items()}
        return self

    def tensors(self) -> dict[str, Tensor]:
        """All states by name, for safetensors; see `of_tensors`."""
        return {
            # safetensors refuses tensors that are not contiguous.
            f"layer {index} state {kind}": state.contiguous()
            for index, layer in enumerate(self.layers)
            for kind, state in layer.recurrent_states.items()
            if state is not None
        } | {SEEN: torch.tensor(self.seen_tokens)}

    @classmethod
    def of_tensors(cls, config: GatedRNNConfig, tensors: dict[str, Tensor]) -> "GatedRNNCache":
        """The state that `tensors` returned."""
        last = max((int(name.split()[1]) for name in tensors if name != SEEN), default=0)
        cache = cls(config, networks=1 + last // (len(config.cells) or 1))
        for name, tensor in tensors.items():
            if name == SEEN:
                cache.seen_tokens = int(tensor)
            else:
                _, index, _, kind = name.split()
                # A file's memory may begin anywhere, and a library sums in another order where rows are not aligned.
                cache.layers[int(index)].update_recurrent_state(tensor.clone(), state_idx=int(kind))
        return cache

    def reset(self) -> None:
        super().reset()
        self.seen_tokens = 0
