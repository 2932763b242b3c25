"""What tests remember of Beam is what Beam works out."""

import apache_beam as beam
import pytest
from apache_beam.options import pipeline_options as options
from apache_beam.transforms import core

from tests import beam_memo

pytestmark = pytest.mark.beam

FLAGS = ["--runner=FnApiRunner", "--direct_running_mode=in_memory", "--experiments=a", "--other=1"]
CLASSES = (options.StandardOptions, options.DirectOptions, options.DebugOptions)


class Own(beam.DoFn):
    def process(self, element, factor=2, window=beam.DoFn.WindowParam):
        yield element * factor

    def setup(self):
        pass


def test_arguments_of_methods_are_those_that_beam_finds():
    for each in (Own(), Own(), beam.core.CallableWrapperDoFn(len)):
        for name in ("process", "setup", "finish_bundle", "default_label"):
            method = getattr(each, name)
            expected = beam_memo._list_arguments(method)
            for _ in range(2):
                names, defaults = beam_memo._list_arguments_once(method)
                assert (names, defaults) == expected
                names.append("changed by who asked")
                defaults.append(None)
    assert beam_memo._list_arguments_once(len) == beam_memo._list_arguments(len)


@pytest.mark.parametrize("flags", [FLAGS, [], ["--streaming"]])
def test_views_of_options_are_those_that_beam_makes(flags):
    for _ in range(2):
        ours, theirs = options.PipelineOptions([*flags]), options.PipelineOptions([*flags])
        for cls in CLASSES:
            view = beam_memo._view_as_parsed(ours, cls)
            expected = beam_memo._view_as(theirs, cls)
            assert type(view) is cls and vars(view) == vars(expected)
            assert view._all_options is ours._all_options
        beam_memo._view_as_parsed(ours, options.DebugOptions).add_experiment("b")
        beam_memo._view_as(theirs, options.DebugOptions).add_experiment("b")
        found = beam_memo._view_as_parsed(ours, options.DebugOptions).experiments
        assert found == beam_memo._view_as(theirs, options.DebugOptions).experiments
        assert found[-1] == "b" and ours.get_all_options() == theirs.get_all_options()


def test_jobs_of_tests_use_them():
    assert core.get_function_args_defaults is beam_memo._list_arguments_once
    assert options.PipelineOptions.view_as is beam_memo._view_as_parsed
