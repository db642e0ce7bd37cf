"""The arithmetic of the benchmark: percentiles, targets, sizes, notes and orders."""

from pathlib import Path

import msgspec
import pytest

from partition import partition_of
from streams.cli.bench.errand import Errand, from_environment
from streams.cli.bench.figure import Figure, Target, percentile
from streams.cli.bench.notes import Reader, Writer
from streams.cli.bench.order import KEYS, key_of, order, publications, rows
from streams.cli.bench.sizes import Sizes


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 50), (95, 95), (99, 99), (99.5, 100), (100, 100)])
def test_a_percentile_is_the_nearest_rank(percent: float, value: float) -> None:
    assert percentile(range(100, 0, -1), percent) == value


def test_a_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0


def test_a_target_is_met_at_its_bound() -> None:
    assert [Target("at least", 0.5).met(value) for value in (0.4, 0.5, 0.6)] == [False, True, True]
    assert [Target("at most", 0.5).met(value) for value in (0.4, 0.5, 0.6)] == [True, True, False]


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert Figure("memory", None, "MB", Target("at most", 250)).met is None
    assert Figure("rate", 5.0, "records/s").met is None


def test_a_full_run_has_the_sizes_that_are_promised() -> None:
    full = Sizes().scaled(1)
    assert full == Sizes()
    assert (full.handle_records, full.backlog_few, full.backlog_many) == (200_000, 50_000, 1_000_000)
    assert (full.latency_samples, full.kills, full.handovers) == (500, 20, 50)


def test_the_smallest_run_still_has_something_of_everything() -> None:
    assert all(value > 0 for value in msgspec.structs.astuple(Sizes().scaled(1e-9)))


def test_a_larger_run_has_more_records_and_not_more_rounds() -> None:
    larger = Sizes().scaled(2)
    assert larger.handle_records == 400_000
    assert larger.handle_rounds == Sizes().handle_rounds


def test_notes_are_read_while_they_are_written(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "notes")
    assert reader.look() == []
    writer = Writer(tmp_path / "notes")
    writer.write(3, 1, 7)
    assert [(one.partition, one.epoch, one.number) for one in reader.look()] == [(3, 1, 7)]
    writer.write(4, 2, 8)
    assert [one.number for one in reader.look()] == [7, 8]


def test_a_line_that_a_kill_has_torn_is_left_out(tmp_path: Path) -> None:
    Writer(tmp_path / "notes").write(3, 1, 7)
    with (tmp_path / "notes").open("a") as file:
        file.write("12.5 1")
    assert [one.number for one in Reader(tmp_path / "notes").look()] == [7]


def test_an_errand_reaches_the_worker_and_settings_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    errand = Errand("bench-idle", "bench", 8, Path("a folder/notes"), each=True, seconds=0.005)
    monkeypatch.setenv("STREAMS_LEASE_SECONDS", "99")
    environment = errand.environment()
    assert "STREAMS_LEASE_SECONDS" not in environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert from_environment() == errand


def test_an_order_has_about_150_bytes() -> None:
    sizes = [len(one.payload) for one in publications(1, 0, 200_000)]
    assert min(sizes) >= 135
    assert max(sizes) <= 170


def test_what_is_filled_in_goes_where_publishing_would_put_it() -> None:
    for number, one in enumerate(publications(9, 0, KEYS)):
        assert one.key is not None
        assert one.partition == partition_of(one.key, 16)
        assert one.topic_id == 9
        assert msgspec.json.decode(one.payload, type=type(order(number))) == order(number)


def test_bare_rows_have_places_of_their_own() -> None:
    made = [*rows(0, 500), *rows(500, 1_000)]
    assert len({row[:3] for row in made}) == len(made)


def test_there_is_a_key_for_every_partition() -> None:
    assert [partition_of(key_of(partition, 8), 8) for partition in range(8)] == list(range(8))
