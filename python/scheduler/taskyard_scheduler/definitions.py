"""Definitions of tasks and workflows, and variables, of all tenants in memory.

They are small, read with every submission, and changed rarely.
"""

from __future__ import annotations

from collections.abc import Mapping

from taskyard.v1 import tasks_pb2, workflows_pb2
from taskyard_core.records import Row
from taskyard_core.workflow import WorkflowVersion
from taskyard_scheduler.ingress.workflows import compile_stored
from taskyard_scheduler.store.port import Store

_NONE: Mapping[str, tasks_pb2.TaskDefinition] = {}


class Definitions:
    """What `load` read and later calls changed. A change is visible at once; its commit precedes all that uses it."""

    def __init__(self, store: Store, plans: dict[tuple[str, str, int], WorkflowVersion]) -> None:
        """Starts empty.

        Args:
            store: Where older versions of workflows are found.
            plans: The engine's compiled workflows, which this fills.
        """
        self._store = store
        self._tasks: dict[str, dict[str, tasks_pb2.TaskDefinition]] = {}
        self._newest: dict[tuple[str, str], tuple[int, bytes]] = {}  # version and content hash
        self._heads: dict[tuple[str, str], tuple[str, int]] = {}  # source and deleted version
        self._plans = plans
        self._variables: dict[str, dict[str, workflows_pb2.Variable]] = {}
        self.last_number = 0

    async def load(self) -> None:
        """Reads all task definitions and variables, the newest version of each workflow, and which are deleted."""
        for row in await self._store.load_task_definitions():
            self.put_task(row[0], tasks_pb2.TaskDefinition.FromString(row[3]))
        for row in await self._store.load_workflows():
            self.take_workflow(row)
        for row in await self._store.load_workflow_heads():
            self.put_head(row)
        for tenant, _, variable, _ in await self._store.load_variables():
            self.put_variable(tenant, workflows_pb2.Variable.FromString(variable))

    def tasks(self, tenant: str) -> Mapping[str, tasks_pb2.TaskDefinition]:
        """Returns a tenant's task definitions by name."""
        return self._tasks.get(tenant, _NONE)

    def put_task(self, tenant: str, definition: tasks_pb2.TaskDefinition) -> None:
        """Adds or replaces a task definition."""
        self._tasks.setdefault(tenant, {})[definition.name] = definition
        self.last_number = max(self.last_number, definition.number)

    def drop_task(self, tenant: str, name: str) -> None:
        """Removes a task definition."""
        del self._tasks[tenant][name]

    def variables(self, tenant: str) -> Mapping[str, workflows_pb2.Variable]:
        """Returns a tenant's variables by name."""
        return self._variables.get(tenant, {})

    def put_variable(self, tenant: str, variable: workflows_pb2.Variable) -> None:
        """Sets a variable."""
        self._variables.setdefault(tenant, {})[variable.name] = variable

    def drop_variable(self, tenant: str, name: str) -> None:
        """Removes a variable."""
        del self._variables[tenant][name]

    def take_workflow(self, row: Row, compiled: WorkflowVersion | None = None) -> WorkflowVersion:
        """Keeps a version, compiled by the caller or here; it becomes the newest if it is."""
        tenant, name, version, stored, digest, _ = row
        plan = self._plans.get((tenant, name, version)) or compiled
        if plan is None:
            plan = compile_stored(tenant, workflows_pb2.Workflow.FromString(stored))
        self._plans[tenant, name, version] = plan
        if version > self.newest(tenant, name)[0]:
            self._newest[tenant, name] = (version, digest)
        return plan

    def newest(self, tenant: str, name: str) -> tuple[int, bytes]:
        """Returns version and content hash of the newest version; version 0 when there is none."""
        return self._newest.get((tenant, name), (0, b""))

    def put_head(self, row: Row) -> None:
        """Keeps what is said of a workflow over its versions: WORKFLOW_HEAD_COLUMNS."""
        self._heads[row[0], row[1]] = (row[2], row[3])

    def head(self, tenant: str, name: str) -> tuple[str, int]:
        """Returns the set that a workflow belongs to ("": none) and up to which version it is deleted (0: none)."""
        return self._heads.get((tenant, name), ("", 0))

    def is_deleted(self, tenant: str, name: str) -> bool:
        """Tells whether a workflow was deleted and not applied again."""
        newest = self.newest(tenant, name)[0]
        return 0 < newest <= self.head(tenant, name)[1]

    def find(self, tenant: str, name: str, version: int) -> WorkflowVersion | None:
        """Returns a version that is in memory; 0 for the newest."""
        return self._plans.get((tenant, name, version or self.newest(tenant, name)[0]))

    async def fetch(self, tenant: str, name: str, version: int) -> WorkflowVersion | None:
        """Returns a version, read from the store if need be; 0 for the newest."""
        plan = self.find(tenant, name, version)
        if plan is not None or version == 0:
            return plan
        row = await self._store.get_workflow(tenant, name, version)
        return None if row is None else self.take_workflow(row)
