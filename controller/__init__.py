"""The SDN controller: intents in, OpenFlow 1.3 messages out."""
