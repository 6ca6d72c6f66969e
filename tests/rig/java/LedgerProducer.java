import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A producer of the Java client that writes numbered records until its standard input ends. {@code
 * rig/failover/acked_records.py} says what a record holds and where it goes, {@code rig/failover/producers.py} reads the
 * lines. Its settings are the one argument, as JSON.
 */
public final class LedgerProducer {
    private static final PrintStream OUT = System.out;
    private static final int PADDING = 200;
    private static final Duration CLOSE = Duration.ofSeconds(150);

    private static volatile boolean over = false;

    private LedgerProducer() {}

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        JsonNode given = new ObjectMapper().readTree(arguments[0]);
        Map<String, Object> settings = new HashMap<>();
        given.get("settings").properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        Thread listener = new Thread(LedgerProducer::listen);
        listener.setDaemon(true);
        listener.start();
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        long sent = write(producer, given);
        producer.close(CLOSE);
        tell("ended " + sent + " records");
        System.exit(0);
    }

    private static long write(KafkaProducer<byte[], byte[]> producer, JsonNode given) throws InterruptedException {
        String topic = given.get("topic").asText();
        int partitions = given.get("partitions").asInt();
        long pauseNanos = (long) (1e9 / given.get("rate").asDouble());
        Semaphore room = new Semaphore(given.get("under_way_max").asInt());
        long due = System.nanoTime();
        long number = 0;
        while (!over) {
            if (room.tryAcquire()) {
                long sent = number++;
                byte[] value = valueOf(given.get("producer").asText(), sent);
                producer.send(new ProducerRecord<>(topic, (int) (sent % partitions), null, value), (stored, failure) -> {
                    room.release();
                    delivered(sent, stored, failure);
                });
            }
            due = Math.max(due + pauseNanos, System.nanoTime() - 1_000_000_000L);
            Thread.sleep(Math.max((due - System.nanoTime()) / 1_000_000, 0));
        }
        return number;
    }

    private static void delivered(long number, RecordMetadata stored, Exception failure) {
        if (failure == null) {
            long offset = stored.hasOffset() ? stored.offset() : -1;
            tell("acked " + number + " " + stored.partition() + " " + offset);
        } else {
            tell("failed " + number + " " + failure.toString().replace('\n', ' '));
        }
    }

    private static byte[] valueOf(String producer, long number) {
        byte[] head = (producer + ":" + number + ":").getBytes(StandardCharsets.UTF_8);
        return Arrays.copyOf(head, head.length + PADDING);
    }

    private static void listen() {
        try {
            while (System.in.read() >= 0) {}
        } catch (java.io.IOException ended) {
            // As good as its end.
        }
        over = true;
    }

    private static synchronized void tell(String line) {
        OUT.println(line);
        OUT.flush();
    }
}
