"""A script written for `torch.nn` gives the same numbers when its import line, and no other, names this library."""

import pytest
import torch
from tolerances import assert_equal_within

SCRIPT = """
from {library} import LSTM, GRU

import io
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.manual_seed(7)
numbers = {}


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 5)
        self.encoder = LSTM(5, 6, num_layers=2, batch_first=True, dropout=0.3, bidirectional=True, proj_size=3)
        self.reader = GRU(6, 4, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens, lengths, hx=None):
        rows = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        rows, (h, c) = self.encoder(rows, hx)
        rows, last = self.reader(rows)
        output, _ = pad_packed_sequence(rows, batch_first=True)
        return self.head(output), (h, c), last


model = Tagger()
assert isinstance(model.encoder.weight_hr_l1_reverse, nn.Parameter)
for layer in (model.encoder, model.reader):
    layer.flatten_parameters()
    for weights in layer.all_weights:
        for weight in weights:
            if weight.dim() == 2:
                nn.init.orthogonal_(weight)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
tokens, lengths = torch.randint(11, (4, 7)), torch.tensor([3, 7, 1, 5])
labels = torch.randint(3, (4, 7))
hx = torch.randn(4, 4, 3), torch.randn(4, 4, 6)

for step in range(5):
    optimizer.zero_grad()
    logits, (h, c), last = model(tokens, lengths, hx)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    numbers |= {f"loss {step}": loss, f"logits {step}": logits, f"h {step}": h, f"c {step}": c, f"last {step}": last}
    numbers |= {f"gradient of {k} {step}": p.grad.clone() for k, p in model.named_parameters()}
    optimizer.step()
    hx = h.detach(), c.detach()

file = io.BytesIO()
torch.save(model.state_dict(), file)
file.seek(0)
twin = Tagger()
twin.load_state_dict(torch.load(file, weights_only=True))
model.eval(), twin.eval()
numbers |= {f"saved {k}": v for k, v in model.state_dict().items()}
numbers["evaluated"], numbers["loaded"] = model(tokens, lengths, hx)[0], twin(tokens, lengths, hx)[0]

one = GRU(input_size=5, hidden_size=4, bias=False, dtype=torch.float64)
x = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
output, state = one(x)
(output.sum() + state.sum()).backward()
numbers |= {"unbatched": output, "unbatched state": state, "unbatched gradient": x.grad}
kinds = {k: (v.dtype, v.shape, v.requires_grad) for k, v in numbers.items()}
"""


# torch's own remark on proj_size in float32, once per process.
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_a_script_for_torch_needs_only_another_import():
    results = {}
    for library in ("torch.nn", "gatedrnn"):
        exec(compile(SCRIPT.replace("{library}", library), library, "exec"), scope := {})
        assert {scope[name].__module__.split(".")[0] for name in ("LSTM", "GRU")} == {library.split(".")[0]}
        results[library] = scope
    theirs, ours = results["torch.nn"], results["gatedrnn"]
    assert ours["kinds"] == theirs["kinds"]
    for what, value in theirs["numbers"].items():
        assert_equal_within(ours["numbers"][what], value, torch.float32, what, gradient=True)
    losses = [theirs["numbers"][f"loss {step}"].item() for step in range(5)]
    assert len(set(losses)) == 5 and losses[-1] < losses[0]
    assert torch.equal(ours["numbers"]["loaded"], ours["numbers"]["evaluated"])
