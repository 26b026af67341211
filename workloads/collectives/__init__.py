"""Collectives: how the members of a clique arrive at the mean of what each of them holds.

`base` says what a collective is and `gloo` makes the ring all-reduce of `torch.distributed` one.
`ring` is the arithmetic of that ring (who sends to whom, and how many bytes), free of torch, so
that whoever predicts the load of a link can import it cheaply. `rendezvous` brings the workers
together within a time limit, and `watch` finds out whose peer was lost when a collective fails.
"""
