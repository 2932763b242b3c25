"""What the short keys of the data set's lists mean, in the words of people who read them."""

NOTES = {
    "frames": "animation, of which the first frame is used",
    "icc": "colour profile, converted to sRGB",
    "icc_broken": "unreadable colour profile, ignored",
    "icc_unused": "colour profile, not applied: values are kept as they are",
    "exif_broken": "unreadable EXIF data, taken as upright",
    "xmp_orientation": "a turn that only XMP names, not applied",
    "raw_exif_orientation": "a turn that only ImageMagick's text names, not applied",
    "alpha": "transparent pixels, laid on the background",
    "16bit": "16 bits per channel, of which 8 are kept",
    "10bit": "10 bits per channel, of which 8 are kept",
    "12bit": "12 bits per channel, of which 8 are kept",
    "window": "DICOM's window, outside of which all is black or white",
    "white_is_zero": "DICOM whose lowest value is white, kept as it is",
    "cmyk": "print colours (CMYK), converted to RGB",
    "arithmetic": "JPEG with arithmetic coding",
    "extra_bytes": "data goes on where the pixels have ended",
    "missing_scans": "progressive JPEG without its last details",
    "gray": "gray, stored as colour",
    "color": "colour, stored as gray",
    "float64": "64-bit numbers, rounded to 32 bits",
    "cut": "sound cut to its duration",
    "padded": "sound padded to its duration",
    "silent": "sound without any signal",
    "clipped_boxes": "boxes cut at the image's edge",
    "dropped_boxes": "boxes that cannot be used, left out",
}
"""What was unusual about an image, see `PreparedImage.notes`."""

REASONS = {
    "empty": "Empty files",
    "not_an_image": "Not an image",
    "archive": "Archives, to be unpacked first",
    "unsupported": "Formats that are not read",
    "truncated": "Files that end too early",
    "corrupt": "Damaged files",
    "too_large_file": "Files that are too large",
    "too_many_pixels": "Images of too many pixels",
    "too_small": "Images that are too small",
    "conflicting_label": "Same bytes, different labels",
    "bad_box": "Boxes that cannot be used",
    "bad_mask": "Masks that cannot be used",
    "missing_file": "Files that a table names, but that are not there",
    "mask_without_image": "Masks without an image",
    "mask_size": "Masks of another size than their image",
    "two_masks": "Images with two masks",
    "not_a_file": "Links to nowhere, pipes and devices",
    "outside": "Links that leave the images folder",
    "listed_twice": "Files that a table names twice",
    "too_large_video": "Videos that are too large",
    "generator_failed": "Errors of the generator",
    "text": "Texts",
    "system_file": "Left by an operating system",
    "other_file": "Of other kinds, such as videos and sounds",
    "listed_before": "Further names of a folder",
    "left_out": "Left out by a list",
    "other_mask": "Further masks of an image",
    "rare_class": "Of a class of too few images",
    "duplicate": "Copies of another file",
    "bad_row": "Rows of a table or generator that cannot be used",
    "wrong_type": "Rows with a value of the wrong type",
    "no_path": "Rows of a table that name no file",
    "no_label": "Images without a label",
    "no_mask": "Images without a mask",
    "unknown_label": "Labels that ingest.classes does not name",
    "unknown_split": "Splits that ingest.splits does not name",
    "vanished": "Files that were gone when they were to be read",
    "unreadable": "Files that the system does not let be read",
}
"""Why a file is in quarantine, or is not a record of its own."""


def explain_note(note: str) -> str:
    """What a note of the index means, without what follows its colon; itself if that is unknown."""
    return NOTES.get(note, note.replace("_", " "))


def explain_reason(reason: str) -> str:
    """What a reason of the quarantine means; the reason itself if that is unknown."""
    return REASONS.get(reason, reason[:1].upper() + reason[1:].replace("_", " "))


def explain_key(key: str) -> str:
    """What a note or a reason means, whichever it is."""
    return explain_note(key) if key in NOTES else explain_reason(key)
