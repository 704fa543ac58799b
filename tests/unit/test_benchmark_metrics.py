"""What every benchmark says of its metrics, so that tables and verdicts read them the same way."""

import pytest

from vtax.benchmarks import registry

RATES_AND_COUNTS = (
    "Mbit/s",
    "1/s",
    "segments",
    "transactions",
    "transactions/s",
    "queries/s",
    "requests/s",
    "rows/s",
)
METRICS = [(benchmark.name, metric) for benchmark in registry.benchmarks().values() for metric in benchmark.metrics]


@pytest.mark.parametrize(("benchmark", "metric"), METRICS, ids=lambda value: getattr(value, "name", value))
def test_several_flows_together_make_the_sum_of_their_rates_and_the_mean_of_their_delays(benchmark, metric):
    assert metric.over_flows == ("sum" if metric.unit in RATES_AND_COUNTS else "mean")
