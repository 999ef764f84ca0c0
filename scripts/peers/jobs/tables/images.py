"""Jobs as users of run_image_classification run them: pictures of any size and kind, and keys of the processor."""

import io
import random

from tables.base import ACCUMULATED, pictures

try:
    from PIL import Image
except ImportError:  # the list of names needs none
    Image = None

SIZES = [(32, 32), (40, 20), (17, 61), (64, 64), (31, 33), (9, 9), (90, 35), (33, 120)]
LABELS = [number % 3 for number in range(12)]


def image(number, mode="RGB", form="PNG", sizes=SIZES):
    """A picture of noise over a slope, so that every filter has something to do."""
    if Image is None:
        return b""
    choose = random.Random(number)
    width, height = sizes[number % len(sizes)]
    channels = {"RGB": 3, "RGBA": 4, "L": 1, "LA": 2, "P": 3, "1": 1, "I;16": 1}[mode]
    raw = bytes(
        (x * 5 + y * 3 + channel * 40 + choose.randrange(60)) % 256
        for y in range(height)
        for x in range(width)
        for channel in range(channels)
    )
    made = Image.frombytes({"P": "RGB", "1": "L", "I;16": "L"}.get(mode, mode), (width, height), raw)
    if mode in ("P", "1"):
        made = made.convert(mode)
    buffer = io.BytesIO()
    made.save(buffer, form, **({"lossless": True} if form == "WEBP" else {}))
    return buffer.getvalue()


def of(mode="RGB", form="PNG", sizes=SIZES, count=12, processor=None, **given):
    files = {f"pictures/{number}.{form.lower()}": image(number, mode, form, sizes) for number in range(count)}
    spec = {"processor": processor or {}, **given.pop("spec", {})}
    return pictures(files, LABELS[:count], spec=spec, **given)


TALL, WIDE = [(20, 90), (33, 200)], [(90, 20), (200, 33)]
MEAN = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CASES = {
    "odd-sizes": of(),
    "tall": of(sizes=TALL),
    "wide": of(sizes=WIDE),
    "nearest": of(processor={"resample": 0}),
    "lanczos": of(processor={"resample": 1}),
    "bicubic": of(processor={"resample": 3}),
    "box": of(processor={"resample": 4}),
    "hamming": of(processor={"resample": 5}),
    "not-resized": of(
        sizes=[(32, 32)], processor={"do_resize": False}, more={"refusal": "images would differ in size"}
    ),
    "imagenet-mean": of(processor=MEAN),
    "not-normalized": of(processor={"do_normalize": False}),
    "not-rescaled": of(processor={"do_rescale": False, **MEAN}),
    "another-factor": of(processor={"rescale_factor": 1 / 127.5}),
    "grey": of("L"),
    "transparent": of("RGBA"),
    "grey-transparent": of("LA"),
    "palette": of("P"),
    "black-and-white": of("1"),
    "webp": of(form="WEBP"),
    "deit": of(family="deit"),
    "deit-cropped": of(
        family="deit",
        processor={
            "do_center_crop": True,
            "crop_size": {"height": 32, "width": 32},
            "size": {"height": 40, "width": 40},
        },
    ),
    "larger": of(spec={"config": {"image_size": 48}}),
    "accumulated": of(count=11, train=ACCUMULATED),
    "smoothed": of(train={"label_smoothing_factor": 0.1}),
    "lora": of(peft={"method": "lora", "target_modules": ["q_proj"], "modules_to_save": ["classifier"]}),
    "frozen": of(train={"freeze": ["embeddings"]}),
    "evaluated": of(train={"eval_strategy": "epoch", "num_train_epochs": 2, "max_steps": None}, more={}),
}
for number in range(8):
    CASES["evaluated"].files[f"held/{number}.png"] = image(number + 50)
CASES["evaluated"].files["validation.jsonl"] = [
    {"image": f"held/{number}.png", "label": LABELS[number]} for number in range(8)
]
