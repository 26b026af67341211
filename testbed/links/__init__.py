"""The links: one interface, two back-ends that give a wire its rate, delay, loss and queue.

A link of the emulated network is two veth pairs whose far ends, the *wire ends*, lie side by side
in the run's root namespace. Whatever carries frames from one wire end to the other *is* the link:
either `linkd`, a process of ours that holds every frame until its time, or the kernel's own `netem`
where it exists. Both sit in the network, off the sender's own interface, because a delay on the
sender's interface distorts its TCP (the sender's small-queue limit counts the delayed frames).
"""
