"""The emulated WAN: nodes built by Mininet, switches by Open vSwitch, links by a back-end."""
