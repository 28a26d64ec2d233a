"""The short way to what programs ask most: a plain request to start something goes by nothing but its guard.

The library looks anew at each request what its route takes, which costs more than all the rest. Whatever is odd about
a request goes the library's way, and is refused in its words; the API's description is the library's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, get_type_hints

from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from runner.web.shapes import Shape

LONGEST_KEY = 200
JSON, KEY = "application/json", "idempotency-key"
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ShortRoute(APIRoute):
    """A route that may be short: one whose function takes what is `wanted` of it and answers as it is."""

    def get_route_handler(self) -> Handler:
        """Who answers."""
        described = super().get_route_handler()
        takes = get_type_hints(self.endpoint, include_extras=True)
        shape = takes.get("wanted")
        if takes.get("return") is not Response or not (isinstance(shape, type) and issubclass(shape, Shape)):
            return described
        endpoint, guard, has_key = self.endpoint, takes["caller"].__metadata__[0].dependency, "key" in takes

        async def short(request: Request) -> Response:
            try:
                read = json.loads(await request.body()) if _says_json(request) else None
            except (ValueError, RecursionError, ClientDisconnect):
                return await described(request)
            keys = request.headers.getlist(KEY) if has_key else []
            if read is None or len(keys) > 1 or not all(0 < len(key) <= LONGEST_KEY for key in keys):
                return await described(request)
            caller = await guard(request)
            try:
                wanted = shape.model_validate(read)
            except ValidationError:
                return await described(request)
            more = {"key": keys[0]} if keys else {}
            answer: Response = await endpoint(request=request, caller=caller, wanted=wanted, **more)
            return answer

        return short


def _says_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
