import pytest

from image_pipeline.components.training.history import History, InputWait
from image_pipeline.report.charts import draw_curves
from image_pipeline.report.training import SplitAnomalies, read_anomalies
from tests.pipeline.report.conftest import HISTORY

pytestmark = pytest.mark.beam


def test_training_and_its_best_epochs(run):
    training = run.read_history()
    assert (training.epochs, training.steps, training.seconds) == (3, 12, 4.0)
    loss, accuracy = training.curves
    assert (loss.name, loss.train, loss.eval) == (*("loss", HISTORY["loss"], HISTORY["val_loss"]),)
    assert (loss.best_epoch, accuracy.best_epoch) == (2, 2)
    assert (training.started_from, training.best_epoch) == ("training.weights=mine.weights.h5", 1)
    alone = History(metrics={"loss": [1.0]}, steps_per_epoch=1, seconds_per_epoch=[1.0])
    assert alone.curves[0].best_epoch is None
    assert alone.input_wait is None
    assert alone.started_from is alone.best_epoch is None


def test_values_that_are_no_numbers_are_passed_over():
    history = History(
        metrics={"loss": [None, 2.0, 1.0], "val_loss": [None, 0.5, None], "auc": [None, None]},
        steps_per_epoch=1,
        seconds_per_epoch=[1.0, 1.0, 1.0],
    )
    loss, auc = history.curves
    assert (loss.best_epoch, auc.best_epoch) == (2, None)
    assert "0.5 to 2" in draw_curves("loss", loss.train, loss.eval)
    assert draw_curves("auc", auc.train, auc.eval) == "<p>No value of auc is a number.</p>"


def test_waiting_for_input_is_told_as_a_share_of_the_loop(run):
    wait = run.read_history().input_wait
    assert wait == InputWait(share=0.375 / 2.5, worst_share=0.25, worst_epoch=3)


def test_anomalies_are_tfdvs_words(run):
    assert read_anomalies(run.artifact("anomalies")) == [
        SplitAnomalies(
            "eval",
            [
                (
                    "image/class/text",
                    "Unexpected string values: Examples contain values missing from the schema: "
                    "emu.",
                )
            ],
        ),
        SplitAnomalies("train", []),
    ]
