"""In-network aggregation as an island sees it: the wire protocol and a member's end of it."""
