"""stripe.yaml beside the types that Stripe makes out of its own OpenAPI document (its Python library)."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import stripe
from stripe import params

from tests.connectors.against import load, reads_of

FILE = load("connectors/stripe.yaml")
TYPES: dict[str, tuple[Any, Any]] = {
    "get_customer": (None, stripe.Customer),
    "find_customers": (params.CustomerListParams, stripe.ListObject),
    "create_customer": (params.CustomerCreateParams, stripe.Customer),
    "update_customer": (params.CustomerUpdateParams, stripe.Customer),
    "delete_customer": (None, stripe.Customer),
    "create_invoice": (params.InvoiceCreateParams, stripe.Invoice),
    "add_invoice_line": (params.InvoiceItemCreateParams, stripe.InvoiceItem),
    "delete_invoice_line": (None, stripe.InvoiceItem),
    "finalize_invoice": (params.InvoiceFinalizeInvoiceParams, stripe.Invoice),
    "send_invoice": (params.InvoiceSendInvoiceParams, stripe.Invoice),
    "void_invoice": (params.InvoiceVoidInvoiceParams, stripe.Invoice),
    "delete_draft_invoice": (None, stripe.Invoice),
    "get_payment": (None, stripe.PaymentIntent),
    "attach_payment_method": (params.PaymentMethodAttachParams, stripe.PaymentMethod),
    "detach_payment_method": (params.PaymentMethodDetachParams, stripe.PaymentMethod),
    "take_payment": (params.PaymentIntentCreateParams, stripe.PaymentIntent),
    "refund": (params.RefundCreateParams, stripe.Refund),
}


def test_every_action_is_compared() -> None:
    assert set(TYPES) == set(FILE["actions"])


def fields(kind: Any) -> dict[str, Any]:
    return {name: said for each in kind.__mro__ for name, said in getattr(each, "__annotations__", {}).items()}


@pytest.mark.parametrize("name", list(TYPES))
def test_what_is_sent_and_read_is_in_the_types(name: str) -> None:
    action, (sent, answered) = FILE["actions"][name], TYPES[name]
    body = {**(action["request"].get("form") or {}), **(action["request"].get("query") or {})}
    if sent is not None:
        known = fields(sent)
        assert {field.partition("[")[0] for field in body} <= set(known)
        needed = {field for field, said in known.items() if "NotRequired" not in str(said)} - set(
            fields(stripe.RequestOptions)
        )
        assert needed <= set(body)
    read = reads_of(action.get("output") or {}, action, action.get("result") or {})
    assert {path.removeprefix(".").partition(".")[0].partition("[")[0] for path in read} <= set(fields(answered))


@pytest.mark.parametrize("name", [one for one in TYPES if one != "find_customers"])
def test_method_and_path_are_the_librarys(name: str) -> None:
    request, source = FILE["actions"][name]["request"], inspect.getsource(TYPES[name][1])
    method = next(word for word in ("get", "post", "delete") if word in request)
    path = re.sub(r"\$\{\{.*?\}\}", "{}", request[method])
    paths = {re.sub(r"\{\w+\}", "{}", found) for found in re.findall(r"\"(/v1/[^\"]*)\"", source)}
    if method == "get":
        paths.add(f"/v1/{TYPES[name][1].OBJECT_NAME}s/{{}}")
    if name.startswith("create") or name in ("take_payment", "refund", "add_invoice_line"):
        paths.add(f"/v1/{TYPES[name][1].OBJECT_NAME}s")
    assert path in paths or path == f"/v1/{TYPES[name][1].OBJECT_NAME}s/{{}}"
