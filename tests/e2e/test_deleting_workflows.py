"""Workflows are deleted: nothing that ran is lost by it, nothing that runs is touched, and they can come back."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from e2e.refusals import refused
from e2e.site import Site
from e2e.test_golden_path import step
from taskyard.v1 import workflows_pb2 as pb
from taskyard_client import InvalidInput, NotFound, PermissionDenied, WrongState, new_run
from taskyard_service.identity import Role


def one(name: str, number: int = 1) -> pb.Workflow:
    return pb.Workflow(name=name, steps=[step("a", "double", input={"number": number})])


async def names(site: Site, filter: str = "") -> list[str]:
    return [each.name async for each in site.client().list_workflows(filter=filter)]


async def test_a_deleted_workflow_starts_no_runs_and_is_listed_no_more(shared_site: Site) -> None:
    client = shared_site.client()
    await client.apply_workflow(one("gone"))
    await client.apply_workflow(one("gone", 2))
    assert await client.delete_workflow("gone") == 2
    assert "gone" not in await names(shared_site)
    for version in (0, 1, 2):
        with pytest.raises((NotFound, InvalidInput), match="there is no workflow"):
            await client.start_run("gone", version=version)
    with pytest.raises(NotFound, match="there is no workflow 'gone'"):
        await client.get_workflow("gone")
    with pytest.raises(NotFound, match="there is no workflow 'gone'"):
        await client.delete_workflow("gone")
    with pytest.raises(NotFound, match="there is no workflow 'never-was'"):
        await client.delete_workflow("never-was")
    assert (await client.get_workflow("gone", 1)).version == 1, "its runs refer to it"


async def test_ended_runs_of_it_are_read_listed_and_run_again(shared_site: Site) -> None:
    client = shared_site.client()
    await client.apply_workflow(one("kept"))
    run = await client.start_run("kept")
    await run.wait(60)
    await client.delete_workflow("kept")
    found = await client.get_run(run.id)
    assert (found.run.workflow, found.run.version, [each.step_id for each in found.steps]) == ("kept", 1, ["a"])
    assert [each.run_id async for each in client.list_runs(filter='workflow == "kept"')] == [run.id]
    await client.retry_run(run.id, ["a"])
    assert (await run.wait(60)).state == pb.RunState.RUN_STATE_SUCCEEDED


async def test_it_is_not_deleted_while_runs_of_it_have_not_ended(shared_site: Site) -> None:
    client = shared_site.client()
    await client.apply_workflow(one("used"))
    later = datetime.now(UTC) + timedelta(hours=1)
    runs = [await client.start_run("used", schedule_time=later) for _ in range(2)]
    with pytest.raises(WrongState, match="2 runs of it have not ended; wait") as raised:
        await client.delete_workflow("used")
    for command in ("taskyard runs", "taskyard cancel --runs"):
        [named] = re.findall(rf"`{command} --filter '([^']+)'`", str(raised.value))
        assert {each.run_id async for each in client.list_runs(filter=named)} == {run.id for run in runs}
    assert (raised.value.reason, raised.value.facts["runs"]) == ("IN_USE", "2")
    assert "used" in await names(shared_site)
    for run in runs:
        await run.cancel()
    await client.delete_workflow("used")


async def test_applied_again_it_goes_on_with_the_next_version(shared_site: Site) -> None:
    client = shared_site.client()
    await client.apply_workflow(one("again"))
    await client.delete_workflow("again")
    looked = await client.check_workflow(one("again"))
    assert (looked.changed, looked.workflow.version) == (True, 2)
    stored = await client.apply_workflow(one("again"))
    assert (stored.changed, stored.workflow.version) == (True, 2), "the same content, and yet it is new"
    assert not (await client.apply_workflow(one("again"))).changed
    await (await client.start_run("again")).wait(60)
    with pytest.raises((NotFound, InvalidInput)):
        await client.start_run("again", version=1)


async def test_it_stays_deleted_under_the_next_leader(any_site: Site) -> None:
    site = any_site
    scheduler = await site.start_scheduler()
    await site.start_worker()
    client = site.client()
    await client.apply_workflow(one("gone"), source="team")
    await client.apply_workflow(one("stays"), source="team")
    run = await client.start_run("gone")
    await run.wait(60)
    await client.delete_workflow("gone")
    scheduler.kill()
    await site.start_scheduler("next")
    assert await names(site, 'source == "team"') == ["stays"]
    with pytest.raises(NotFound):
        await client.get_workflow("gone")
    await client.retry_run(run.id, ["a"])
    assert (await run.wait(60)).state == pb.RunState.RUN_STATE_SUCCEEDED
    assert (await client.apply_workflow(one("gone"))).workflow.version == 2
    assert await names(site, 'source == "team"') == ["gone", "stays"], "it is in its set again"


async def test_a_set_is_kept_until_another_is_named_and_makes_no_version(shared_site: Site) -> None:
    client = shared_site.client()
    assert (await client.apply_workflow(one("set"), source="one")).workflow.source == "one"
    same = await client.apply_workflow(one("set"))
    assert (same.changed, same.workflow.version, same.workflow.source) == (False, 1, "one")
    moved = await client.apply_workflow(one("set"), source="two")
    assert (moved.changed, moved.workflow.version, moved.workflow.source) == (False, 1, "two")
    newer = await client.apply_workflow(one("set", 2))
    assert (newer.workflow.version, newer.workflow.source) == (2, "two")
    assert (await client.get_workflow("set")).source == "two"
    assert await names(shared_site, 'source == "two"') == ["set"]
    assert await names(shared_site, 'source == "one"') == []
    sent = pb.Workflow(source="three")
    sent.MergeFrom(one("set", 2))
    assert (await client.apply_workflow(sent)).workflow.source == "two", (
        "it is given with the call, not in the workflow"
    )
    with pytest.raises(InvalidInput, match="source"):
        await client.apply_workflow(one("set"), source="a\nb")


async def test_a_repeat_of_a_deletion_is_answered_as_the_first(shared_site: Site) -> None:
    client, door = shared_site.client(), shared_site.door(shared_site.token())
    await client.apply_workflow(one("twice"))
    request = pb.DeleteWorkflowRequest(request_id="once", name="twice")
    first = await door.workflows.DeleteWorkflow(request, metadata=door.metadata)
    assert await door.workflows.DeleteWorkflow(request, metadata=door.metadata) == first
    await client.apply_workflow(one("twice"))
    assert await door.workflows.DeleteWorkflow(request, metadata=door.metadata) == first
    assert "twice" in await names(shared_site), "the repeat deleted nothing"
    other = pb.DeleteWorkflowRequest(request_id="once", name="other")
    answer = await refused(door.workflows.DeleteWorkflow(other, metadata=door.metadata))
    assert (answer.code, answer.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REQUEST_ID_REUSED")


async def test_a_repeat_of_a_start_is_answered_as_the_first_after_a_deletion(shared_site: Site) -> None:
    client = shared_site.client()
    await client.apply_workflow(one("repeated"))
    run = await client.start_run("repeated", request_id="a start of it", idempotency_key="its key")
    await run.wait(60)
    await client.delete_workflow("repeated")
    for again in ({"request_id": "a start of it", "idempotency_key": "its key"}, {"idempotency_key": "its key"}):
        repeat = await client.start_run("repeated", **again)  # type: ignore[arg-type]  # both are texts
        assert (repeat.id, repeat.repeated) == (run.id, True)
    with pytest.raises(NotFound, match="it was deleted; apply it again"):
        await client.start_run("repeated")
    [looked] = await client.check_runs([new_run("repeated", idempotency_key="its key")])
    assert isinstance(looked.error, NotFound)
    await client.apply_workflow(one("repeated"))
    with pytest.raises(NotFound, match="has no version 1: it was deleted; 0 means its newest, 2"):
        await client.start_run("repeated", version=1)


async def test_a_viewer_and_another_tenant_delete_nothing(shared_site: Site) -> None:
    await shared_site.client().apply_workflow(one("guarded"))
    with pytest.raises(PermissionDenied):
        await shared_site.client(Role.VIEWER).delete_workflow("guarded")
    with pytest.raises(NotFound):
        await shared_site.client(tenant="other").delete_workflow("guarded")
    assert "guarded" in await names(shared_site)
