"""A histogram by labels for what is observed tens of thousands of times a second: one list entry and one sum each.

`prometheus_client`'s own takes a lock and two boxed floats for every observation, which at that rate is a twentieth of
a scheduler's time. Observed from one thread; a scrape from another sees each series as it is at that moment.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from typing_extensions import override


class Series:
    """One series: how many observations fell into each bucket (not cumulative), and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Durations(Collector):
    """A histogram with labels.

    Args:
        name: Its name in an exposition.
        documentation: Its help text.
        labels: Names of the labels.
        bounds: Upper bounds of the buckets, floats, ascending, without infinity; a value on a bound belongs to it.
        registry: Where it is registered.
    """

    def __init__(
        self, name: str, documentation: str, labels: Sequence[str], bounds: Sequence[float], registry: CollectorRegistry
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._bounds = tuple(bounds)
        self._series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def labels(self, *values: str) -> Series:
        """Returns the series of these label values, made when there is none."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = Series(self._bounds)
        return series

    @override
    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*map(str, self._bounds), "+Inf"]
        for values, series in list(self._series.items()):
            sofar = 0
            buckets: list[tuple[str, float]] = []
            for name, count in zip(names, series.counts, strict=True):
                sofar += count
                buckets.append((name, float(sofar)))
            family.add_metric(values, buckets, series.total)
        yield family
