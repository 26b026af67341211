"""Traffic beside a training: flows as iperf sends them, and the traffic of other tenants' jobs.

One process an island carries all flows that begin or end there. It needs nothing but the standard
library, so it starts at once and takes little memory beside the workers. What was sent, received
and lost is counted at the flow's own two ends, so that a run can tell its training's bytes from
those of everybody else.

    python -m workloads.traffic.endpoint --flows '[...]' --begin-file FILE --limit-s 600

Processes wait until the file tells them the moment from which all times count; islands share one
clock.
"""
