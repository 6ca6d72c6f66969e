"""How producers write, as the last batches of logs show it: idempotence, acks, compression.

A batch names its producer's id if the producer is idempotent, and such a producer always asks for
acks=all. Which acks the others ask for is not in the log; nodes of Penstock count it, and two looks
at their metrics show how it is now.
"""

from collections.abc import Callable

from penstock.client.admin.last_batches import StoredBatch
from penstock.doctor.finding import Advice, Command, Fault, Finding, finding, unknown, warn
from penstock.doctor.seen import ClusterSeen, EarlyAcks, Limits, Seen, Unseen
from penstock.records.compression import Codec

COMPRESSION = "compression.type"
BY_PRODUCER = ("producer", "uncompressed")  # values by which the broker does not compress
COMPRESSIBLE_BYTES = 1024  # smaller batches gain too little
NOTHING = "no topic holds records to look at"

Judge = Callable[[str, list[StoredBatch]], Fault | None]


def idempotence(seen: ClusterSeen, limits: Limits) -> Finding:
    def judge(topic: str, batches: list[StoredBatch]) -> Fault | None:
        count = sum(one.producer_id is None for one in batches)
        if not count:
            return None
        advice = f"set enable.idempotence=true in the producers of {topic}"
        reason = f"{topic}: {count} of its last {len(batches)} batches without a producer id"
        return warn(reason, Advice(text=advice))

    return _judged(seen, "idempotence", judge, "by idempotent producers")


def acks(seen: ClusterSeen, limits: Limits) -> Finding:
    def judge(topic: str, batches: list[StoredBatch]) -> Fault | None:
        if all(one.producer_id is not None for one in batches):
            return None
        advice = Advice(
            text=f"set acks=all, or enable.idempotence=true, in the producers of {topic}"
        )
        early = _early_acks(seen, topic)
        if isinstance(early, Unseen):
            reason = f"{topic}: a log does not show the acks of producers that are not idempotent"
            return unknown(f"{reason}, and {early.reason}", advice)
        within = f"within {seen.acks_watched_ms / 1000:.1f} s"
        if early.meanwhile:
            return warn(f"{topic}: {_batches(early.meanwhile)} {within}", advice)
        if not early.before or early.records:
            return None  # what was written meanwhile was with acks=all
        reason = f"{topic}: {_batches(early.before)} since its brokers started"
        while_writing = Advice(text=f"examine it while its producers write; {advice.text}")
        return unknown(f"{reason}, and nothing was written to it {within}", while_writing)

    return _judged(seen, "acks", judge, "with acks=all")


def compression(seen: ClusterSeen, limits: Limits) -> Finding:
    settings = {} if isinstance(seen.topic_settings, Unseen) else seen.topic_settings

    def judge(topic: str, batches: list[StoredBatch]) -> Fault | None:
        if settings.get(topic, {}).get(COMPRESSION, "producer") not in BY_PRODUCER:
            return None  # the broker compresses what is written from now on
        plain = [
            one
            for one in batches
            if one.codec is Codec.NONE and one.size_bytes >= COMPRESSIBLE_BYTES
        ]
        if not plain:
            return None
        size_bytes = max(one.size_bytes for one in plain)
        mend = Command(
            verb="topics alter", names=(topic,), options=("--set", f"{COMPRESSION}=zstd")
        )
        return warn(f"{topic}: batches of {size_bytes:,} bytes are not compressed", mend)

    return _judged(seen, "compression", judge, "compressed, or too small to gain by it")


def _batches(count: int) -> str:
    return f"{count:,} {'batch' if count == 1 else 'batches'} with acks=0 or 1"


def _early_acks(seen: ClusterSeen, topic: str) -> Seen[EarlyAcks]:
    """Of a topic, on all brokers."""
    found = []
    for counted in seen.early_acks.values():
        if isinstance(counted, Unseen):
            return counted
        if topic in counted:
            found.append(counted[topic])
    return EarlyAcks(
        before=sum(one.before for one in found),
        meanwhile=sum(one.meanwhile for one in found),
        records=sum(one.records for one in found),
    )


def _judged(seen: ClusterSeen, check: str, judge: Judge, how: str) -> Finding:
    if isinstance(seen.batches, Unseen):
        return finding(check, [unknown(seen.batches.reason)], passed="")
    by_topic: dict[str, list[StoredBatch]] = {}
    for place, batches in seen.batches.items():
        by_topic.setdefault(place.topic, []).extend(batches)
    sampled = {topic: batches for topic, batches in sorted(by_topic.items()) if batches}
    if not sampled:
        return finding(check, [unknown(NOTHING)], passed="")
    faults = [judge(topic, batches) for topic, batches in sampled.items()]
    count = sum(map(len, sampled.values()))
    looked = "the last batch was" if count == 1 else f"the last {count:,} batches were"
    return finding(
        check, [one for one in faults if one is not None], passed=f"{looked} written {how}"
    )
