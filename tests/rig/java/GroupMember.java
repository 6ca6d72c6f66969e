import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer of the Java client, in a process of its own. What is read is told first and committed then.
 * A commit may be refused while the group rebalances; what is given up is committed before it is.
 *
 * <p>Its settings are the one argument, as JSON; {@code topic} among them is the topic to read. It takes the words
 * {@code stall}, {@code resume} and {@code close} by lines on standard input.
 */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TreeSet<Integer> owned = new TreeSet<>();
    private volatile boolean stalled = false;
    private volatile boolean closing = false;

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        Map<String, Object> settings = new TreeMap<>();
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        JsonNode given = JSON.readTree(arguments[0]);
        given.properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        Object topic = settings.remove("topic");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            new GroupMember(consumer).run(topic.toString());
        }
    }

    private GroupMember(KafkaConsumer<byte[], byte[]> consumer) {
        this.consumer = consumer;
    }

    private void run(String topic) throws Exception {
        Thread listener = new Thread(this::listen);
        listener.setDaemon(true);
        listener.start();
        consumer.subscribe(List.of(topic), this);
        while (!closing) {
            if (stalled) {
                Thread.sleep(50);
            } else {
                pollOnce();
            }
        }
    }

    private void pollOnce() {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
        if (records.isEmpty()) {
            return;
        }
        List<Object> positions = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            positions.add(List.of(record.partition(), record.offset()));
        }
        tell("read", positions);
        commit();
    }

    private void commit() {
        try {
            consumer.commitSync();
        } catch (KafkaException trouble) {
            tell("error", trouble.toString());
        }
    }

    private void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                stalled = line.equals("stall") || (stalled && !line.equals("resume"));
                closing = closing || line.equals("close");
            }
        } catch (java.io.IOException trouble) {
            // The test has gone: so do we.
        }
        closing = true;
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        onPartitionsLost(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.remove(partition.partition()));
        tell("owned", owned);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.add(partition.partition()));
        tell("owned", owned);
    }

    private static void tell(String what, Object value) {
        try {
            OUT.println(JSON.writeValueAsString(Map.of(what, value)));
            OUT.flush();
        } catch (com.fasterxml.jackson.core.JsonProcessingException trouble) {
            throw new IllegalStateException(trouble);
        }
    }
}
