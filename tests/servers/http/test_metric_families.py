"""The text format of Prometheus, written by hand: whatever the labels are, its own parser reads them back."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from understudy.servers.http.metrics import MOST_LABEL_SETS, OTHER, Counter, Gauge, Histogram, page

_labels = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
_numbers = st.floats(min_value=0, max_value=1e12, allow_nan=False)


@given(st.lists(st.tuples(_labels, st.integers(0, 1000)), max_size=30))
def test_counters_are_read_back_whatever_their_labels_are(added: list[tuple[str, int]]) -> None:
    counter = Counter("things_total", 'All "things"\nof \\ a kind.', ("label",))
    expected: dict[str, float] = {}
    for label, by in added:
        counter.add(label, by=by)
        expected[label] = expected.get(label, 0) + by
    (family,) = text_string_to_metric_families(page([counter]).decode())
    assert {sample.labels["label"]: sample.value for sample in family.samples} == expected


@given(st.lists(_numbers, max_size=50), st.lists(_numbers, min_size=1, max_size=10, unique=True).map(sorted))
def test_a_histogram_counts_everything_once(values: list[float], buckets: list[float]) -> None:
    histogram = Histogram("took_seconds", "How long.", buckets)
    for value in values:
        histogram.observe(value)
    (family,) = text_string_to_metric_families(page([histogram]).decode())
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    for bound in buckets:
        text = next(le for _, le in found if le is not None and le != "+Inf" and float(le) == bound)
        assert found["took_seconds_bucket", text] == sum(value <= bound for value in values)
    assert found["took_seconds_bucket", "+Inf"] == found["took_seconds_count", None] == len(values)


def test_half_a_character_is_no_reason_to_fail() -> None:
    counter = Counter("things_total", "Things.", ("label",))
    counter.add("\ud800")
    assert b'things_total{label="?"} 1\n' in page([counter])


def test_a_family_has_at_most_so_many_label_sets() -> None:
    counter = Counter("things_total", "Things.", ("one", "two"))
    for number in range(10 * MOST_LABEL_SETS):
        counter.add(str(number), "x")
    (family,) = text_string_to_metric_families(page([counter]).decode())
    assert len(family.samples) == MOST_LABEL_SETS + 1
    last = next(sample for sample in family.samples if sample.labels == {"one": OTHER, "two": OTHER})
    assert last.value == 9 * MOST_LABEL_SETS


def test_what_is_not_known_is_left_out() -> None:
    gauge = Gauge("size_bytes", "Size.")
    (family,) = text_string_to_metric_families(page([gauge]).decode())
    assert family.samples == []
