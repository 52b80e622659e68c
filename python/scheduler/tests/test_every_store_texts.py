"""Every store: texts and blobs come back byte for byte, whatever is in them, and names are compared bytewise."""

from __future__ import annotations

from store_rows import changes, column, instance, instance_update, task_definition

from taskyard_scheduler.store.port import Condition, Store

TEXTS = [
    "", " ", "a ", "nul\x00 in it", "\x01\x1f\x7f", "quote ' \" ` \\ \\' %s :name ? ${x} {0}",
    "line\r\n\ttab",    "🧪 emoji 👩‍👩‍👧", "汉字 \U00020000", "\u2028\ufeff\uffff", "e\u0301 é",
    "-- /* */ ;", "\\\\", "\x1a\x08", "NULL",
]  # fmt: skip


async def test_every_text_comes_back_byte_for_byte(store: Store) -> None:
    rows = [instance(params_json=text, policy_json=text, traceparent=text) for text in TEXTS]
    blobs = [task_definition(f"d{n:02}", definition=text.encode()) for n, text in enumerate(TEXTS)]
    blobs.append(task_definition("d99", definition=bytes(range(256))))
    await store.commit(1, changes(1, instance_inserts=rows, task_definition_upserts=blobs))
    updates = [
        instance_update(column(row, "id"), output_json=text, error_message=text, error_kind=text)
        for row, text in zip(rows, TEXTS, strict=True)
    ]
    await store.commit(1, changes(2, instance_updates=updates))
    got = await store.list_instances("default", [], None, 99, newest_first=False)
    for name in ("params_json", "policy_json", "traceparent", "output_json", "error_message", "error_kind"):
        assert [column(row, name) for row in got] == TEXTS, name
    assert await store.load_task_definitions() == blobs


async def test_large_values_come_back_whole(store: Store) -> None:
    large = "aé🧪\\'\x00" * 400_000  # more than 4 MB in UTF-8
    rows = [instance(params_json=large + str(n)) for n in range(5)]
    await store.commit(1, changes(1, instance_inserts=[*rows, instance()]))
    updates = [instance_update(column(row, "id"), output_json=large + "out") for row in rows]
    await store.commit(1, changes(2, instance_updates=updates))
    for number, row in enumerate(rows):
        [got] = await store.get_instances("default", [column(row, "id")])
        assert column(got, "params_json") == large + str(number)
        assert column(got, "output_json") == large + "out"


async def test_names_are_compared_bytewise(store: Store) -> None:
    names = ["a", "A", "á", "a\u0301", "ａ", "ß", "ss", "z", "Z", "🧪", "\uffee"]
    definitions = [task_definition(name) for name in names]
    await store.commit(1, changes(1, task_definition_upserts=definitions))
    got = [row[1] for row in await store.list_task_definitions("default", [], "", 99)]
    assert got == sorted(names, key=str.encode)
    found = await store.list_task_definitions("default", [Condition("name", "==", "a")], "", 99)
    assert [row[1] for row in found] == ["a"]
