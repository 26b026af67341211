"""`linkd`: the user-space link daemon in C, how it is built and how one talks to it."""
