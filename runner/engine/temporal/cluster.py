"""A Temporal cluster as amends.yaml names it: how it is reached, what is set up there, how its errors are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeWorkerDeploymentRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import Client
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from runner.engine.temporal.workflow import FLOW, STATUS
from runner.errors import NotPossible, SettingsError
from runner.language.settings import Cluster

log = logging.getLogger("amends.engine")
ATTRIBUTES = (FLOW.name, STATUS.name)
PASSING = frozenset(
    {
        RPCStatusCode.CANCELLED, RPCStatusCode.UNKNOWN, RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.ABORTED, RPCStatusCode.INTERNAL, RPCStatusCode.UNAVAILABLE,
    }
)  # fmt: skip
"""What a cluster says that is just coming up, or has too much to do."""
PATIENCE = 10.0
"""Seconds that the cluster may take to answer at the start."""


async def connect(
    cluster: Cluster, folder: Path, secret: Callable[[str], str], *, patience: float = PATIENCE
) -> Client:
    """A client of the cluster, which gets `patience` seconds to answer. Raises NotPossible where it cannot be reached
    or used, SettingsError, SecretMissing."""
    place = f"the Temporal cluster at {cluster.address} (amends.yaml, engine)"
    key = secret(cluster.api_key) if cluster.api_key else None
    tls = _tls(cluster, folder, secret)
    try:
        async with asyncio.timeout(patience):
            client = await Client.connect(
                cluster.address, namespace=cluster.namespace, api_key=key, tls=tls, runtime=_runtime()
            )
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=cluster.namespace))
    except RPCError as error:
        raise NotPossible(_refused(error, place, cluster)) from None
    except (RuntimeError, TimeoutError):
        way = "start it, or correct the address" if tls is None else "look at its address and at tls"
        raise NotPossible(f"{place} cannot be reached; {way}") from None
    return client


@cache
def _runtime() -> Runtime:
    """The library's threads. Of itself it writes a line for each of its retries to standard error, past our log."""
    return Runtime(telemetry=TelemetryConfig(logging=None))


def _refused(error: RPCError, place: str, cluster: Cluster) -> str:
    if error.status is RPCStatusCode.NOT_FOUND:
        return (
            f'{place} has no namespace "{cluster.namespace}"; make it with '
            f"`temporal operator namespace create {cluster.namespace}`, or correct the name"
        )
    if error.status in (RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.PERMISSION_DENIED):
        return f"{place} does not let us in; look at api_key and tls"
    return f"{place} answers {error.status.name}; look at its log"


def _tls(cluster: Cluster, folder: Path, secret: Callable[[str], str]) -> bool | TLSConfig | None:
    if not cluster.tls:
        return None if cluster.tls is None else True
    try:
        read = {word: (folder / cluster.tls[word]).read_bytes() for word in ("ca", "cert") if word in cluster.tls}
    except OSError as error:
        raise SettingsError(f"amends.yaml: the file {error.filename} that engine: tls names cannot be read") from None
    if ("cert" in cluster.tls) != ("key" in cluster.tls):
        raise SettingsError("amends.yaml: engine: tls has cert or key alone; our certificate needs both, or neither")
    key = secret(cluster.tls["key"]).encode() if "key" in cluster.tls else None
    return TLSConfig(
        server_root_ca_cert=read.get("ca"), client_cert=read.get("cert"), client_private_key=key,
        domain=cluster.tls.get("name"),
    )  # fmt: skip


async def shows_attributes(client: Client) -> bool | None:
    """Whether runs can be found by flow and status; the attributes are made where we may. None: it does not answer."""
    namespace = client.namespace
    try:
        found = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=namespace))
        missing = [name for name in ATTRIBUTES if name not in found.custom_attributes]
        if missing:
            word = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(namespace=namespace, search_attributes=dict.fromkeys(missing, word))
            )
    except RPCError as error:
        if error.status in PASSING:
            return None
        log.warning(
            "runs cannot be found by %s in Temporal (%s); make these search attributes, of type Keyword, in the "
            "namespace %s", " and ".join(ATTRIBUTES), error.status.name, namespace,
        )  # fmt: skip
        return False
    return True


async def make_current(client: Client, deployment: str, build: str, *, lasts: bool = True) -> bool:
    """From now on new work goes to this version of the workers, unless a newer one has it already; or, where this one
    does not last, any other. Answers whether all is said; else it is to be asked again. Raises RPCError."""
    told = DescribeWorkerDeploymentRequest(namespace=client.namespace, deployment_name=deployment)
    try:
        found = await client.workflow_service.describe_worker_deployment(told)
        current = found.worker_deployment_info.routing_config.current_deployment_version.build_id
        if current == build:
            return True
        if current and not (lasts and is_newer(build, current)):
            log.warning("Temporal gives its work to version %s of the workers; this is %s", current, build)
            return True
        await client.workflow_service.set_worker_deployment_current_version(
            SetWorkerDeploymentCurrentVersionRequest(
                namespace=client.namespace, deployment_name=deployment, build_id=build,
                conflict_token=found.conflict_token,
            )
        )  # fmt: skip
        if current:
            log.info("version %s of the workers has the work now, after %s", build, current)
    except RPCError as error:
        if error.status in (RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.PERMISSION_DENIED):
            log.warning("the version of the workers cannot be made known to Temporal: %s", error.status.name)
            return True
        if error.status is not RPCStatusCode.NOT_FOUND:  # this worker has not asked for work yet
            raise
        return False
    return True


def is_newer(build: str, current: str) -> bool:
    """Versions as text, `0.9.1-2`: their numbers count, in order."""
    mine, theirs = (
        [int(part) for part in text.replace("-", ".").split(".") if part.isdigit()] for text in (build, current)
    )
    return mine > theirs
