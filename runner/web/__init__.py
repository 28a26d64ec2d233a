"""The pages: what `amends serve` shows people, and the API under /api/v1. No build step, no script that is needed.

May import everything below; home of fastapi, starlette, uvicorn, and jinja2 for the pages. Begin with `application`
(all routes), `guard` (who may ask for what: each route declares it), `console` (what every page needs), `shell` (what
holds for every request). Then a file for each noun; their templates stand in `pages/`.
"""
