"""Tables of answers for tests."""

import numpy as np
import pyarrow as pa

from image_pipeline.components.dataset import record
from image_pipeline.components.evaluation.answers import AnswerTable, join_tables


def make_table(task, truths, answers, earlier=None, slices=(), **columns):
    """Answers for records named 0.png, 1.png …; and `earlier`, another model's."""
    table = AnswerTable(task, slices)
    rows = [
        table.make_row(
            {
                record.SOURCE_ID: np.array([f"{number:032d}".encode()]),
                record.FILENAME: np.array([f"{number}.png".encode()]),
                **{name: values[number] for name, values in columns.items()},
            },
            true,
            np.array(answer),
            None if earlier is None else (true, np.array(earlier[number])),
        )
        for number, (true, answer) in enumerate(zip(truths, answers, strict=True))
    ]
    return join_tables([pa.Table.from_pylist(rows[::-1], table.schema)])
