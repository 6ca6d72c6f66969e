import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What every application does, with as little as all versions of the client have: creates a topic of two partitions,
 * writes records, the second half in a transaction, and reads them as a member of a group. Arguments: address of a
 * broker, topic, count. Prints {@code read COUNT}.
 */
public final class FirstSteps {
    private static final long WAIT_MS_MAX = 60_000;

    private FirstSteps() {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int count = Integer.parseInt(arguments[2]);
        try (Admin admin = Admin.create(settings(arguments[0]))) {
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get();
        }
        write(arguments[0], topic, count);
        System.out.println("read " + read(arguments[0], topic, count).size());
    }

    private static void write(String bootstrap, String topic, int count) throws Exception {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("acks", "all");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count / 2; number++) {
                producer.send(new ProducerRecord<>(topic, "key-" + number, "x")).get();
            }
        }
        settings.put("transactional.id", topic);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int number = count / 2; number < count; number++) {
                producer.send(new ProducerRecord<>(topic, "key-" + number, "x"));
            }
            producer.commitTransaction();
        }
    }

    private static Set<String> read(String bootstrap, String topic, int count) {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("group.id", topic);
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        Set<String> keys = new TreeSet<>();
        long deadline = System.currentTimeMillis() + WAIT_MS_MAX;
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (keys.size() < count && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    keys.add(record.key());
                }
            }
            consumer.commitSync();
        }
        return keys;
    }

    private static Map<String, Object> settings(String bootstrap) {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap));
    }
}
