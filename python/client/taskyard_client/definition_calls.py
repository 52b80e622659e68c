"""The calls about task definitions: what a kind of task is, by name."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskyard.v1 import tasks_pb2 as pb
from taskyard_client import methods
from taskyard_client.session import Session, page_size_for, pages


class DefinitionCalls:
    """Calls of TaskService about definitions.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def create_definition(self, definition: pb.TaskDefinition) -> pb.TaskDefinition:
        """Creates a task definition and returns it as stored.

        Raises:
            AlreadyExists: The name is taken.
        """
        request = pb.CreateTaskDefinitionRequest(request_id=self._session.request_ids.one(), definition=definition)
        return (await self._session.caller.call(methods.CREATE_TASK_DEFINITION, request)).definition

    async def get_definition(self, name: str) -> pb.TaskDefinition:
        """Reads a task definition.

        Raises:
            NotFound: There is none of that name.
        """
        request = pb.GetTaskDefinitionRequest(name=name)
        return (await self._session.caller.call(methods.GET_TASK_DEFINITION, request)).definition

    def list_definitions(
        self, *, filter: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[pb.TaskDefinition, None]:
        """Yields task definitions by name; the arguments are those of `list_tasks`."""
        request = pb.ListTaskDefinitionsRequest(page_size=page_size_for(page_size, limit), filter=filter)
        return pages(self._session, methods.LIST_TASK_DEFINITIONS, request, lambda page: page.definitions, limit)

    async def update_definition(self, definition: pb.TaskDefinition) -> pb.TaskDefinition:
        """Replaces a task definition and returns it as stored.

        Raises:
            NotFound: There is none of that name.
        """
        request = pb.UpdateTaskDefinitionRequest(request_id=self._session.request_ids.one(), definition=definition)
        return (await self._session.caller.call(methods.UPDATE_TASK_DEFINITION, request)).definition

    async def delete_definition(self, name: str) -> None:
        """Deletes a task definition; its instances go on.

        Raises:
            NotFound: There is none of that name.
        """
        request = pb.DeleteTaskDefinitionRequest(request_id=self._session.request_ids.one(), name=name)
        await self._session.caller.call(methods.DELETE_TASK_DEFINITION, request)
