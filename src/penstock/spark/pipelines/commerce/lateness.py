"""How late a payment may come and still count in its minute. Pure; the proof has it, too."""

from penstock.spark.pipelines.event_time_bounds import MINUTE_MS, Lateness

PAYMENT_LATENESS = Lateness(late_ms_max=15 * MINUTE_MS, outputs="revenue")
