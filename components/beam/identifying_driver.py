"""A TFX driver that identifies what a step reads, so that TFX's cache notices what has changed.

Apart from `tfx_components`, which imports what measures data and models: no step of ours needs it.
"""

import abc
from typing import Any

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as ir_base_driver
from tfx.orchestration.portable.data_types import ExecutionInfo
from tfx.proto.orchestration import driver_output_pb2


class IdentifyingDriver(base_driver.BaseDriver, ir_base_driver.BaseDriver, abc.ABC):
    """Completes a step's parameters before TFX looks for an execution with the same ones.

    It corresponds to the driver of TFX's own ExampleGens. Engines other than TFX's own runners
    (Kubeflow) run none: there, their cache is looked into with the parameters as they are.
    """

    def __init__(self, metadata_handle: metadata.Metadata):
        """Both of TFX's kinds of driver are initialised, as in its ExampleGens."""
        base_driver.BaseDriver.__init__(self, metadata_handle)
        ir_base_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """The parameters of this run; TFX reuses an execution with the same ones."""
        found = driver_output_pb2.DriverOutput()
        for name, value in self.identify(execution_info.exec_properties).items():
            data_types_utils.set_metadata_value(found.exec_properties[name], value)
        return found

    @abc.abstractmethod
    def identify(self, exec_properties: dict[str, Any]) -> dict[str, Any]:
        """The parameters, with what identifies the step's input."""
