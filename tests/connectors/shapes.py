"""Answers of vendors that are no success, as their documentation shows them: action, status, body, what it means.

`headers` beside the body are the answer's headers. Every line of `failures` in a file has its answer here.
"""

from __future__ import annotations

from typing import Any

SHAPES: dict[str, list[tuple[str, int, Any, str]]] = {
    "asana": [
        ("create_task", 400, {"errors": [{"message": "workspace: Missing input"}]}, "invalid"),
        ("create_task", 403, {"errors": [{"message": "Forbidden"}]}, "forbidden"),
        ("get_task", 404, {"errors": [{"message": "task: Not a recognized ID: 1"}]}, "not found"),
        ("complete_task", 404, {"errors": [{"message": "task: Not a recognized ID: 1"}]}, "not_found"),
    ],
    "github": [
        ("create_issue", 403, {"message": "API rate limit exceeded", "headers": {"x_ratelimit_remaining": "0"}}, "rate_limited"),
        ("comment", 403, {"message": "You have exceeded a secondary rate limit. Please wait."}, "rate_limited"),
        ("comment", 403, {"message": "Resource not accessible by personal access token"}, "forbidden"),
        ("create_issue", 422, {"message": "Validation Failed", "errors": []}, "invalid"),
        ("create_issue", 410, {"message": "Issues are disabled for this repo"}, "not_found"),
        ("get_issue", 404, {"message": "Not Found"}, "not found"),
    ],
    "hubspot": [
        ("create_contact", 409, {"status": "error", "category": "CONFLICT", "message": "Contact already exists. Existing ID: 12"}, "conflict"),
        ("create_contact", 400, {"status": "error", "category": "VALIDATION_ERROR", "message": "Property values were not valid"}, "invalid"),
        ("get_contact", 404, {"status": "error", "category": "OBJECT_NOT_FOUND", "message": "Object not found"}, "not found"),
        ("update_contact", 404, {"status": "error", "category": "OBJECT_NOT_FOUND", "message": "Object not found"}, "not_found"),
        ("create_record", 207, {"status": "COMPLETE", "results": [], "numErrors": 1, "errors": [{"category": "VALIDATION_ERROR", "message": "bad"}]}, "invalid"),
        ("create_record", 207, {"status": "COMPLETE", "results": [], "numErrors": 1, "errors": [{"category": "SOMETHING", "message": "bad"}]}, "unknown"),
    ],
    "kintone": [
        ("update_record", 409, {"code": "GAIA_CO02", "id": "1", "message": "The revision is not the latest."}, "conflict"),
        ("get_record", 404, {"code": "GAIA_RE01", "id": "1", "message": "The specified record is not found."}, "not found"),
        ("create_record", 400, {"code": "CB_VA01", "id": "1", "message": "Missing or invalid input."}, "invalid"),
        ("create_record", 403, {"code": "CB_NO02", "id": "1", "message": "No privilege to proceed."}, "forbidden"),
        ("create_record", 520, {"code": "GAIA_ER01", "id": "1", "message": "Something went wrong."}, "unknown"),
    ],
    "stripe": [
        ("refund", 409, {"error": {"code": "idempotency_key_in_use", "type": "invalid_request_error", "message": "in use"}}, "in_progress"),
        ("refund", 400, {"error": {"type": "idempotency_error", "message": "Keys can only be used with the same parameters"}}, "unknown"),
        ("take_payment", 402, {"error": {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}}, "invalid"),
        ("refund", 404, {"error": {"type": "invalid_request_error", "code": "resource_missing", "message": "No such payment"}}, "not_found"),
        ("take_payment", 200, {"id": "pi_1", "status": "requires_action"}, "unknown"),
    ],
}  # fmt: skip
