"""What a monitor asks: `GET /metrics`, in the text form of Prometheus, with a token that may see."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from runner.web.console import console_of
from runner.web.guard import ApiSees

ROUTES = APIRouter()
DASHBOARD = Path(__file__).parent / "pages" / "grafana.json"


@ROUTES.get("/metrics", include_in_schema=False)
def metrics(request: Request, _caller: ApiSees) -> Response:
    """The figures."""
    return Response(generate_latest(console_of(request).metrics.registry), media_type=CONTENT_TYPE_LATEST)


@ROUTES.get("/metrics/grafana.json", include_in_schema=False)
def dashboard(_caller: ApiSees) -> FileResponse:
    """A dashboard to import into Grafana."""
    return FileResponse(DASHBOARD, media_type="application/json")
