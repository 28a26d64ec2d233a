"""The connectors against real servers on loopback."""
