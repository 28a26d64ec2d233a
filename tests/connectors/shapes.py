"""Answers of vendors that are no success, as their documentation shows them: action, status, body, what it means.

`headers` beside the body are the answer's headers. Every line of `failures` in a file has its answer here.
"""

from __future__ import annotations

from typing import Any

SHAPES: dict[str, list[tuple[str, int, Any, str]]] = {
    "airtable": [
        ("create_record", 422, {"error": {"type": "UNKNOWN_FIELD_NAME", "message": 'Unknown field name: "x"'}}, "invalid"),
        ("create_record", 403, {"error": {"type": "INVALID_PERMISSIONS", "message": "You are not permitted to do this"}}, "forbidden"),
        ("get_record", 404, {"error": "NOT_FOUND"}, "not found"),
        ("delete_record", 404, {"error": "NOT_FOUND"}, "not_found"),
    ],
    "asana": [
        ("create_task", 400, {"errors": [{"message": "workspace: Missing input"}]}, "invalid"),
        ("create_task", 403, {"errors": [{"message": "Forbidden"}]}, "forbidden"),
        ("get_task", 404, {"errors": [{"message": "task: Not a recognized ID: 1"}]}, "not found"),
        ("complete_task", 404, {"errors": [{"message": "task: Not a recognized ID: 1"}]}, "not_found"),
    ],
    "freshdesk": [
        ("create_ticket", 400, {"description": "Validation failed", "errors": [{"field": "status", "message": "It should be one of these values: '2,3,4,5'", "code": "invalid_value"}]}, "invalid"),
    ],
    "freee": [
        ("create_deal", 400, {"status_code": 400, "errors": [{"type": "validation", "messages": ["取引先が存在しません。"]}]}, "invalid"),
        ("create_deal", 403, {"status_code": 403, "errors": [{"type": "status", "messages": ["アクセスする権限がありません"]}]}, "forbidden"),
        ("get_deal", 404, {"status_code": 404, "errors": [{"type": "status", "messages": ["見つかりません"]}]}, "not found"),
    ],
    "google_calendar": [
        ("create_event", 409, {"error": {"code": 409, "message": "The requested identifier already exists.", "errors": [{"reason": "duplicate"}]}}, "already_there"),
        ("create_event", 403, {"error": {"code": 403, "message": "Rate Limit Exceeded", "errors": [{"reason": "rateLimitExceeded"}]}}, "rate_limited"),
        ("create_event", 403, {"error": {"code": 403, "message": "Forbidden", "errors": [{"reason": "forbiddenForNonOrganizer"}]}}, "forbidden"),
        ("create_event", 400, {"error": {"code": 400, "message": "Invalid start time.", "errors": [{"reason": "invalid"}]}}, "invalid"),
        ("cancel_event", 410, {"error": {"code": 410, "message": "Resource has been deleted", "errors": [{"reason": "deleted"}]}}, "not_found"),
        ("get_event", 404, {"error": {"code": 404, "message": "Not Found", "errors": [{"reason": "notFound"}]}}, "not found"),
    ],
    "google_sheets": [
        ("append_row", 400, {"error": {"code": 400, "message": "Unable to parse range: Nowhere", "status": "INVALID_ARGUMENT"}}, "invalid"),
        ("append_row", 403, {"error": {"code": 403, "message": "The caller does not have permission", "status": "PERMISSION_DENIED"}}, "forbidden"),
        ("read_range", 404, {"error": {"code": 404, "message": "Requested entity was not found.", "status": "NOT_FOUND"}}, "not found"),
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
    "jira": [
        ("create_issue", 400, {"errorMessages": ["Field 'priority' is required"], "errors": {}}, "invalid"),
        ("create_issue", 400, {"errorMessages": [], "errors": {"issuetype": "Specify a valid issue type"}}, "invalid"),
        ("get_issue", 404, {"errorMessages": ["Issue does not exist or you do not have permission to see it."], "errors": {}}, "not found"),
    ],
    "kintone": [
        ("update_record", 409, {"code": "GAIA_CO02", "id": "1", "message": "The revision is not the latest."}, "conflict"),
        ("get_record", 404, {"code": "GAIA_RE01", "id": "1", "message": "The specified record is not found."}, "not found"),
        ("create_record", 400, {"code": "CB_VA01", "id": "1", "message": "Missing or invalid input."}, "invalid"),
        ("create_record", 403, {"code": "CB_NO02", "id": "1", "message": "No privilege to proceed."}, "forbidden"),
        ("create_record", 520, {"code": "GAIA_ER01", "id": "1", "message": "Something went wrong."}, "unknown"),
    ],
    "backlog": [
        ("create_issue", 400, {"errors": [{"message": "The Subject must be no shorter than 1 and no longer than 255.", "code": 7, "moreInfo": ""}]}, "invalid"),
        ("create_issue", 403, {"errors": [{"message": "No permission", "code": 11, "moreInfo": ""}]}, "forbidden"),
        ("get_issue", 404, {"errors": [{"message": "No such issue.", "code": 6, "moreInfo": ""}]}, "not found"),
        ("delete_issue", 404, {"errors": [{"message": "No such issue.", "code": 6, "moreInfo": ""}]}, "not_found"),
    ],
    "chatwork": [
        ("post_message", 400, {"errors": ["Parameter 'body' is required"]}, "invalid"),
        ("post_message", 403, {"errors": ["You don't have permission to send messages in this room"]}, "forbidden"),
        ("delete_message", 404, {"errors": ["Not found"]}, "not_found"),
    ],
    "directus": [
        ("create_item", 400, {"errors": [{"message": "Value has to be unique.", "extensions": {"code": "RECORD_NOT_UNIQUE"}}]}, "conflict"),
        ("create_item", 400, {"errors": [{"message": "Validation failed.", "extensions": {"code": "FAILED_VALIDATION"}}]}, "invalid"),
        ("get_item", 403, {"errors": [{"message": "You don't have permission to access this.", "extensions": {"code": "FORBIDDEN"}}]}, "forbidden"),
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
    "mailchimp": [
        ("add_member", 400, {"title": "Member Exists", "status": 400, "detail": "a@example.test is already a list member."}, "conflict"),
        ("add_member", 400, {"title": "Invalid Resource", "status": 400, "detail": "Please provide a valid email address."}, "invalid"),
        ("get_member", 404, {"title": "Resource Not Found", "status": 404, "detail": "The requested resource could not be found."}, "not found"),
    ],
    "notion": [
        ("update_page", 409, {"object": "error", "code": "conflict_error", "message": "The transaction could not be completed."}, "conflict"),
        ("create_page", 400, {"object": "error", "code": "validation_error", "message": "Title is not a property that exists."}, "invalid"),
        ("create_page", 403, {"object": "error", "code": "restricted_resource", "message": "Not permitted."}, "forbidden"),
        ("get_page", 404, {"object": "error", "code": "object_not_found", "message": "Could not find page."}, "not found"),
        ("create_page", 503, {"object": "error", "code": "service_unavailable", "message": "Notion is unavailable."}, "unknown"),
    ],
    "paypal": [
        ("refund", 422, {"name": "UNPROCESSABLE_ENTITY", "message": "The requested action could not be performed.", "details": []}, "invalid"),
        ("refund", 403, {"name": "NOT_AUTHORIZED", "message": "Authorization failed due to insufficient permissions."}, "forbidden"),
        ("get_capture", 404, {"name": "RESOURCE_NOT_FOUND", "message": "The specified resource does not exist."}, "not found"),
        ("capture_order", 200, {"id": "o_1", "status": "PAYER_ACTION_REQUIRED"}, "unknown"),
    ],
    "pipedrive": [
        ("create_deal", 400, {"success": False, "error": "title is required"}, "invalid"),
        ("create_deal", 403, {"success": False, "error": "Couldn't add the deal. Open deals limit reached.", "code": "feature_capping_deals_limit"}, "forbidden"),
        ("get_deal", 404, {"success": False, "error": "Deal not found"}, "not found"),
        ("create_deal", 200, {"success": False, "error": "Requested service is not available"}, "unknown"),
    ],
    "redmine": [
        ("create_issue", 422, {"errors": ["Subject cannot be blank"]}, "invalid"),
    ],
    "salesforce": [
        ("create_record", 403, [{"errorCode": "REQUEST_LIMIT_EXCEEDED", "message": "TotalRequests Limit exceeded."}], "rate_limited"),
        ("create_record", 400, [{"errorCode": "REQUIRED_FIELD_MISSING", "message": "Required fields are missing: [LastName]"}], "invalid"),
        ("update_record", 403, [{"errorCode": "INSUFFICIENT_ACCESS", "message": "insufficient access rights"}], "forbidden"),
        ("get_record", 404, [{"errorCode": "NOT_FOUND", "message": "The requested resource does not exist"}], "not found"),
        ("create_record", 300, ["/services/data/v62.0/sobjects/Account/001", "/services/data/v62.0/sobjects/Account/002"], "redirect?"),
    ],
    "sendgrid": [
        ("send_mail", 400, {"errors": [{"message": "The from email does not contain a valid address.", "field": "from.email"}]}, "invalid"),
        ("resume_batch", 404, {"errors": [{"message": "batch id not found"}]}, "not_found"),
    ],
    "shopify": [
        ("add_tags", 200, {"errors": [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]}, "rate_limited"),
        ("add_tags", 200, {"errors": [{"message": "Access denied for tagsAdd field.", "extensions": {"code": "ACCESS_DENIED"}}]}, "forbidden"),
        ("add_tags", 200, {"data": {"tagsAdd": {"node": None, "userErrors": [{"message": "Product does not exist"}]}}}, "invalid"),
        ("remove_tags", 200, {"data": {"tagsRemove": {"node": None, "userErrors": [{"message": "Product does not exist"}]}}}, "invalid"),
        ("refund", 200, {"data": {"refundCreate": {"refund": None, "userErrors": [{"message": "Order does not exist"}]}}}, "invalid"),
        ("refund", 200, {"errors": [{"message": "Internal error", "extensions": {"code": "INTERNAL_SERVER_ERROR"}}]}, "unreadable?"),
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
    "tryton": [
        ("create_party", 200, {"id": "amends", "error": ["UserError", ["The code on party must be unique.", "", None]]}, "invalid"),
        ("delete_party", 200, {"id": "amends", "error": ["UserWarning", ["party_1", "Really?", ""]]}, "invalid"),
        ("create_party", 200, {"id": "amends", "error": ["'nme'", ""]}, "unreadable?"),
        ("rename_party", 200, {"id": "amends", "error": ["database is locked", ""]}, "unknown"),
        ("get_party", 200, {"id": "amends", "result": []}, "not found"),
    ],
    "twilio": [
        ("send_message", 400, {"code": 21211, "message": "Invalid 'To' Phone Number", "status": 400}, "invalid"),
        ("cancel_message", 409, {"code": 30409, "message": "This message cannot be canceled", "status": 409}, "conflict"),
        ("get_message", 404, {"code": 20404, "message": "The requested resource was not found", "status": 404}, "not found"),
        ("send_message", 500, {"code": 20500, "message": "Internal Server Error", "status": 500}, "unknown"),
    ],
    "zendesk": [
        ("create_ticket", 400, {"error": "IdempotentRequestError", "description": "Request parameters don't match the given idempotency key"}, "unknown"),
        ("create_ticket", 422, {"error": "RecordInvalid", "description": "Record validation errors", "details": {}}, "invalid"),
        ("get_ticket", 404, {"error": "RecordNotFound", "description": "Not found"}, "not found"),
        ("create_ticket", 409, {"error": "Conflict", "description": "in progress"}, "conflict?"),
    ],
    "gmail": [
        ("send_mail", 400, {"error": {"code": 400, "message": "Invalid To header", "errors": [{"reason": "invalidArgument"}]}}, "invalid"),
        ("send_mail", 403, {"error": {"code": 403, "message": "User-rate limit exceeded.", "errors": [{"reason": "userRateLimitExceeded"}]}}, "rate_limited"),
        ("add_label", 403, {"error": {"code": 403, "message": "Insufficient Permission", "errors": [{"reason": "insufficientPermissions"}]}}, "forbidden"),
        ("get_message", 404, {"error": {"code": 404, "message": "Requested entity was not found.", "errors": [{"reason": "notFound"}]}}, "not found"),
        ("delete_draft", 404, {"error": {"code": 404, "message": "Requested entity was not found.", "errors": [{"reason": "notFound"}]}}, "not_found"),
    ],
    "microsoft365": [
        ("send_mail", 400, {"error": {"code": "ErrorInvalidRecipients", "message": "At least one recipient is not valid."}}, "invalid"),
        ("post_message", 403, {"error": {"code": "Forbidden", "message": "Missing scope permissions on the request."}}, "forbidden"),
        ("get_message", 404, {"error": {"code": "ErrorItemNotFound", "message": "The specified object was not found in the store."}}, "not found"),
        ("send_draft", 404, {"error": {"code": "ErrorItemNotFound", "message": "The specified object was not found in the store."}}, "not_found"),
        ("add_row", 409, {"error": {"code": "EditModeCannotAcquireLock", "message": "We're sorry. We couldn't open the workbook in edit mode."}}, "conflict"),
        ("add_row", 423, {"error": {"code": "resourceLocked", "message": "The resource you are attempting to access is locked"}}, "unavailable"),
        ("send_mail", 504, {"error": {"code": "GatewayTimeout", "message": "The request timed out."}}, "unknown"),
    ],
    "money_forward": [
        ("create_invoice", 400, {"errors": [{"message": "billing_date is invalid"}]}, "invalid"),
        ("create_invoice", 403, {"errors": [{"message": "Forbidden"}]}, "forbidden"),
        ("get_invoice", 404, {"errors": [{"message": "Not Found"}]}, "not found"),
        ("post_invoice", 402, {"errors": [{"message": "Payment Required"}]}, "invalid"),
    ],
    "odoo": [
        ("create_record", 422, {"name": "builtins.ValueError", "message": "Invalid field 'x_amends_reference' in 'res.partner'", "arguments": [], "context": {}}, "invalid"),
        ("create_record", 403, {"name": "odoo.exceptions.AccessError", "message": "You are not allowed to create 'Contact' records.", "arguments": [], "context": {}}, "forbidden"),
        ("find_records", 404, {"name": "werkzeug.exceptions.NotFound", "message": "the model 'x.y' does not exist", "arguments": [], "context": {}}, "not found"),
        ("delete_record", 500, {"name": "builtins.RuntimeError", "message": "oh", "arguments": [], "context": {}}, "unknown"),
    ],
}  # fmt: skip
