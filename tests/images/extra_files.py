"""Files of kinds whose decoders are extras, drawn from code."""

import io

import imagecodecs
import numpy as np
import pillow_heif
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def save_heic(pixels: np.ndarray, **settings: object) -> bytes:
    """Encodes uint8 or uint16 gray, RGB or RGBA pixels without loss, the latter as 10 bits."""
    height, width = pixels.shape[:2]
    mode = _MODES[pixels.shape[2] if pixels.ndim == 3 else 1] + ";16" * (pixels.dtype == np.uint16)
    image = pillow_heif.from_bytes(mode, (width, height), pixels.tobytes())
    lossless = {} if mode == "L" else {"chroma": 444, "matrix_coefficients": 0}
    file = io.BytesIO()
    image.save(file, quality=-1, **lossless, **settings)
    return file.getvalue()


def save_jxl(pixels: np.ndarray, **settings: object) -> bytes:
    """Encodes pixels as JPEG XL, without loss."""
    return imagecodecs.jpegxl_encode(pixels, **{"lossless": True, **settings})


def save_dicom(
    pixels: np.ndarray, syntax: str = ExplicitVRLittleEndian, **elements: object
) -> bytes:
    """Encodes gray [height, width] or RGB pixels as DICOM, with further elements."""
    dataset = Dataset()
    dataset.SOPClassUID, dataset.SOPInstanceUID = SecondaryCaptureImageStorage, "1.2.3"
    dataset.PatientName, dataset.PatientID = "Secret^Name", "secret-id"
    dataset.Rows, dataset.Columns = pixels.shape[:2]
    dataset.SamplesPerPixel = 3 if pixels.ndim == 3 else 1
    dataset.PhotometricInterpretation = "RGB" if pixels.ndim == 3 else "MONOCHROME2"
    if pixels.ndim == 3:
        dataset.PlanarConfiguration = 0
    bits = 8 * pixels.dtype.itemsize
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = bits, bits, bits - 1
    dataset.PixelRepresentation = int(pixels.dtype.kind == "i")
    dataset.PixelData = pixels.tobytes() + bytes(pixels.nbytes % 2)
    dataset["PixelData"].VR = "OB" if bits == 8 else "OW"
    for name, value in elements.items():
        setattr(dataset, name, value)
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = syntax
    file = io.BytesIO()
    pydicom.dcmwrite(file, dataset, enforce_file_format=True)
    return file.getvalue()


def make_table(first: int, values: list[int], bits: int) -> Dataset:
    """What numbers become from `first` on, as an item of a DICOM sequence."""
    item = Dataset()
    item.LUTDescriptor, item.LUTData = [len(values), first, bits], values
    item["LUTDescriptor"].VR = "SS" if first < 0 else "US"
    item["LUTData"].VR = "US"
    return item
