"""Editors: the schemas by the real YAML language server, and our own language server, both over the protocol."""
