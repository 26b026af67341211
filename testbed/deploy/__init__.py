"""Put programs on the islands, run them, watch them and bring their results home, over SSH.

An island is meant to be a machine of its own: it has a host name, a hosts file, a work folder and
an SSH server, and the testbed treats it as Fabric would treat a rack of real machines. What works
here works there. `island` makes the machines, `fleet` uses them, `remote` lets a person in from
another terminal, `environment` says what a worker is told.
"""
