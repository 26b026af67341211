"""The emulated in-line accelerator of a site: sums what children of a tree send, in the network.

`native/` is the program, `twin.py` the same state machine to read and to test against, `config.py`
what an accelerator is told of a tree, `process.py` starts one and asks it. The protocol is in
`docs/protocol.md`.
"""
