import pytest

from image_pipeline.components.errors import UserError
from image_pipeline.components.training.pixel_check import check_pixels
from image_pipeline.components.transform import fixed
from image_pipeline.components.views.options import ViewOptions
from tests import graphs
from tests.tiers import wide

pytestmark = pytest.mark.beam

VIEW = ViewOptions(height_px=8, width_px=8)


@pytest.fixture(
    scope="module",
    params=["imagenet", wide("caffe"), wide("minus_one_to_one"), wide("keep_levels")],
)
def graph(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return request.param, graphs.write_graph(folder, preprocessing_fn=getattr(fixed, request.param))


def test_a_backbone_takes_its_own_pixels_only(graph):
    name, folder = graph
    wants = {
        "DenseNet121": "imagenet",
        "ResNet50": "caffe",
        "MobileNetV2": "minus_one_to_one",
        "MobileNetV3Small": "keep_levels",
        "EfficientNetV2B0": "keep_levels",
    }
    for model, wanted in wants.items():
        if wanted == name:
            check_pixels(model, folder, VIEW)
            continue
        message = rf"{model} wants the pixels of transform.preprocessing_fn={wanted}, but this run"
        with pytest.raises(UserError, match=message):
            check_pixels(model, folder, VIEW)


def test_other_models_take_any():
    check_pixels("resnet", graphs.shared_graph_dir(), VIEW)
    with pytest.raises(UserError, match=r"differ from them by up to 254\.\d grey levels"):
        check_pixels("MobileNetV3Small", graphs.shared_graph_dir(), VIEW)
