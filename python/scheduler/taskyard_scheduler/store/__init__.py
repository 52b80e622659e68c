"""Where the scheduler's state is kept. The only package with SQL in it; `port` says what it promises."""

from taskyard_scheduler.store.open import open_store

__all__ = ["open_store"]
