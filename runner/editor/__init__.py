"""The language server: what an editor is told while somebody types, beyond what a schema can say.

Begin with `server` (the only home of pygls: `amends lsp`); it asks the `desk`, which holds the project as the editor
has it, and `place` (what stands at the cursor), `offered`, `told` and `found` answer. Everything is read from
`language`; nothing here runs a flow.
"""
