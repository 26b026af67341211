"""`atoll bench collective`: how fast collectives are on an emulated WAN, each beside its bound."""
