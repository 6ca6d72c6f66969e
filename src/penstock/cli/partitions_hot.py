"""`penstock partitions hot`: the busiest partitions, and the keys that heat them."""

import click

from penstock.cli.options import cluster_options
from penstock.cli.partitions_balance import for_option
from penstock.cli.show import print_json, print_table, say
from penstock.cli.watch import show_view, watch_option
from penstock.client.admin.balance_plan import REQUEST_PRICE_BYTES
from penstock.client.admin.key_samples import KeySample, KeyShare, sample_keys
from penstock.client.admin.partition_rates import PartitionRate, measure_rates
from penstock.client.network.cluster import Cluster
from penstock.model.identity import NodeId, TopicPartition
from penstock.model.lazy_dataclass import dataclass

ROWS_DEFAULT = 10
KEYS_DEFAULT = 3
SAMPLE_DEFAULT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Heated:
    rate: PartitionRate
    leader: NodeId | None
    sample: KeySample | None


@click.command()
@for_option
@click.option(
    "--count",
    type=click.IntRange(min=1),
    default=ROWS_DEFAULT,
    show_default=True,
    metavar="N",
    help="Show so many partitions.",
)
@click.option(
    "--keys",
    "keys_max",
    type=click.IntRange(min=0),
    default=KEYS_DEFAULT,
    show_default=True,
    metavar="N",
    help="Show so many keys of each; with 0 nothing is read.",
)
@click.option(
    "--sample",
    "records_max",
    type=click.IntRange(min=1),
    default=SAMPLE_DEFAULT,
    show_default=True,
    metavar="N",
    help="Look for keys in the last N records of each.",
)
@watch_option
@cluster_options
def hot(
    seconds: float,
    count: int,
    keys_max: int,
    records_max: int,
    watch: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Show the partitions that are written to most, and the keys that heat them.

    They are ordered by bytes written a second, with 2,048 more for each request that writes.
    Requests are estimated from a sample of batches: each batch of the log was one request.

    Keys are counted in a sample of the newest records: a share is that of the sampled bytes.
    With --watch, the next measurement begins as soon as one is shown.
    """

    announced = False

    async def work(cluster: Cluster) -> list[Heated]:
        nonlocal announced
        if not announced:
            say(f"measuring for {seconds:g} s", err=True)
        announced = True
        rates = await measure_rates(cluster, seconds=seconds)
        busy = [rate for rate in rates if rate.in_bytes or rate.out_bytes]
        busy.sort(key=lambda rate: (-_weight(rate), -rate.out_bytes, rate.partition))
        shown = busy[:count]
        samples: dict[TopicPartition, KeySample] = {}
        if keys_max:
            places = [rate.partition for rate in shown]
            samples = await sample_keys(cluster, places, records_max=records_max, keys_max=keys_max)
        return [
            Heated(
                rate=rate,
                leader=cluster.view.leader_of(rate.partition),
                sample=samples.get(rate.partition),
            )
            for rate in shown
        ]

    def show(found: list[Heated]) -> None:
        if as_json:
            print_json([_value(one) for one in found], in_line=watch)
        elif not found:
            say("nothing was written or read")
        else:
            _show(found)

    show_view(bootstrap, work, show, every_seconds=0 if watch else None, redrawn=not as_json)


def _show(found: list[Heated]) -> None:
    print_table(
        (
            "topic",
            "partition",
            "leader",
            "bytes/s in",
            "requests/s",
            "records/s",
            "bytes/s out",
            "keys",
        ),
        (
            (
                *one.rate.partition,
                one.leader,
                round(one.rate.in_bytes),
                None if one.rate.requests is None else round(one.rate.requests),
                round(one.rate.records),
                round(one.rate.out_bytes),
                _keys(one.sample),
            )
            for one in found
        ),
        wrapped=("keys",),
    )


def _weight(rate: PartitionRate) -> float:
    return rate.in_bytes + (rate.requests or 0.0) * REQUEST_PRICE_BYTES


def _keys(sample: KeySample | None) -> str | None:
    if sample is None or not sample.keys:
        return None
    return ", ".join(f"{_name(one)} {_share(one, sample):.0%}" for one in sample.keys)


def _share(one: KeyShare, sample: KeySample) -> float:
    return one.value_bytes / sample.value_bytes if sample.value_bytes else 0.0


def _name(one: KeyShare) -> str:
    return "(no key)" if one.key is None else one.key.decode("utf-8", "backslashreplace")


def _value(one: Heated) -> dict[str, object]:
    sample = one.sample
    return {
        "topic": one.rate.partition.topic,
        "partition": one.rate.partition.partition,
        "leader": one.leader,
        "bytes_in_per_second": round(one.rate.in_bytes, 1),
        "requests_per_second": None if one.rate.requests is None else round(one.rate.requests, 1),
        "records_per_second": round(one.rate.records, 1),
        "bytes_out_per_second": round(one.rate.out_bytes, 1),
        "size_bytes": one.rate.size_bytes,
        "sampled_records": 0 if sample is None else sample.records,
        "keys": []
        if sample is None
        else [
            {
                "key": None if share.key is None else _name(share),
                "records": share.records,
                "bytes": share.value_bytes,
                "share": round(_share(share, sample), 3),
            }
            for share in sample.keys
        ],
    }
