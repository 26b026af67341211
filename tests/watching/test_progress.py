import io
import re

from rich.console import Console

from testbed.progress import Stages


def terminal() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=160, _environ={}), file


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_a_terminal_shows_rounds_loss_and_time_left() -> None:
    console, file = terminal()
    with Stages(console) as stages:
        stages.announce("Training 8 rounds", total=8)
        for done in range(1, 4):
            stages.advance(done, f"held-out loss {4 - done / 10:.3f}")
        stages._progress.refresh()
    shown = plain(file.getvalue())
    assert "3/8" in shown
    assert "held-out loss 3.700" in shown
    assert re.search(r"3/8 0:00:\d\d 0:00:\d\d", shown)  # elapsed and left


def test_a_terminal_shows_the_whole_of_many_parts() -> None:
    console, file = terminal()
    with Stages(console) as stages:
        stages.part("Trainings", 2, 24)
        stages.announce("Training 4 rounds", total=4)
        stages.advance(1)
        stages._progress.refresh()
    shown = plain(file.getvalue())
    assert "2/24" in shown
    assert "1/4" in shown


def test_a_file_gets_one_line_for_each_finished_stage() -> None:
    file = io.StringIO()
    with Stages(Console(file=file, width=110)) as stages:
        stages.part("Trainings", 0, 2)
        stages.announce("Building")
        stages.announce("Training 2 rounds", total=2)
        stages.advance(2, "held-out loss 3.500")
    lines = file.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].split()[0] == "Building"
    assert lines[1].endswith("held-out loss 3.500")
