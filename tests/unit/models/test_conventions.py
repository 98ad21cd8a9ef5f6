"""Models are called as transformers calls any model: what it passes is served, or refused; nothing is passed over."""

import pytest
import torch
from small_models import EVERY_POOLING, config_of, tokens
from tolerances import assert_equal_within
from transformers import DataCollatorWithFlattening, Trainer, TrainingArguments
from transformers.utils import find_labels

from gatedrnn.models import (
    GatedRNNForCausalLM,
    GatedRNNForSequenceClassification,
    GatedRNNForTokenClassification,
    GatedRNNModel,
)

DOCUMENTS = [[5, 6, 7, 8], [9, 10, 3], [4]]
MIXED = "lstm,mingru"


def model_of(kind=GatedRNNForCausalLM, **fields):
    return kind(config_of(cell=MIXED, **fields)).double().eval()


@pytest.fixture
def flat():
    """Three documents in one row."""
    return DataCollatorWithFlattening(return_tensors="pt", return_seq_idx=True)([{"input_ids": d} for d in DOCUMENTS])


@pytest.mark.parametrize("named", [["position_ids"], ["seq_idx"], ["position_ids", "seq_idx"]])
def test_documents_in_one_row_are_read_as_each_alone(flat, named):
    model = model_of()
    found = model(flat["input_ids"], **{name: flat[name] for name in named}).logits[0]
    alone = torch.cat([model(torch.tensor([document])).logits[0] for document in DOCUMENTS])
    assert_equal_within(found, alone, torch.float64, "logits")
    padded, mask = torch.nn.functional.pad(flat["input_ids"], (0, 2)), torch.ones(1, 10)
    mask[:, 8:] = 0
    positions = torch.nn.functional.pad(flat["position_ids"], (0, 2))
    core = model.model
    state = core(padded, mask, position_ids=positions, use_cache=True).past_key_values
    expected = core(flat["input_ids"], position_ids=flat["position_ids"], use_cache=True).past_key_values
    for number in range(2):
        assert_equal_within(state.read(number, 1)[0], expected.read(number, 1)[0], torch.float64, "state")


@pytest.mark.parametrize("kind", [
    GatedRNNModel, GatedRNNForCausalLM, GatedRNNForSequenceClassification, GatedRNNForTokenClassification,
])  # fmt: skip
def test_embeddings_are_inputs_and_outputs_and_what_is_misspelt_is_refused(kind):
    model, text = model_of(kind), torch.tensor([[5, 6, 7]])
    found = model(text, output_hidden_states=True, output_attentions=False, return_dict=True)
    model.config.output_hidden_states = True
    assert len(model(text).hidden_states) == len(found.hidden_states)
    model.config.output_hidden_states = False
    embedded, *parts = found.hidden_states
    assert torch.equal(embedded, model.get_input_embeddings()(text)) and len(parts) == 2
    again = model(inputs_embeds=embedded)
    name = "last_hidden_state" if kind is GatedRNNModel else "logits"
    assert torch.equal(getattr(again, name), getattr(found, name)) and again.hidden_states is None
    for wrong in ({"attention_masks": None}, {"cu_seq_lens_q": torch.tensor([0, 3])}):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{next(iter(wrong))}'"):
            model(text, **wrong)
    with pytest.raises(ValueError, match="has its gates"):
        model(text, output_attentions=True)


def test_a_trainer_evaluates_a_language_model_and_loads_its_best(tmp_path):
    model = GatedRNNForCausalLM(config_of(cell=MIXED))
    assert find_labels(GatedRNNForCausalLM) == ["labels"]
    rows = [{"input_ids": (ids := torch.randint(2, 11, (6,))), "labels": ids.clone()} for _ in range(8)]
    arguments = TrainingArguments(
        str(tmp_path), report_to=[], use_cpu=True, disable_tqdm=True, max_steps=2, eval_strategy="steps", eval_steps=1,
        save_steps=1, load_best_model_at_end=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows, eval_dataset=rows)
    trainer.train()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(trainer.state.best_metric, rel=1e-5)


def test_a_trainer_smooths_the_labels_of_the_steps_that_predict_them(tmp_path):
    model, text = model_of(), tokens(4, 6)
    labels = text.masked_fill(torch.arange(6) == 3, -100)
    trainer = Trainer(model, TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, label_smoothing_factor=0.1))
    found = trainer.compute_loss(model, {"input_ids": text, "labels": labels.clone()})
    logits, after = model(text).logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    expected = torch.nn.functional.cross_entropy(logits, after, label_smoothing=0.1)
    assert_equal_within(found, expected, torch.float32, "smoothed loss")  # the Trainer sums in float32


@pytest.mark.slow
def test_a_loss_is_compiled_in_one_graph_and_is_the_same():
    torch.compiler.reset()
    model, text = model_of().train(), torch.tensor([[5, 6, 7, 8]])
    compiled = torch.compile(lambda x: model(x, labels=x).loss, backend="eager", fullgraph=True)
    assert_equal_within(compiled(text), model(text, labels=text).loss, torch.float64, "loss")


@pytest.mark.parametrize("kind, chosen", [
    (GatedRNNForCausalLM, {"use_cache": False}), (GatedRNNForTokenClassification, {}),
    *((GatedRNNForSequenceClassification, {"pooling": pooling}) for pooling in EVERY_POOLING),
])  # fmt: skip
def test_an_exported_model_reads_padded_texts_of_any_number_and_length(kind, chosen):
    model = model_of(kind, **chosen)
    (text, mask), (other, padding) = ((tokens(*shape), torch.rand(shape) < 0.7) for shape in ((3, 7), (5, 9)))
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("time")}
    exported = torch.export.export(model, (text, mask), dynamic_shapes={"input_ids": free, "attention_mask": free})
    found, expected = (one(other, padding).logits for one in (exported.module(), model))
    assert_equal_within(found, expected, torch.float64, "logits")
