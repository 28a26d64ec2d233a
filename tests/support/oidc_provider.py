"""A real provider of sign-ins (oidc-provider-mock) in its own process, with an attacker in front of it.

    python -m tests.support.oidc_provider      says its port on the first line, ends with its standard input;
                                               --oauth2: refresh tokens, and no nonce asked for

In front of it stands what a test plants: PUT /planted {"claims": {…}, "alg": …, …} changes every id token from then on.
It signs them anew with keys of its own, which stand at /jwks in the place of the provider's; `{"rotate": true}` changes
them. It holds clients to PKCE and to one use of each code, whatever the provider does.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import oidc_provider_mock  # type: ignore[import-untyped]
import werkzeug.serving
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Attacker:
    """Passes requests on, and changes what comes back as it was told."""

    def __init__(self, app: App, *, is_oauth2: bool = False) -> None:
        self.app = app
        self.is_oauth2 = is_oauth2
        self.planted: dict[str, Any] = {}
        self.keys = [RSAKey.generate_key(2048, auto_kid=True)]
        self.challenges: dict[str, str] = {}
        self.asked: list[str] = []

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        self.asked.append(path)
        size = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(size)
        environ["wsgi.input"] = io.BytesIO(body)
        if path == "/planted":
            self._plant(json.loads(body))
            return self._says(start, {})
        if path == "/asked":
            return self._says(start, self.asked)
        if path == "/jwks":
            return self._says(start, KeySet(list(self.keys)).as_dict())
        if self.planted.get("down") == path:
            start("503 Service Unavailable", [("content-type", "text/plain")])
            return [b"down"]
        if (
            path == "/oauth2/token"
            and not (self.is_oauth2 and b"refresh_token" in body)
            and not self._is_proved(body.decode())
        ):
            return self._says(start, {"error": "invalid_grant"}, "400 Bad Request")
        status, headers, answer = self._pass_on(environ)
        if path == "/oauth2/authorize" and method == "POST" and status.startswith("302"):
            query = parse_qs(urlsplit(dict(headers)["Location"]).query)
            asked = parse_qs(environ["QUERY_STRING"])
            if asked.get("code_challenge_method") == ["S256"]:
                self.challenges[query["code"][0]] = asked["code_challenge"][0]
        if path == "/oauth2/token" and status.startswith("200"):
            told = json.loads(answer)
            if "id_token" in told:
                told["id_token"] = self._signed(told["id_token"])
            told |= self.planted.get("tokens", {})
            return self._says(start, told)
        if path in ("/.well-known/openid-configuration", "/userinfo") and status.startswith("200"):
            more = self.planted.get("about" if path.startswith("/.") else "userinfo", {})
            return self._says(start, {**json.loads(answer), **more})
        start(status, headers)
        return [answer]

    def _plant(self, told: dict[str, Any]) -> None:
        self.planted = told
        if told.get("rotate"):
            self.keys = [RSAKey.generate_key(2048, auto_kid=True)]

    def _is_proved(self, body: str) -> bool:
        """The verifier belongs to the challenge that the code was given for; each code counts once."""
        given = {name: values[0] for name, values in parse_qs(body).items()}
        wanted = self.challenges.pop(given.get("code", ""), None)
        made = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        return wanted == base64.urlsafe_b64encode(made).decode().rstrip("=")

    def _pass_on(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        began: list[Any] = []
        answer = b"".join(self.app(environ, lambda status, headers, *_: began.extend((status, headers))))
        return began[0], began[1], answer

    def _signed(self, token: str) -> str:
        """The id token as it was planted: other claims, another key, another algorithm."""
        _head, body, _signature = token.split(".")
        claims = {**json.loads(_decoded(body)), **self.planted.get("claims", {})}
        claims = {name: value for name, value in claims.items() if value is not None}
        alg, key = self.planted.get("alg", "RS256"), self.keys[0]
        header = {"alg": alg, "kid": key.kid, **self.planted.get("header", {})}
        if alg == "none":
            return f"{_coded(json.dumps(header))}.{_coded(json.dumps(claims))}."
        if alg == "HS256":
            secret = OctKey.import_key(self.planted["hmac"])
            return jwt.encode({"alg": alg, "kid": key.kid}, claims, secret, algorithms=["HS256"])
        if self.planted.get("stranger"):
            key = RSAKey.generate_key(2048)
            if "jwk" in header:
                header["jwk"] = key.as_dict(private=False)
        return jwt.encode(header, claims, key)

    def _says(self, start: Callable[..., Any], told: Any, status: str = "200 OK") -> Iterable[bytes]:
        start(status, [("content-type", "application/json")])
        return [json.dumps(told).encode()]


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def main() -> None:
    is_oauth2 = "--oauth2" in sys.argv
    app = oidc_provider_mock.app(require_nonce=not is_oauth2, issue_refresh_token=is_oauth2)
    attacker = Attacker(app.wsgi_app, is_oauth2=is_oauth2)
    server = werkzeug.serving.make_server("127.0.0.1", 0, attacker, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
