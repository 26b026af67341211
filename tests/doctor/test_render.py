from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console

from testbed.doctor.facts import Facts, Privileges, Trial
from testbed.doctor.render import print_report, verdict
from testbed.doctor.report import Report, examine
from tests.doctor.machines import BARE_KERNEL, STOCK_DEBIAN, without_tools


def shown(report: Report, width: int = 200) -> list[str]:
    buffer = StringIO()
    print_report(report, Console(file=buffer, width=width))
    return buffer.getvalue().splitlines()


def test_every_capability_has_exactly_one_line() -> None:
    report = examine(STOCK_DEBIAN)
    table = shown(report)[2 : 2 + len(report.findings)]
    for line, finding in zip(table, report.findings, strict=True):
        assert line.startswith(finding.status)
        assert finding.name in line
        assert finding.detail in line
        assert finding.used_for in line


def test_lines_of_an_ordinary_machine_fit_a_terminal_of_80_columns() -> None:
    report = examine(BARE_KERNEL)
    table = shown(report, width=80)[2:]
    assert table[len(report.findings)] == ""


def test_the_last_line_says_how_an_emulation_runs() -> None:
    assert shown(examine(STOCK_DEBIAN))[-1] == (
        "This machine can emulate: switches forward in the kernel, links are shaped by netem."
    )
    assert shown(examine(BARE_KERNEL))[-1] == (
        "This machine can emulate: switches forward in user space, links are shaped by linkd."
    )


def test_what_is_required_is_remedied_before_what_is_optional() -> None:
    lines = shown(examine(replace(BARE_KERNEL, linkd=None)))
    remedies = [line for line in lines if "(required)" in line or "(optional)" in line]
    assert remedies[0] == "linkd (required): make setup"
    assert len(remedies) == 3


def test_a_missing_program_is_sent_to_the_set_up_first() -> None:
    last = shown(examine(without_tools(STOCK_DEBIAN, "mnexec")))[-1]
    assert last.startswith("This machine cannot emulate: mnexec missing; run 'make setup'")


def test_a_user_without_root_is_sent_to_sudo_and_the_vm() -> None:
    user = examine(replace(STOCK_DEBIAN, privileges=Privileges(False, False, False)))
    assert "because this is not root" in verdict(user)
    assert "docs/vm.md" in verdict(user)
    assert any("sudo" in line for line in shown(user))


def test_another_system_is_sent_to_the_vm() -> None:
    last = shown(examine(Facts("Darwin", "macOS-15.1", "24.1.0", "3.12.1")))[-1]
    assert "because it is not Linux" in last
    assert "docs/vm.md" in last


def test_the_kernels_words_are_shown_as_they_are() -> None:
    words = "[Errno 1] not [bold]permitted[/bold]"
    refused = replace(STOCK_DEBIAN, namespaces=Trial(False, words))
    assert any(words in line for line in shown(examine(refused)))
