"""The workload `digits`: 1,797 hand-written digits of 8 x 8 pixels, told apart by a small CNN.

They come with scikit-learn (`sklearn.datasets.load_digits`; the test set of Alpaydin and Kaynak,
"Optical recognition of handwritten digits", UCI repository, CC BY 4.0). Every sixth image is held
out, whatever the seed and the number of workers.

The images are read from the file in scikit-learn's package: to import the library itself would cost
each worker a second of processor time and 70 MB, for one line that reads a table.
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from workloads.collectives.endpoint import Endpoint
from workloads.errors import UsageError
from workloads.training.settings import Settings
from workloads.training.shards import shard_of
from workloads.training.task import Task

HELD_OUT_EVERY = 6
PIXELS = 8
CLASSES = 10
BRIGHTEST = 16.0


class DigitsNetwork(nn.Module):
    """Two convolutions, a pooling, and two layers that see all: 38,282 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = nn.Conv2d(1, 16, kernel_size=3, padding=1)
        self.shapes = nn.Conv2d(16, 32, kernel_size=3, padding=1)
        self.hidden = nn.Linear(32 * (PIXELS // 2) ** 2, 64)
        self.output = nn.Linear(64, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Map images (batch, 1, 8, 8) to logits (batch, 10)."""
        x = F.relu(self.shapes(F.relu(self.edges(images))))
        x = F.relu(self.hidden(F.max_pool2d(x, 2).flatten(1)))
        logits: Tensor = self.output(x)
        return logits


class ImageBatches:
    """Endless batches of images from one shard, drawn at random by a seed."""

    def __init__(
        self, images: Tensor, digits: Tensor, batch_size: int, seed: tuple[int, ...]
    ) -> None:
        self._images = images
        self._digits = digits
        self._batch_size = batch_size
        self._generator = np.random.default_rng(seed)

    def next(self) -> tuple[Tensor, Tensor]:
        """Return images (batch, 1, 8, 8) and digits (batch)."""
        drawn = torch.from_numpy(self._generator.integers(len(self._digits), size=self._batch_size))
        return self._images[drawn], self._digits[drawn]


def build_task(settings: Settings, endpoint: Endpoint) -> Task:
    """Return the task of one worker; its shard is split by digit where a Dirichlet alpha is set."""
    rank, world_size = endpoint.rank, endpoint.world_size
    images, digits = load_digits()
    held_out, training = split(len(digits))
    labels = digits[training].numpy()
    mine = training[
        shard_of(rank, world_size, labels, settings.seed, settings.dirichlet_alpha, "images")
    ]
    share = held_out[: settings.held_out_windows][rank::world_size]
    torch.manual_seed(settings.seed)
    return Task(
        model=DigitsNetwork(),
        batches=ImageBatches(
            images[mine], digits[mine], settings.batch_size, (settings.seed, rank)
        ),
        held_out=(images[share], digits[share]),
        loss=loss,
        loss_unit="nats an image",
        tells_accuracy=True,
        sizes={
            "shard_images": len(mine),
            "shard_labels": np.bincount(digits[mine].numpy(), minlength=CLASSES).tolist(),
        },
    )


def loss(model: nn.Module, images: Tensor, digits: Tensor) -> Tensor:
    """Return the mean cross entropy in nats an image, a scalar."""
    return F.cross_entropy(model(images), digits)


def split(images: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which images are held out, and which are trained on."""
    everything = np.arange(images)
    held_out = everything % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
    return everything[held_out], everything[~held_out]


def load_digits() -> tuple[Tensor, Tensor]:
    """Return all images, (1797, 1, 8, 8) from 0 to 1, and the digits that they show.

    Raises:
        UsageError: scikit-learn is not installed.
    """
    with gzip.open(_digits_file(), "rt", encoding="ascii") as lines:
        rows = np.loadtxt(lines, delimiter=",")
    pixels = torch.from_numpy(rows[:, :-1].astype(np.float32)) / BRIGHTEST
    return pixels.view(-1, 1, PIXELS, PIXELS), torch.from_numpy(rows[:, -1].astype(np.int64))


def _digits_file() -> Path:
    spec = find_spec("sklearn")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder, "datasets", "data", "digits.csv.gz")
        if path.is_file():
            return path
    raise UsageError("--workload digits: its images come with scikit-learn; install scikit-learn")
