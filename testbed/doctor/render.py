"""Shows the doctor's report: a line per capability, then what to do, then the verdict."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from testbed.doctor.checks import Finding
from testbed.doctor.report import Report

MARKS = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "missing": "[red]missing[/]"}
VM_POINTER = "the VM has everything that is needed: docs/vm.md"


def print_report(report: Report, console: Console) -> None:
    """Print the findings as a table, the remedies below it and the verdict last."""
    console.print(f"{report.facts.distribution}, kernel {report.facts.kernel}", highlight=False)
    console.print(findings_table(report.findings))
    remedies = remedy_lines(report.findings)
    if remedies:
        console.print()
        for line in remedies:
            console.print(line, highlight=False, soft_wrap=True)
    console.print()
    console.print(verdict(report), highlight=False, soft_wrap=True)


def findings_table(findings: tuple[Finding, ...]) -> Table:
    """Return one row a capability: status, name, what was found, what it is used for."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("status", "capability", "found"):
        table.add_column(heading, no_wrap=heading != "found", overflow="fold")
    table.add_column("used for", style="dim", overflow="fold")
    for finding in findings:
        table.add_row(
            MARKS[finding.status],
            finding.name,
            escape(finding.detail),
            escape(finding.used_for),
        )
    return table


def remedy_lines(findings: tuple[Finding, ...]) -> list[str]:
    """Return what to do about everything that is not as it should be, what is required first."""
    lacking = [finding for finding in findings if finding.remedy and finding.status != "ok"]
    lacking.sort(key=lambda finding: not finding.blocks)
    return [
        f"{finding.name} ({'required' if finding.blocks else 'optional'}): {escape(finding.remedy)}"
        for finding in lacking
    ]


def verdict(report: Report) -> str:
    """Return the last line: whether an emulation can run here, and how or why not."""
    if report.can_emulate:
        return (
            f"[green]This machine can emulate[/]: switches forward in "
            f"{'the kernel' if report.datapath == 'kernel' else 'user space'}, "
            f"links are shaped by {report.link_backend}."
        )
    names = ", ".join(finding.name for finding in report.blocking)
    reason = (
        f"[red]This machine cannot emulate[/]: {names or 'nothing can switch or shape'} missing"
    )
    if report.needs_vm:
        why = "it is not Linux" if report.facts.system != "Linux" else "this is not root"
        return f"[red]This machine cannot emulate[/], because {why}; {VM_POINTER}."
    return f"{reason}; run 'make setup' first, and if that does not help, {VM_POINTER}."
