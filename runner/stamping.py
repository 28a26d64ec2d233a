"""Time-stamps of a time-stamping authority (RFC 3161). The home of rfc3161-client; loaded by name."""

from __future__ import annotations

import httpx
from cryptography.x509 import load_pem_x509_certificates
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)

from runner.guard import Guard, watched

PATIENCE = 20.0
"""Seconds that the authority may take."""


async def stamp(address: str, data: bytes) -> bytes:
    """The authority's answer for this data, as it came. Raises OSError, with a sentence, for whatever is no stamp."""
    asked = TimestampRequestBuilder().data(data).hash_algorithm(HashAlgorithm.SHA256).build()
    try:
        with watched(Guard(allow_private=True)):
            async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
                answer = await client.post(
                    address, content=asked.as_bytes(), headers={"content-type": "application/timestamp-query"}
                )
        told = decode_timestamp_response(answer.raise_for_status().content)
        if told.tst_info.message_imprint.message != asked.message_imprint.message or told.tst_info.nonce != asked.nonce:
            raise ValueError("its answer is about something else")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError) as error:
        raise OSError(f"{address} gave no time-stamp: {str(error) or type(error).__name__}") from None
    return answer.content


def why_unstamped(stamped: bytes, data: bytes, roots: bytes) -> str:
    """Empty where this is a stamp for the data under one of these root certificates (PEM), else what is wrong."""
    try:
        builder = VerifierBuilder()
        for certificate in load_pem_x509_certificates(roots):
            builder = builder.add_root_certificate(certificate)
        builder.build().verify_message(decode_timestamp_response(stamped), data)
    except (VerificationError, ValueError, TypeError) as error:
        return str(error) or type(error).__name__
    return ""
