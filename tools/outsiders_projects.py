"""The part of `outsiders.py` that runs in its environment: one project, with the layers of torch or with ours.

The numbers with torch's layers are left in the current folder for the run with ours, which compares.
"""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from gatedrnn import GRU, LSTM
from gatedrnn.verify.tolerances import allowed_error, largest_error

LAYERS = {"LSTM": LSTM, "GRU": GRU}
KEPT = Path("numbers.pickle")

Numbers = dict[str, Tensor]


def sb3_contrib(sources: Path) -> Numbers:
    """Run sb3-contrib's own tests of recurrent policies, then a short training: what the policy became and what it
    does.
    """
    import pytest
    from sb3_contrib import RecurrentPPO

    [tests] = sources.glob("sb3_contrib-*/tests/test_lstm.py")
    if ended := pytest.main(["-q", "-m", "not slow", "-p", "no:cacheprovider", str(tests)]):
        raise AssertionError(f"its tests of recurrent policies ended with {ended!r}")
    model = RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=64, seed=0, n_epochs=2).learn(256)
    state, actions = None, []
    for observation in np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32):
        action, state = model.predict(observation, state, deterministic=True)
        actions.append(int(action))
    return {**model.policy.state_dict(), "actions": torch.tensor(actions), "state": torch.tensor(np.array(state))}


def neuralforecast(sources: Path) -> Numbers:
    """Run neuralforecast's own checks of every model with an LSTM or a GRU inside, then forecasts of the airline's
    passengers.
    """
    from neuralforecast import NeuralForecast, models
    from neuralforecast.common._model_checks import check_model
    from neuralforecast.utils import AirPassengersDF

    for model in (models.LSTM, models.GRU, models.DeepAR, models.DilatedRNN, models.TFT):
        check_model(model, ["airpassengers"])
    settings = {"h": 12, "input_size": 24, "max_steps": 10, "random_seed": 1, "accelerator": "cpu"}
    several = [
        models.LSTM(**settings, alias="LSTM"),
        models.LSTM(**settings, recurrent=True, alias="LSTM, recurrent"),
        models.GRU(**settings, alias="GRU"),
        models.GRU(**settings, encoder_dropout=0.2, alias="GRU, dropout"),
        models.TFT(**settings, rnn_type="lstm", alias="TFT with LSTM"),
        models.TFT(**settings, rnn_type="gru", alias="TFT with GRU"),
    ]
    forecast = NeuralForecast(models=several, freq="ME")
    forecast.fit(df=AirPassengersDF)
    predicted = forecast.predict()
    return {model.alias: torch.tensor(predicted[model.alias].to_numpy()) for model in several}


def darts(sources: Path) -> Numbers:
    """Forecasts by its recurrent models, and by the transformer that has an LSTM inside."""
    from darts import TimeSeries
    from darts.models import BlockRNNModel, RNNModel, TFTModel

    series = TimeSeries.from_values(np.sin(np.arange(120) / 5).astype(np.float32))
    settings = {"input_chunk_length": 24, "n_epochs": 3, "random_state": 0}
    models = {"TFTModel": TFTModel(**settings, output_chunk_length=12, add_relative_index=True)}
    for layer in LAYERS:
        models[f"RNNModel, {layer}"] = RNNModel(model=layer, **settings, training_length=36)
        several = BlockRNNModel(model=layer, **settings, output_chunk_length=12, n_rnn_layers=2, dropout=0.1)
        models[f"BlockRNNModel, {layer}"] = several
    return {name: torch.tensor(model.fit(series).predict(12).values()) for name, model in models.items()}


