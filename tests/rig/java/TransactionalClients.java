import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactional producers and consumers of what is committed, which stay open between requests: a request names
 * one by the number that it got when it was opened. A consumer's group and offsets are known still when it is closed.
 */
final class TransactionalClients {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration CLOSE_AT_ONCE = Duration.ZERO;

    private final Map<Integer, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Map<Integer, Reading> consumers = new HashMap<>();
    private int opened = 0;

    private static final class Reading {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        private ConsumerGroupMetadata group = null;

        private Reading(KafkaConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
        }
    }

    Object perform(String operation, JsonNode request) throws Exception {
        switch (operation) {
            case "transaction_producer":
                return openProducer(request);
            case "transaction_consumer":
                return openConsumer(request);
            case "transaction_poll":
                return poll(consumers.get(request.get("consumer").asInt()));
            case "transaction_close_consumer":
                consumers.get(request.get("consumer").asInt()).consumer.close();
                return null;
            default:
                produce(producers.get(request.get("producer").asInt()), operation, request);
                return null;
        }
    }

    @SuppressWarnings("removal") // There is no other way to name a group that has no member.
    private void produce(KafkaProducer<byte[], byte[]> producer, String operation, JsonNode request) throws Exception {
        switch (operation) {
            case "transaction_begin":
                producer.beginTransaction();
                break;
            case "transaction_send":
                TopicPartition where = KafkaAgent.partitionOf(request);
                byte[] value = KafkaAgent.bytesOf(request.get("value"));
                producer.send(new ProducerRecord<>(where.topic(), where.partition(), null, value)).get();
                break;
            case "transaction_offset":
                OffsetAndMetadata offset = new OffsetAndMetadata(request.get("offset").asLong());
                producer.sendOffsetsToTransaction(
                        Map.of(KafkaAgent.partitionOf(request), offset),
                        new ConsumerGroupMetadata(request.get("group").asText()));
                break;
            case "transaction_offsets_of":
                Reading reading = consumers.get(request.get("consumer").asInt());
                producer.sendOffsetsToTransaction(reading.positions, reading.group);
                break;
            case "transaction_commit":
                producer.commitTransaction();
                break;
            case "transaction_abort":
                producer.abortTransaction();
                break;
            case "transaction_close_producer":
                producer.close(CLOSE_AT_ONCE);
                break;
            default:
                throw new IllegalArgumentException(operation);
        }
    }

    private int openProducer(JsonNode request) {
        Map<String, Object> settings = new TreeMap<>(KafkaAgent.textsOf(request.get("settings")));
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
        opened += 1;
        producers.put(opened, producer);
        return opened;
    }

    private int openConsumer(JsonNode request) {
        Map<String, Object> settings = new TreeMap<>(KafkaAgent.textsOf(request.get("settings")));
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        String topic = request.get("topic").asText();
        if (settings.containsKey("group.id")) {
            consumer.subscribe(List.of(topic));
        } else {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
        }
        opened += 1;
        consumers.put(opened, new Reading(consumer));
        return opened;
    }

    private static List<String> poll(Reading reading) {
        ConsumerRecords<byte[], byte[]> records = reading.consumer.poll(POLL);
        List<String> values = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            values.add(KafkaAgent.textOf(record.value()));
        }
        reading.positions.putAll(records.nextOffsets());
        if (!records.isEmpty() && !reading.consumer.subscription().isEmpty()) {
            reading.group = reading.consumer.groupMetadata();
        }
        return values;
    }
}
