"""Training one small language model over the islands: a workload that is real from end to end.

`torchrun --nproc-per-node 3 -m workloads.training.train --rounds 3` runs it on one machine; on
emulated islands the same module is started with the same four environment variables.

`data` cuts real text into shards, `model` is the transformer, `parameters` lays its weights out in
one vector, `optimizer` has the local and the outer steps, `sync` puts local work and a collective
together, `records` writes down what happened, and `train` is the worker's command line.
"""
