"""From an OpenAPI 3 document to a connector file that a person goes on with.

Begin at `writing.import_document`. `document` reads and resolves, `shapes` turns schemas into types, `operations` says
one operation as an action, `writing` puts the file together. Nothing here goes over the network. What cannot be said is
left out and listed; what a person must decide stands as `# decide:` at its place.
"""