class Classifier(nn.Module):
    """A classifier of sequences as users write it."""

    def __init__(self, layer: str) -> None:
        super().__init__()
        self.rnn = getattr(nn, layer)(3, 16, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
        self.head = nn.Linear(32, 2)

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.rnn(x)
        return self.head(output.mean(1))


def sequences() -> tuple[Tensor, Tensor]:
    x = torch.randn(96, 20, 3, generator=torch.Generator().manual_seed(0))
    return x, (x[:, :, 0].sum(1) > 0).long()


def skorch(sources: Path) -> Numbers:
    """A classifier in scikit-learn's way: fitted, pickled, cloned and cross-validated."""
    from sklearn.base import clone
    from sklearn.model_selection import cross_val_predict
    from skorch import NeuralNetClassifier

    x, y = (part.numpy() for part in sequences())
    numbers = {}
    for layer in LAYERS:
        net = NeuralNetClassifier(Classifier, module__layer=layer, criterion=nn.CrossEntropyLoss, lr=0.1, max_epochs=5)
        again = pickle.loads(pickle.dumps(net.fit(x, y)))
        if not np.array_equal(again.predict_proba(x), net.predict_proba(x)):
            raise AssertionError(f"{layer}: a pickled net predicts other numbers")
        numbers[layer] = torch.tensor(net.predict_proba(x))
        validated = cross_val_predict(clone(net), x, y, cv=3, method="predict_proba")
        numbers[f"{layer}, cross-validated"] = torch.tensor(validated)
    return numbers


def lightning(sources: Path) -> Numbers:
    """A module trained with clipped gradients, its checkpoint read again, its parameters counted."""
    import pytorch_lightning
    from pytorch_lightning.utilities.model_summary import ModelSummary
    from torch.utils.data import DataLoader, TensorDataset

    class Module(pytorch_lightning.LightningModule):
        def __init__(self, layer: str) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.example_input_array = torch.zeros(1, 20, 3)
            self.net = Classifier(layer)

        def forward(self, x: Tensor) -> Tensor:
            return self.net(x)

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

        def predict_step(self, batch: list[Tensor], index: int) -> Tensor:
            return self(batch[0])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 0.01)

    batches = DataLoader(TensorDataset(*sequences()), 16)
    numbers = {}
    for layer in LAYERS:
        pytorch_lightning.seed_everything(0)
        model, trainer = Module(layer), pytorch_lightning.Trainer(max_epochs=3, gradient_clip_val=0.5, logger=False)
        trainer.fit(model, batches)
        trainer.save_checkpoint("checkpoint")
        again = Module.load_from_checkpoint("checkpoint")
        numbers[layer] = torch.cat(trainer.predict(again, batches))
        if not torch.equal(numbers[layer], torch.cat(trainer.predict(model, batches))):
            raise AssertionError(f"{layer}: a checkpoint predicts other numbers")
        numbers[f"{layer}, parameters"] = torch.tensor(ModelSummary(model).total_parameters)
    return numbers


RUNS: dict[str, Callable[[Path], Numbers]] = {
    "sb3-contrib": sb3_contrib, "neuralforecast": neuralforecast, "darts": darts, "skorch": skorch,
    "lightning": lightning,
}  # fmt: skip


def substitute() -> None:
    """`torch.nn.LSTM` and `torch.nn.GRU` are ours from here on; who still reaches torch's own is refused."""

    def refuse(self: nn.Module, *_: Any, **__: Any) -> NoReturn:
        raise AssertionError(f"torch's own {type(self).__name__} was made in the place of ours")

    for name, layer in LAYERS.items():
        getattr(nn, name).__init__ = refuse
        for module in (nn, nn.modules, nn.modules.rnn):
            setattr(module, name, layer)


def compared(actual: Numbers, expected: Numbers) -> str:
    """A sentence on how far the numbers moved. Raises AssertionError where that is further than gradients in float32
    may differ.
    """
    errors = {name: largest_error(actual[name], number) for name, number in expected.items()}
    # A trained weight is a sum of gradients, so theirs is the tolerance.
    allowed = {name: allowed_error(number, torch.float32, gradient=True) for name, number in expected.items()}
    worst = max(errors, key=lambda name: errors[name] / allowed[name])
    if not errors[worst]:
        return f"{len(errors)} results, all equal"
    largest = float(expected[worst].abs().max())
    line = f"{len(errors)} results, largest difference {errors[worst]:.1e} in {worst} (numbers up to {largest:.3g})"
    if errors[worst] > allowed[worst]:
        raise AssertionError(f"{line}; allowed {allowed[worst]:.1e}")
    return line


def main(name: str, layers: str, sources: Path) -> None:
    if layers == "gatedrnn":
        substitute()
    torch.manual_seed(0)
    numbers = RUNS[name](sources)
    if layers == "gatedrnn":
        print(compared(numbers, pickle.loads(KEPT.read_bytes())))
    else:
        KEPT.write_bytes(pickle.dumps(numbers))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
