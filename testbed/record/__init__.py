"""The run record: everything a run leaves behind, as plain files under `runs/<id>/`.

`writer` writes it as the run goes, `reader` reads it, of a running or a killed run too; `summary`
works out what happened from it and `tables` shows that. The files are described in
`docs/run-record.md`.
"""

from testbed.record.identity import new_run_id

__all__ = ["new_run_id"]
