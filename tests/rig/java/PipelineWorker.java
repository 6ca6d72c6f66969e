import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A worker of the pipeline that uses the Java client. {@code rig/pipeline/stream.py} says what it reads and writes,
 * {@code rig/pipeline/messages.py} what it tells and when. Its settings are the one argument, as JSON; it ends when its
 * standard input does.
 */
public final class PipelineWorker {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final PrintStream OUT = System.out;
    private static final String SOURCE = "source";
    private static final String SINK = "sink";
    private static final int SINK_PARTITIONS = 3;
    private static final int BATCH = 50;
    private static final int ABORTED_EACH = 10;

    private final String life;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private long attempt = 0;
    private volatile boolean closing = false;

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        JsonNode given = JSON.readTree(arguments[0]);
        try (KafkaProducer<byte[], byte[]> producer = producer(given);
                KafkaConsumer<byte[], byte[]> consumer = consumer(given)) {
            new PipelineWorker(given.get("life").asText(), producer, consumer).run();
        }
        System.exit(0);
    }

    private static KafkaProducer<byte[], byte[]> producer(JsonNode given) {
        Map<String, Object> settings = brisk(given);
        settings.put("transactional.id", given.get("transactional.id").asText());
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode given) {
        Map<String, Object> settings = brisk(given);
        settings.put("group.id", given.get("group.id").asText());
        settings.put("group.instance.id", given.get("group.instance.id").asText());
        int session = given.get("session.timeout.ms").asInt();
        settings.put("session.timeout.ms", session);
        settings.put("heartbeat.interval.ms", session / 6);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", BATCH);
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Map<String, Object> brisk(JsonNode given) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", given.get("bootstrap.servers").asText());
        settings.put("reconnect.backoff.ms", 20);
        settings.put("reconnect.backoff.max.ms", 100);
        settings.put("retry.backoff.ms", 20);
        return settings;
    }

    private PipelineWorker(
            String life, KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer) {
        this.life = life;
        this.producer = producer;
        this.consumer = consumer;
    }

    private void run() {
        Thread listener = new Thread(this::listen);
        listener.setDaemon(true);
        listener.start();
        producer.initTransactions();
        consumer.subscribe(List.of(SOURCE));
        while (!closing) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
            if (!records.isEmpty()) {
                attempt += 1;
                tryOnce(records);
            }
        }
    }

    private void tryOnce(ConsumerRecords<byte[], byte[]> records) {
        try {
            producer.beginTransaction();
            transform(records);
            if (attempt % ABORTED_EACH != 0) {
                tell(Map.of("commits", attempt, "at_ns", System.nanoTime()));
                insist(producer::commitTransaction);
                return;
            }
        } catch (ApplicationRecoverableException ended) {
            throw ended;
        } catch (KafkaException trouble) {
            tell(Map.of("error", trouble.toString()));
        }
        tell(Map.of("aborts", attempt));
        insist(producer::abortTransaction);
        rewind();
    }

    private void transform(ConsumerRecords<byte[], byte[]> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            int key = Integer.parseInt(new String(record.key(), StandardCharsets.UTF_8));
            String number = new String(record.value(), StandardCharsets.UTF_8);
            byte[] written = (number + " " + life + " " + attempt).getBytes(StandardCharsets.UTF_8);
            producer.send(new ProducerRecord<>(SINK, key % SINK_PARTITIONS, record.key(), written));
        }
        producer.flush();
        producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
    }

    /** To what is committed, since what was read has come to nothing. */
    private void rewind() {
        Set<TopicPartition> owned = consumer.assignment();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(owned);
        for (TopicPartition partition : owned) {
            OffsetAndMetadata found = committed.get(partition);
            consumer.seek(partition, found == null ? 0 : found.offset());
        }
    }

    /** A time-out leaves the outcome open; asked again, the client waits for the same one. */
    private static void insist(Runnable ask) {
        while (true) {
            try {
                ask.run();
                return;
            } catch (TimeoutException again) {
                tell(Map.of("error", again.toString()));
            }
        }
    }

    private void listen() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException gone) {
            // The test has gone: so do we.
        }
        closing = true;
    }

    private static void tell(Map<String, Object> what) {
        try {
            OUT.println(JSON.writeValueAsString(what));
            OUT.flush();
        } catch (com.fasterxml.jackson.core.JsonProcessingException trouble) {
            throw new IllegalStateException(trouble);
        }
    }
}
