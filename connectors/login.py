"""Logging in: a call with name and password gives what every later call carries, as long as the service takes it."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from connectors.answers import Seen
from connectors.auth import header_value
from connectors.rendering import answered, json_body
from connectors.tokens import NoToken, Tokens, refusal_reason
from connectors.wire import DEFAULT_HEADERS, Answer, Wire
from runner.contract import Json
from runner.errors import EvaluationError


class Login(Tokens):
    """The sessions of one connection with `login`. `told["connection"]` are its plain settings."""

    asks_at, who = "post", "user"

    async def fresh(self, kept: Mapping[str, Json]) -> Mapping[str, Json]:
        ours = {word: self.resolve(self.told[word]) for word in ("user", "password")}
        scope = {"connection": self.told["connection"], **ours}
        headers = {**DEFAULT_HEADERS, "content-type": "application/json"}
        try:
            body = json_body(answered(self.told["json"], scope)).encode()
        except EvaluationError as error:
            raise NoToken(f"the log-in cannot be made out: {error}") from None
        answer = await self.asked(Wire(method="POST", url=self.address, headers=headers, body=body))
        return self.keep({"access_token": self._read(answer, scope), "until": None})

    def _read(self, answer: Answer, scope: Mapping[str, Json]) -> str:
        """Raises NoToken, without what the service says: it may repeat what it was sent."""
        refused = NoToken(f"{self.endpoint} does not let us in ({answer.status})", refusal_reason(answer.status))
        if answer.status != 200:
            raise refused
        try:
            seen = Seen.of(answer, scope=scope, with_text=False, url=self.address, redact=self.tools.redact)
            token = answered(self.told["token"], seen.scope)
        except EvaluationError:
            raise refused from None
        if not isinstance(token, str) or not token:
            raise refused
        if self.told.get("encode"):
            token = base64.b64encode(token.encode()).decode()
        return header_value(token, "the token")

    def headers(self, token: str) -> Mapping[str, str]:
        return {str(self.told["header"]).lower(): str(self.told.get("prefix") or "") + token}
