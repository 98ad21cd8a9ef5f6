"""The laws, asked of the recurrent language models of the installed transformers, small and random."""

import subprocess
import sys

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, MambaConfig

from gatedrnn.laws.language_models import _FAMILIES, TESTED, families
from gatedrnn.models import GatedRNNConfig, GatedRNNForCausalLM
from gatedrnn.verify import check

BROKEN = {"jamba": "in two chunks", "mamba": "step by step", "rwkv": "padded on the left"}
"""Families whose faults are asked for by name: a later version of transformers may mend them."""


@pytest.fixture(scope="module")
def reports():
    return {kind: check(f"transformers:{kind}") for kind in families()}


@pytest.mark.slow
def test_every_declared_family_that_is_installed_is_made_and_asked(reports):
    assert len(reports) >= 20 and {"mamba2", "qwen3_next", "xlstm"} <= reports.keys()
    assert transformers.__version__ != TESTED or reports.keys() == _FAMILIES.keys()


@pytest.mark.slow
def test_faults_are_found_and_sound_families_are_not_accused(reports):
    broken = {kind for kind, report in reports.items() if report.failures}
    assert len(broken) >= 6 and len(reports.keys() - broken) >= 9
    sound = {"mamba2", "falcon_h1", "granitemoehybrid", "lfm2", "qwen3_next", "olmo_hybrid", "kimi_linear", "zaya"}
    assert not sound & broken
    for kind in reports.keys() - broken:
        assert sum(one.verdict == "holds" for one in reports[kind].outcomes) >= 17


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_the_script_of_a_fault_shows_it_without_this_package(kind, reports):
    (outcome,) = [one for one in reports[kind].failures if one.law == BROKEN[kind]]
    assert len(outcome.script.splitlines()) <= 20
    code = f"import sys; sys.modules['gatedrnn'] = None\n{outcome.script}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout.split()[-1]) == pytest.approx(outcome.error, rel=1e-3)


def test_a_use_that_transformers_does_not_support_is_a_note_with_the_version_of_which_it_is_declared():
    report = check("transformers:lfm2", only=("on after padding on the right", "on after padding on the left"))
    right, left = report.outcomes
    assert right.verdict == "noted" and not report.failures and left.verdict == "holds"
    assert "padding on the right" in right.reason and f"(transformers {TESTED})" in right.reason


class Unmasked(GatedRNNForCausalLM):
    """It takes a mask and does not read it."""

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, **kwargs):
        return super().forward(input_ids, past_key_values=past_key_values, **kwargs)


class Mixed(GatedRNNForCausalLM):
    """The logits of a batch are mixed."""

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, **kwargs):
        result = super().forward(input_ids, attention_mask, past_key_values=past_key_values, **kwargs)
        result.logits = result.logits - 0.1 * result.logits.mean(0)
        return result


class Disordered(GatedRNNForCausalLM):
    """Its cache takes the rows in another order in its first layer alone."""

    def forward(self, input_ids=None, attention_mask=None, past_key_values=None, **kwargs):
        result = super().forward(input_ids, attention_mask, past_key_values=past_key_values, **kwargs)
        cache = result.past_key_values
        if cache is not None:
            cache.reorder_cache = lambda order: cache.layers[0].reorder_cache(order)
        return result


class Penalised(GatedRNNForCausalLM):
    """Its generation never writes a token twice."""

    def generate(self, *args, **kwargs):
        return super().generate(*args, no_repeat_ngram_size=1, **kwargs)


FAULTS = {
    GatedRNNForCausalLM: None, Unmasked: "padded on the left", Mixed: "a row alone", Disordered: "a cache reordered",
    Penalised: "generate",
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_a_planted_fault_of_a_language_model_is_found_by_its_law(kind):
    torch.manual_seed(0)
    model = kind(
        GatedRNNConfig(vocab_size=16, hidden_size=8, num_hidden_layers=2, cell="mingru", initializer_range=0.5)
    )
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    law = FAULTS[kind]
    report = check(model) if law is None else check(model, only=(law,))
    assert [one.law for one in report.failures] == [] if law is None else [law]
    assert report.entry == f"{kind.__name__}(past_key_values=…)"


def test_a_model_of_ones_own_configuration_is_asked_as_it_is():
    config = MambaConfig(vocab_size=16, hidden_size=8, state_size=4, num_hidden_layers=1, time_step_rank=2)
    report = check(AutoModelForCausalLM.from_config(config), only=("step by step", "in two chunks"))
    assert [one.verdict for one in report.outcomes] == ["fails", "fails"]
    assert report.outcomes[0].script == ""  # nobody but its maker knows how it was made
