"""transformers' pipeline and Trainer run the models as they run their own."""

import pytest
import torch
from small_models import model_of, tokens
from tolerances import assert_equal_within
from transformers import AutoTokenizer, Trainer, TrainingArguments, pipeline

from gatedrnn.data.tokenizers import learn_tokenizer
from gatedrnn.models import GatedRNNForSequenceClassification

TEXTS = [
    "Good!",
    "이 영화는 정말 재미있다 👍 , really , really good .",
    "bad bad bad",
    "never seen such words",
    "so-so",
]


@pytest.mark.parametrize("kind, pooling", [("words", "last"), ("whitespace", "mean"), ("bpe", "max")])
def test_a_batch_of_unequal_texts_scores_as_each_text_alone(kind, pooling, tmp_path):
    tokenizer = learn_tokenizer(kind, TEXTS, min_count=1, vocabulary_size=400)
    model = model_of(GatedRNNForSequenceClassification, dtype=torch.float32, vocab_size=len(tokenizer), pooling=pooling)
    tokenizer.save_pretrained(tmp_path)
    for chosen in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        classify = pipeline("text-classification", model=model, tokenizer=chosen, device="cpu")
        together = classify(TEXTS, batch_size=len(TEXTS), top_k=None)
        for text, scores in zip(TEXTS, together, strict=True):
            (alone,) = classify([text], top_k=None)
            assert [row["label"] for row in scores] == [row["label"] for row in alone]
            numbers = ([row["score"] for row in rows] for rows in (scores, alone))
            assert_equal_within(*numbers, torch.float32, text)


def test_the_trainer_takes_the_steps_of_plain_gradient_descent(tmp_path):
    rows, accumulation, steps, rate = 8, 2, 3, 0.5
    inputs, labels = tokens(rows, 5), torch.arange(rows) % 4
    model = model_of(GatedRNNForSequenceClassification, dtype=torch.float32)
    start = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    trainer = Trainer(
        model,
        TrainingArguments(
            tmp_path, max_steps=steps, per_device_train_batch_size=rows // accumulation,
            gradient_accumulation_steps=accumulation, max_grad_norm=0.0, logging_steps=1, report_to="none",
            use_cpu=True, disable_tqdm=True, save_strategy="no",
        ),
        train_dataset=[{"input_ids": x, "labels": y} for x, y in zip(inputs, labels, strict=True)],
        optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)),
    )  # fmt: skip
    trainer.train()

    expected = model_of(GatedRNNForSequenceClassification, dtype=torch.float32)
    expected.load_state_dict(start)
    optimizer, losses = torch.optim.SGD(expected.parameters(), lr=rate), []
    for _ in range(steps):
        loss = expected(inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for name, value in expected.state_dict().items():
        assert_equal_within(model.state_dict()[name], value, torch.float32, name, gradient=True)
    logged = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert_equal_within(logged, losses, torch.float32, "logged losses", gradient=True)
