import copy
import threading

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, TypeOptions
from apache_beam.runners.worker import statesampler
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.transforms import core, userstate
from apache_beam.utils.counters import CounterFactory

from image_pipeline.components.beam.answers import answer_once

pytestmark = pytest.mark.beam


class _Step(beam.DoFn):
    def process(self, element, window=beam.DoFn.WindowParam, *more, scale=2):
        yield element


COUNT = beam.DoFn.StateParam(userstate.CombiningValueStateSpec("count", sum))


class _Counting(beam.DoFn):
    def process(self, element, count=COUNT):
        yield element


def test_a_method_is_inspected_once_and_the_answer_is_beams(monkeypatch):
    asked = []

    def inspect(function, real=core.get_signature):
        asked.append(function)
        return real(function)

    expected = core.get_function_arguments(_Step(), "process")
    monkeypatch.setattr(core, "get_signature", inspect)
    with answer_once():
        for _ in range(3):
            assert core.get_function_arguments(_Step(), "process") == expected
    assert expected == (["element", "window"], [beam.DoFn.WindowParam]) and len(asked) == 1
    assert core.get_signature is inspect


def test_what_is_no_method_is_inspected_as_ever():
    functions = [str.upper, len, _Step, lambda left, right=3: left]
    expected = [core.get_signature(function) for function in functions]
    with answer_once():
        assert [core.get_signature(function) for function in functions] == expected


def test_flags_are_parsed_once_and_a_view_shows_later_changes():
    view_as = PipelineOptions.view_as
    options = PipelineOptions(["--runner=FlinkRunner", "--no_pipeline_type_check"])
    with answer_once():
        view = options.view_as(StandardOptions)
        assert view is options.view_as(StandardOptions) and view.runner == "FlinkRunner"
        options.view_as(TypeOptions).view_as(StandardOptions).runner = "FnApiRunner"
        assert options.view_as(StandardOptions).runner == "FnApiRunner"
        assert not options.view_as(TypeOptions).pipeline_type_check
        copied = copy.deepcopy(options)
        copied.view_as(StandardOptions).runner = "other"
        assert view.runner == "FnApiRunner"
    assert PipelineOptions.view_as is view_as


def test_after_overlapping_jobs_of_threads_beams_own_functions_are_back():
    own = core.get_signature, PipelineOptions.view_as
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def run_first():
        with answer_once():
            first_is_in.set()
            assert second_is_in.wait(60)
        first_is_out.set()

    thread = threading.Thread(target=run_first)
    thread.start()
    assert first_is_in.wait(60)
    with answer_once():
        second_is_in.set()
        assert first_is_out.wait(60)
        options = PipelineOptions()
        assert options.view_as(TypeOptions) is options.view_as(TypeOptions)
    thread.join()
    assert (core.get_signature, PipelineOptions.view_as) == own


def test_state_and_timers_are_looked_for_once_per_function(monkeypatch):
    asked = []

    def find(dofn, real=userstate.get_dofn_specs):
        asked.append(dofn)
        return real(dofn)

    monkeypatch.setattr(userstate, "get_dofn_specs", find)
    steps = [_Step(), _Counting()]
    with answer_once():
        stateful = [userstate.is_stateful_dofn(step) for step in steps * 2]
    assert stateful == [False, True] * 2 and asked == steps
    assert userstate.get_dofn_specs is find


def test_a_sampler_looks_often_while_a_job_runs():
    with answer_once():
        sampler = statesampler.StateSampler("a", CounterFactory())
        assert isinstance(sampler, StateSampler) and sampler.sampling_period_ms == 10
    assert statesampler.StateSampler is StateSampler
