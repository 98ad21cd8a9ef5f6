"""Tags of new texts by a finished model, one for each word."""

from typing import cast

import numpy as np

from gatedrnn.data.files import with_names
from gatedrnn.data.frames import NewData
from gatedrnn.data.labels import as_trained, check_as_many, tags_in_column, words_in_column
from gatedrnn.errors import DataError
from gatedrnn.records import Json
from gatedrnn.tables.files import place_of, read_table, said_columns
from gatedrnn.tables.options import recorded_dialect
from gatedrnn.tasks.tagging.read import encode_words, step_labels
from gatedrnn.training.answering import LabelAnswering
from gatedrnn.training.predict import (
    IGNORED,
    Predicted,
    Rows,
    check_known,
    class_names,
    column_to_read,
    label_columns,
    recorded_column,
)
from gatedrnn.training.task import Asked


class TagAnswering(LabelAnswering):
    """Rows are lists of words, and each prediction is a list with an entry a word."""

    def rows(self, new: NewData, asked: Asked, *, labelled: bool) -> Rows:
        finished, place, notes = self.finished, place_of(new.source), list[str]()
        tokenizer, config = finished.tokenizer, finished.model.config
        assert tokenizer is not None
        if new.series is not None:
            raise DataError("this model was not trained on series of numbers; give what it reads")
        column = asked.text_column or new.text_column
        data = read_table(new.source, recorded_dialect(tokenizer.init_kwargs))
        if not len(data):
            raise DataError(f"{place}: there are columns but no rows")
        recorded = recorded_column(tokenizer, "text_column", "text")
        data = data if column is not None else with_names(data, place, recorded)
        column = column_to_read(data, place, "text", column, [recorded])
        words = words_in_column(data, place, column)
        inputs, firsts = encode_words(tokenizer, words, tokenizer.model_max_length, data.name, notes)
        begins = [
            np.pad(first, (0, len(row) - len(first)), constant_values=-1)
            for first, row in zip(firsts, words, strict=True)
        ]
        labels, roles = None, {"words": column}
        if labelled:
            (roles["tags"],) = label_columns(finished, data, place, asked.label_column)
            tags = tags_in_column(data, place, roles["tags"])
            check_as_many(words, tags, place, column, roles["tags"])
            names = class_names(config)
            tags = [tuple(as_trained(row_tags, names)) for row_tags in tags]
            for row, row_tags in enumerate(tags, start=1):
                check_known([tag for tag in row_tags if tag != str(IGNORED)], names, f"{place}: row {row}")
            every = step_labels(tags, names, inputs, firsts)
            labels = [label[: len(tokens)] for label, tokens in zip(every, inputs, strict=True)]
        said = said_columns(data.name, roles, data.column_names)
        return Rows(data, inputs, labels, [said, *notes], words=begins)

    def predicted(self, rows: Rows) -> Predicted:
        whole = super().predicted(rows)
        assert rows.words is not None
        return whole._replace(added=word_columns(whole.added, rows.words))


def word_columns(added: dict[str, list[Json]], words: list[np.ndarray]) -> dict[str, list[Json]]:
    """Columns of lists with an entry a step as such with an entry a word: that of its first step; nothing of words that
    were cut off.

    Args:
        words: of each row the step at which each word begins, -1 of those that were cut off.
    """
    return {
        name: [
            [None if step < 0 else row[step] for step in steps.tolist()]
            for row, steps in zip(cast(list[list[Json]], column), words, strict=True)
        ]
        for name, column in added.items()
    }
