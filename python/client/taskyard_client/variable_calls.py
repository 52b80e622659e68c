"""The calls about variables, which the workflows of a tenant share."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

from taskyard.v1 import workflows_pb2 as pb
from taskyard_client import methods
from taskyard_client.errors import InvalidInput, Violation
from taskyard_client.session import Session, page_size_for, pages


class VariableCalls:
    """Calls of WorkflowService on variables.

    Args:
        session: The client's state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    async def set_variable(self, name: str, value: Any, description: str = "") -> pb.Variable:
        """Sets a variable, which templates of workflows read as `${vars.name}`; runs that exist keep the old value.

        Args:
            name: 1 to 128 letters, digits, `_`, `-`, `.`.
            value: What `json` can write, at most 64 KiB; no NaN, no infinity.
            description: For people.

        Raises:
            InvalidInput: It breaks a rule.
        """
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError) as error:
            say = f"cannot be written as JSON: {error}"
            raise InvalidInput(say, [Violation("value", say)]) from error
        variable = pb.Variable(name=name, value_json=text, description=description)
        request = pb.SetVariableRequest(request_id=self._session.request_ids.one(), variable=variable)
        return (await self._session.caller.call(methods.SET_VARIABLE, request)).variable

    async def get_variable(self, name: str) -> pb.Variable:
        """Reads a variable; its value is `json.loads(variable.value_json)`.

        Raises:
            NotFound: There is none of that name.
        """
        request = pb.GetVariableRequest(name=name)
        return (await self._session.caller.call(methods.GET_VARIABLE, request)).variable

    def list_variables(
        self, *, filter: str = "", page_size: int = 100, limit: int | None = None
    ) -> AsyncGenerator[pb.Variable, None]:
        """Yields variables by name.

        Args:
            filter: Which ones, for example `name == "region"`. Empty: all.
            page_size: How many are asked for at once. Range: 1 to 1,000.
            limit: Most in all. None: no limit.
        """
        request = pb.ListVariablesRequest(page_size=page_size_for(page_size, limit), filter=filter)
        return pages(self._session, methods.LIST_VARIABLES, request, lambda page: page.variables, limit)

    async def delete_variable(self, name: str) -> None:
        """Deletes a variable. Runs that exist keep its value; starts of workflows that read it are refused.

        Raises:
            NotFound: There is none of that name.
        """
        request = pb.DeleteVariableRequest(request_id=self._session.request_ids.one(), name=name)
        await self._session.caller.call(methods.DELETE_VARIABLE, request)
