"""A finished model and new data: predictions and scores, as its task has them."""

from pathlib import Path

from gatedrnn.data import Examples
from gatedrnn.data.frames import Frame, NewData, frame_of
from gatedrnn.errors import DataError
from gatedrnn.models.opening import Finished
from gatedrnn.tables.files import place_of, read_csv
from gatedrnn.tables.table import type_named
from gatedrnn.training.finished import data_of, open_finished, task_of
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.predict import PREDICTION, Predicted, Rows, outputs_of, prediction_columns, read_labelled_rows
from gatedrnn.training.result import PLAIN_PART
from gatedrnn.training.score import Scored, score_labels
from gatedrnn.training.task import Answering, Asked, task_named


class LabelAnswering(Answering):
    """A label, or a number, for each row."""

    answers = "labels"

    @property
    def finished(self) -> Finished:
        """The model, which is opened when it is first asked for."""
        self._finished = self._finished or open_finished(self.path)
        return self._finished

    def rows(self, new: NewData, asked: Asked, *, labelled: bool) -> Rows:
        """Read the rows that are predicted.

        Raises:
            DataError: they cannot be read, or do not fit the model.
        """
        if new.series is not None:
            raise DataError("this model was not trained on series of numbers; give what it reads")
        if new.text_column is not None and self.finished.tokenizer is None:
            raise DataError("this model reads numbers, and these are texts; give what it was trained on")
        column = asked.text_column or new.text_column
        return read_labelled_rows(self.finished, new.source, column, asked.label_column, labelled=labelled)

    def predict(self, new: NewData, asked: Asked, baseline: str | None = None) -> Predicted:
        if baseline == PLAIN_PART:
            self.use_plain_part()
        elif baseline is not None:
            raise DataError(f"{self.path}: --baseline {baseline!r} is for forecasts; of other tasks take plain-part")
        return self.predicted(self.rows(new, asked, labelled=False))

    def use_plain_part(self) -> None:
        """Take the linear path of the model alone, without the network, from now on."""
        if getattr(self.finished.model, "linear_path", None) is None:
            raise DataError("this model has no linear path beside its network; leave --baseline out")
        self.finished.model.config.path_share = 1.0

    def predicted(self, rows: Rows) -> Predicted:
        """Return rows with the model's answers."""
        added = prediction_columns(self.finished, outputs_of(self.finished, rows.inputs, rows.gaps))
        types = {name: kind for name, kind in rows.data.types.items() if name not in rows.data.class_names}
        if (kind := self.finished.model.config.label_type) is not None:
            types[PREDICTION] = type_named(kind)
        return Predicted(rows.data, added, rows.notes, types)

    def read(self, file: Path, backend: str) -> Frame:
        return frame_of(read_csv(file), {}, backend)

    def score(self, split: str, new: NewData | None, asked: Asked) -> Scored:
        if new is not None:
            rows = self.rows(new, asked, labelled=True)
            if rows.labels is None:
                raise DataError(
                    f"{place_of(new.source)}: there are no labels to hold predictions against; give (series, labels)"
                )
            scored = score_labels(self.finished, new.source.name, rows.inputs, rows.labels, rows.gaps)
            return scored.model_copy(update={"run": self.path.name, "notes": rows.notes})
        data = data_of(RunFolder(self.path))
        splits = {
            name: part for name, part in {**data.evaluation, "train": data.train}.items()
            if isinstance(part, Examples)
        }  # fmt: skip
        if split not in splits:
            raise DataError(f"{self.path}: has no split {split!r}; there are {', '.join(splits)}")
        part = splits[split]
        scored = score_labels(self.finished, split, part.inputs, part.own_labels(), part.gaps)
        return scored.model_copy(update={"run": self.path.name})


def answering(path: Path, finished: Finished | None = None) -> Answering:
    """Return what a folder's model answers with; raises as `finished.task_of`."""
    return task_named(task_of(path) if finished is None else finished.task).answering()(path, finished)
