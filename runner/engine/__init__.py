"""Makes it happen: `advance` records decisions, `perform` makes one outside call, an engine says who calls them when.

May import floors 0 to 2. Begin with `advance`, then `embedded` (an asyncio loop on SQL).
"""
