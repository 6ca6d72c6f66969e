import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads the first records of partition 0 of a topic, from a rack. Arguments: addresses of brokers, topic, rack, count.
 * Prints {@code key KEY} for each record, and then {@code node ID BYTES}: what each node has sent.
 */
public final class RackReader {
    private static final long WAIT_MS_MAX = 120_000;

    private RackReader() {}

    public static void main(String[] arguments) {
        Map<String, Object> settings =
                Map.of("bootstrap.servers", arguments[0], "client.rack", arguments[2], "auto.offset.reset", "earliest");
        int count = Integer.parseInt(arguments[3]);
        List<String> keys = new ArrayList<>();
        long deadline = System.currentTimeMillis() + WAIT_MS_MAX;
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(new TopicPartition(arguments[1], 0)));
            while (keys.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    keys.add(record.key());
                }
            }
            keys.forEach(key -> System.out.println("key " + key));
            for (Map.Entry<MetricName, ? extends Metric> entry : consumer.metrics().entrySet()) {
                MetricName name = entry.getKey();
                if (name.group().equals("consumer-node-metrics") && name.name().equals("incoming-byte-total")) {
                    long bytes = ((Number) entry.getValue().metricValue()).longValue();
                    System.out.println("node " + name.tags().get("node-id").substring("node-".length()) + " " + bytes);
                }
            }
        }
    }
}
