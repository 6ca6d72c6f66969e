import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes one record at a time to one partition, with the Java client and its defaults, until standard input ends.
 * Arguments: addresses of brokers, topic, partition. {@code rig/failover/program_writers.py} says what it prints.
 */
public final class OneByOneWriter {
    private static final long PAUSE_MS = 2;

    private static volatile boolean over = false;

    private OneByOneWriter() {}

    public static void main(String[] arguments) throws Exception {
        Thread listener = new Thread(OneByOneWriter::listen);
        listener.setDaemon(true);
        listener.start();
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "linger.ms", "0");
        String topic = arguments[1];
        int partition = Integer.parseInt(arguments[2]);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            while (!over) {
                long begun = micros();
                String failure = "-";
                try {
                    producer.send(new ProducerRecord<>(topic, partition, null, "java".getBytes())).get();
                } catch (ExecutionException error) {
                    failure = error.getCause().toString().replace('\n', ' ');
                }
                System.out.println(begun + " " + micros() + " " + failure);
                System.out.flush();
                Thread.sleep(PAUSE_MS);
            }
        }
        System.exit(0);
    }

    private static long micros() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private static void listen() {
        try {
            while (System.in.read() >= 0) {}
        } catch (java.io.IOException ended) {
            // As good as its end.
        }
        over = true;
    }
}
