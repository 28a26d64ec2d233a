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
    "discord": [
        ("send_message", 400, {"code": 50006, "message": "Cannot send an empty message"}, "invalid"),
        ("send_message", 403, {"code": 50001, "message": "Missing Access"}, "forbidden"),
        ("get_message", 404, {"code": 10008, "message": "Unknown Message"}, "not found"),
        ("delete_message", 404, {"code": 10008, "message": "Unknown Message"}, "not_found"),
    ],
    "line": [
        ("push", 400, {"message": "The request body has 1 error(s)"}, "invalid"),
        ("push", 403, {"message": "Access to this API is not available for your account"}, "forbidden"),
        ("get_profile", 404, {"message": "Not found"}, "not found"),
        ("push", 409, {"message": "The retry key is already accepted", "sentMessages": [{"id": "461230966842064897"}], "headers": {"x_line_accepted_request_id": "1"}}, "done"),
        ("broadcast", 409, {"message": "The retry key is already accepted", "headers": {"x_line_accepted_request_id": "1"}}, "done"),
        ("push", 409, {"message": "Something else"}, "conflict?"),
    ],
    "sendgrid": [
        ("send_mail", 400, {"errors": [{"message": "The from email does not contain a valid address.", "field": "from.email"}]}, "invalid"),
        ("resume_batch", 404, {"errors": [{"message": "batch id not found"}]}, "not_found"),
    ],
    "slack": [
        ("post_message", 200, {"ok": False, "error": "ratelimited"}, "rate_limited"),
        ("post_message", 200, {"ok": False, "error": "channel_not_found"}, "not_found"),
        ("find_user", 200, {"ok": False, "error": "users_not_found"}, "not found"),
        ("post_message", 200, {"ok": False, "error": "not_in_channel"}, "forbidden"),
        ("post_message", 200, {"ok": False, "error": "msg_too_long"}, "invalid"),
        ("post_message", 200, {"ok": False, "error": "fatal_error"}, "unknown"),
        ("delete_message", 200, {"ok": False, "error": "internal_error"}, "unknown"),
    ],
    "square": [
        ("refund", 400, {"errors": [{"category": "INVALID_REQUEST_ERROR", "code": "IDEMPOTENCY_KEY_REUSED", "detail": "Different request parameters used for the same idempotency_key."}]}, "unknown"),
        ("take_payment", 402, {"errors": [{"category": "PAYMENT_METHOD_ERROR", "code": "CARD_DECLINED", "detail": "Card declined."}]}, "invalid"),
        ("get_payment", 404, {"errors": [{"category": "INVALID_REQUEST_ERROR", "code": "NOT_FOUND", "detail": "Not found."}]}, "not found"),
        ("take_payment", 200, {"payment": {"id": "p_1", "status": "APPROVED"}}, "unknown"),
    ],
    "stripe": [
        ("refund", 409, {"error": {"code": "idempotency_key_in_use", "type": "invalid_request_error", "message": "in use"}}, "in_progress"),
        ("refund", 400, {"error": {"type": "idempotency_error", "message": "Keys can only be used with the same parameters"}}, "unknown"),
        ("take_payment", 402, {"error": {"type": "card_error", "code": "card_declined", "message": "Your card was declined."}}, "invalid"),
        ("refund", 404, {"error": {"type": "invalid_request_error", "code": "resource_missing", "message": "No such payment"}}, "not_found"),
        ("take_payment", 200, {"id": "pi_1", "status": "requires_action"}, "unknown"),
    ],
    "twilio": [
        ("send_message", 400, {"code": 21211, "message": "Invalid 'To' Phone Number", "status": 400}, "invalid"),
        ("cancel_message", 409, {"code": 30409, "message": "This message cannot be canceled", "status": 409}, "conflict"),
        ("get_message", 404, {"code": 20404, "message": "The requested resource was not found", "status": 404}, "not found"),
        ("send_message", 500, {"code": 20500, "message": "Internal Server Error", "status": 500}, "unknown"),
    ],
}  # fmt: skip
