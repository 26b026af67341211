"""The names of the kinds of collectives: this package's one list of them, which imports nothing.

`ring` sums in the order of a ring. Of the others all members have the same sums bit by bit in any
order: `exchange` over connections alone, the rest with the network, along the trees of a job file.
"""

RING = "ring"
EXCHANGE = "exchange"
MULTICAST = "multicast"
AGGREGATION = "aggregation"
INNETWORK = "innetwork"
NETWORK_KINDS = (MULTICAST, AGGREGATION, INNETWORK)
ORDER_FREE_KINDS = (EXCHANGE, *NETWORK_KINDS)
ALL_KINDS = (RING, *ORDER_FREE_KINDS)
