"""In-network aggregation as an island sees it: a description of the job, and the endpoint.

`job` is the description of one clique's trees, which whoever built the network writes for each
member. `endpoint` is the member's side of the wire protocol: a thread in C that keeps the window
full, finds what was lost and paces what it sends. `native` has its sources, and `build` compiles
them into one shared library, which also has the fast form of `collectives.fixed_point`.
"""
