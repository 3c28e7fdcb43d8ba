"""Keys of records, and the store that keeps nothing."""

from __future__ import annotations

from hareline.storage.administration import (
    KEY_FIELDS,
    GlobalParameterRecord,
    MemoryAdministration,
    PolicyRecord,
    key_of,
)


def test_a_key_tells_records_of_a_kind_apart() -> None:
    policy = PolicyRecord("/", True, "p", "", "all", 0, {})
    assert key_of(policy) == ("/", True, "p")
    assert key_of(policy._replace(pattern="x", priority=3)) == key_of(policy)
    assert all(0 < count <= len(kind.__annotations__) for kind, count in KEY_FIELDS.items())


def test_memory_keeps_no_records() -> None:
    store = MemoryAdministration()
    store.put(GlobalParameterRecord("g", 1))
    assert not store.when_settled(lambda _: None)
    assert store.records(GlobalParameterRecord) == []
    store.delete(GlobalParameterRecord("g", 1))
    store.delete_vhost("/")
    assert not store.has_definitions("/")
