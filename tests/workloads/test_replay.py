"""Replaying a model's traffic: the table of layers, the messages, and sums that are checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from workloads.collectives.endpoint import Endpoint
from workloads.errors import CollectiveError, UsageError
from workloads.replay import transformer
from workloads.replay.layers import Layer, bucket_sizes, load_layers, regrouped, step_s
from workloads.replay.payload import Payload, weight
from workloads.replay.workload import Replay
from workloads.training import digits
from workloads.training.data import load_corpus
from workloads.training.model import PRESETS, build_model
from workloads.training.rotation import Turn
from workloads.training.schedule import ScheduledClique
from workloads.training.settings import Settings
from workloads.training.sizes import message_bytes

SHIPPED = Path(transformer.__file__).parent / "models" / "tinyllama_1.1b.csv"
MIB = 1024 * 1024
HEADER = "layer,numel,forward_ms,backward_ms\n"


def table(folder: Path, text: str) -> Path:
    path = folder / "layers.csv"
    path.write_text(text)
    return path


def test_a_table_is_read_whatever_the_order_of_its_columns(tmp_path: Path) -> None:
    text = "# a comment\nnumel, layer ,backward_ms,forward_ms\n\n10,first,2.5,1\n20,second,0,0.5\n"
    assert load_layers(table(tmp_path, text)) == (
        Layer("first", 10, 1.0, 2.5),
        Layer("second", 20, 0.5, 0.0),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: no column layer; the columns are layer, numel, forward_ms, backward_ms"),
        ("layer,numel,forward\n", ":1: unknown column 'forward'; the columns are layer, numel"),
        ("layer,numel,forward_ms\nx,1,1\n", ":1: no column backward_ms; the columns are"),
        ("# x\nlayer,numel,numel,forward_ms,backward_ms\n", ":2: more than one column numel"),
        (HEADER, ":1: nothing below the columns; the columns are layer, numel"),
        (HEADER + "a,1,1\n", ":2: 3 values for 4 columns"),
        (HEADER + "a,1,1,1\nb,1.5,1,1\n", ":3: numel '1.5'; give a whole number from 1"),
        (HEADER + "a,0,1,1\n", ":2: numel '0'; give a whole number from 1"),
        (HEADER + "a,1,x,1\n", ":2: forward_ms 'x'; give milliseconds from 0"),
        (HEADER + "a,1,1,-1\n", ":2: backward_ms '-1'; give milliseconds from 0"),
        (
            HEADER + "a,1,1e300,1\n",
            ":2: forward_ms '1e300'; give milliseconds from 0 to 1000",
        ),
        (HEADER + f"a,{'9' * 5000},1,1\n", ":2: numel '999999999999999999999999999999...'; give a"),
        (HEADER + f"{'x' * 200_000},1,1,1\n", ":2: field larger than field limit"),
        (HEADER + "a,1,1,nan\n", ":2: backward_ms 'nan'; give milliseconds from 0"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_column(
    text: str, message: str, tmp_path: Path
) -> None:
    path = table(tmp_path, text)
    with pytest.raises(UsageError) as failure:
        load_layers(path)
    assert str(failure.value).startswith(f"{path}{message}")
    assert "\n" not in str(failure.value)


def test_a_table_is_read_as_spreadsheets_write_it(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv"
    path.write_bytes(("\ufeff" + HEADER + '"a\u2028b",10,1,2.5\n').replace("\n", "\r\n").encode())
    assert load_layers(path) == (Layer("a\u2028b", 10, 1.0, 2.5),)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_table_in_another_encoding_is_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "layers.csv"
    path.write_bytes((HEADER + "é,10,1,2.5\n").encode(encoding))
    with pytest.raises(UsageError, match=r"layers\.csv: not UTF-8 text; save it as CSV in UTF-8"):
        load_layers(path)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.csv: No such file"):
        load_layers(tmp_path / "nowhere.csv")


def test_layers_go_into_buckets_of_25_mib_from_the_last_to_the_first() -> None:
    sizes_mib = [40, 10, 5, 12, 8, 4]
    layers = [Layer(str(i), mib * MIB // 4, 0.0, 0.0) for i, mib in enumerate(sizes_mib)]
    # 4 + 8 + 12, then 5 + 10, then one that fills a bucket by itself.
    assert bucket_sizes(layers, 1.0) == [mib * MIB // 4 for mib in (24, 15, 40)]
    assert bucket_sizes(layers, 0.01) == [62_915, 39_322, 104_858]


def test_buckets_in_a_row_make_fragments() -> None:
    assert regrouped([1, 2, 3, 4, 5], 0) == [1, 2, 3, 4, 5]
    assert regrouped([1, 2, 3, 4, 5], 2) == [1 + 2, 3 + 4 + 5]
    with pytest.raises(UsageError, match="--overlap-fragments 6: the layers make 5 messages"):
        regrouped([1, 2, 3, 4, 5], 6)


def test_the_shipped_model_is_computed_from_its_published_shape() -> None:
    assert SHIPPED.read_text() == transformer.table(transformer.TINYLLAMA, transformer.EIGHT_A100)
    # The count that TinyLlama's authors publish for their weights.
    assert sum(layer.numel for layer in load_layers(SHIPPED)) == 1_100_048_384


def test_the_times_of_the_shipped_model_are_its_operations_at_the_stated_rate() -> None:
    tokens, rate = 64 * 2048, 8 * 312e12 * 0.4
    matrices = 1_100_048_384 - 32_000 * 2048  # the embedding is looked up, not multiplied
    attention = 22 * 2 * 2048 * 2048
    forward_s = (2 * matrices + attention) * tokens / rate
    assert step_s(load_layers(SHIPPED)) == pytest.approx(3 * forward_s, rel=1e-5)


def test_sizes_are_known_without_building_anything() -> None:
    vocabulary = len(load_corpus().vocabulary)
    for preset, shape in PRESETS.items():
        parameters = sum(p.numel() for p in build_model(shape, vocabulary, 0).parameters())
        assert message_bytes("characters", preset) == 4 * parameters
    counted = sum(p.numel() for p in digits.DigitsNetwork().parameters())
    assert message_bytes("digits") == 4 * counted
    assert message_bytes("replay", layers=SHIPPED) == 4 * 1_100_048_384
    assert message_bytes("replay", layers=SHIPPED, message_scale=0.01) == pytest.approx(
        44_001_935, abs=2 * 47
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workload": "images"}, "workload images: one of characters, digits, replay"),
        ({"workload": "characters", "preset": "huge"}, "preset huge: one of tiny, small"),
        ({"workload": "replay"}, "give a CSV file of layers"),
    ],
)
def test_a_workload_that_is_none_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        message_bytes(**arguments)


class TrueMean:
    """A collective of islands whose payloads are known; it may spoil one number."""

    def __init__(self, replays: Sequence[Replay], turn: Turn, spoiled: int | None = None) -> None:
        self.members = tuple(range(len(replays)))
        self._said = [replay.messages(turn)[0] for replay in replays[1:]]
        self._spoiled = spoiled
        self._part = 0

    def allreduce(self, tensor: Tensor, name: str = "") -> Tensor:
        others = [parts[self._part] for parts in self._said]
        mean = torch.stack([tensor, *others]).sum(dim=0) / len(self.members)
        if self._part == self._spoiled:
            mean[3] += 1
        self._part += 1
        return mean

    def counters(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


def replays(folder: Path, count: int, **options: Any) -> list[Replay]:
    path = table(folder, HEADER + "a,8000000,0,0\nb,8000000,0,0\nc,100,0,0\n")
    scaled = {"layers": path, "message_scale": 1e-4, "local_steps": 1, **options}
    settings = Settings(workload="replay", **scaled)
    return [Replay.of(settings, Endpoint(rank, count, "127.0.0.1", 1)) for rank in range(count)]


def replayed(folder: Path, spoiled: int | None) -> list[dict[str, Any]]:
    everyone = replays(folder, 3, outer="none")
    clique = ScheduledClique("exchange", (0, 1, 2))
    idle = Turn(4, 0, clique, None, True)
    turn = Turn(4, 0, clique, TrueMean(everyone, idle, spoiled), True)
    return [log.fields() for log in everyone[0].rounds([turn])]


def test_a_round_sends_every_bucket_and_finds_the_sums_right(tmp_path: Path) -> None:
    (fields,) = replayed(tmp_path, None)
    assert fields["train_loss"] is None
    assert fields["round"] == 4


def test_a_wrong_number_ends_the_run_and_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectiveError) as failure:
        replayed(tmp_path, spoiled=1)
    text = "wrong sum in round 4: 1 of 800 numbers of part 1, the first at index 3: "
    assert str(failure.value).startswith(text)


def test_payloads_of_other_rounds_parts_and_islands_are_no_match() -> None:
    payload = Payload(5000, 0)
    said = {
        (rank, number, part): payload.message(rank, number, part, 64)
        for rank in range(3)
        for number in range(20)
        for part in range(5)
    }
    assert len({tuple(tensor.tolist()) for tensor in said.values()}) == len(said)


def test_a_mean_over_many_islands_is_exact_in_float32() -> None:
    payload, ranks = Payload(100, 1), range(200)
    messages = [payload.message(rank, 0, 0, 100) for rank in ranks]
    total = torch.zeros(100)
    for message in reversed(messages):  # in another order than the weights are added up in
        total += message
    payload.require_mean(total / 200, ranks, 0, 0)
    assert sum(weight(rank) for rank in ranks) * 999 < 2**24


@pytest.mark.parametrize(
    ("options", "elements"),
    [
        ({"outer": "none"}, [1, 800, 800]),
        ({"outer": "mean"}, [1601]),
        ({"outer": "diloco", "overlap_fragments": 2}, [1, 1600]),
    ],
)
def test_gradients_go_in_buckets_and_changes_in_one_message_or_in_fragments(
    options: dict[str, Any], elements: list[int], tmp_path: Path
) -> None:
    (only,) = replays(tmp_path, 1, **options)
    assert only.description()["part_bytes"] == [4 * count for count in elements]


def test_the_same_layers_have_the_same_identity(tmp_path: Path) -> None:
    one, two = replays(tmp_path, 2)
    assert one.identity() == two.identity()
    assert one.message_bytes == 4 * (1 + 2 * 800)  # a message is never empty
