import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.Exit;

/**
 * The Java client, its AdminClient and Kafka's own tools, in one JVM that a test drives by lines of JSON.
 *
 * <p>One request a line on standard input, one reply a line on standard output, in order. A JVM takes seconds to
 * start, so everything the tests ask of Java goes through this one. Bytes travel as Base64; null stays null.
 */
public final class KafkaAgent {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final TransactionalClients TRANSACTIONS = new TransactionalClients();

    private KafkaAgent() {}

    public static void main(String[] arguments) throws Exception {
        InputStream requests = System.in;
        PrintStream replies = System.out;
        System.setOut(System.err);
        BufferedReader lines = new BufferedReader(new InputStreamReader(requests, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            replies.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            replies.flush();
        }
    }

    private static Map<String, Object> answer(JsonNode request) {
        try {
            Object result = perform(request.get("operation").asText(), request);
            return mapOf("result", result);
        } catch (ExecutionException failure) {
            return refusal(failure.getCause());
        } catch (Exception failure) {
            return refusal(failure);
        }
    }

    private static Object perform(String operation, JsonNode request) throws Exception {
        if (operation.startsWith("transaction_")) {
            return TRANSACTIONS.perform(operation, request);
        }
        if (operation.startsWith("scenario_")) {
            return ClientScenarios.perform(operation, request);
        }
        switch (operation) {
            case "produce":
                return produce(request);
            case "read":
                return read(request);
            case "offset_bounds":
                return offsetBounds(request);
            case "offset_at_time":
                return offsetAtTime(request);
            case "tool":
                return tool(request);
            case "property":
                System.setProperty(request.get("name").asText(), request.get("value").asText());
                return null;
            default:
                try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapOf(request)))) {
                    return administer(admin, operation, request);
                }
        }
    }

    // ---- producing and reading

    private static List<Object> produce(JsonNode request) throws Exception {
        Map<String, Object> settings = new TreeMap<>();
        settings.put("bootstrap.servers", bootstrapOf(request));
        request.get("settings").properties().forEach(entry -> settings.put(entry.getKey(), entry.getValue().asText()));
        List<Object> receipts = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode message : request.get("messages")) {
                sent.add(producer.send(recordOf(request.get("topic").asText(), message)));
            }
            producer.flush();
            for (Future<RecordMetadata> pending : sent) {
                receipts.add(receiptOf(pending));
            }
        }
        return receipts;
    }

    private static ProducerRecord<byte[], byte[]> recordOf(String topic, JsonNode message) {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : message.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytesOf(header.get(1))));
        }
        Integer partition = message.get("partition").isNull() ? null : message.get("partition").asInt();
        Long timestamp = message.get("timestamp_ms").isNull() ? null : message.get("timestamp_ms").asLong();
        return new ProducerRecord<>(
                topic, partition, timestamp, bytesOf(message.get("key")), bytesOf(message.get("value")), headers);
    }

    private static Map<String, Object> receiptOf(Future<RecordMetadata> pending) throws InterruptedException {
        try {
            RecordMetadata stored = pending.get();
            return mapOf("partition", stored.partition(), "offset", stored.offset());
        } catch (ExecutionException failure) {
            return refusal(failure.getCause());
        }
    }

    private static List<Object> read(JsonNode request) {
        TopicPartition partition = partitionOf(request);
        int count = request.get("count").asInt();
        List<Object> found = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, request.get("from_offset").asLong());
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (found.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    found.add(foundOf(record));
                }
            }
        }
        return found;
    }

    private static Map<String, Object> foundOf(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(textOf(header.value()));
            headers.add(pair);
        }
        return mapOf(
                "partition", record.partition(),
                "offset", record.offset(),
                "timestamp_ms", record.timestamp(),
                "key", textOf(record.key()),
                "value", textOf(record.value()),
                "headers", headers);
    }

    private static List<Long> offsetBounds(JsonNode request) {
        TopicPartition partition = partitionOf(request);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            return List.of(
                    consumer.beginningOffsets(List.of(partition)).get(partition),
                    consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private static Long offsetAtTime(JsonNode request) {
        TopicPartition partition = partitionOf(request);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(request)) {
            OffsetAndTimestamp found =
                    consumer.offsetsForTimes(Map.of(partition, request.get("timestamp_ms").asLong())).get(partition);
            return found == null ? null : found.offset();
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrapOf(request),
                "auto.offset.reset", "none",
                "enable.auto.commit", "false");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    // ---- administration

    private static Object administer(Admin admin, String operation, JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        List<String> topics = List.of(topic);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        switch (operation) {
            case "create_topic":
                NewTopic wanted = new NewTopic(topic, Optional.of(request.get("partitions").asInt()), Optional.empty());
                admin.createTopics(List.of(wanted.configs(textsOf(request.get("settings"))))).all().get();
                return null;
            case "delete_topic":
                admin.deleteTopics(topics).all().get();
                return null;
            case "topics":
                return List.copyOf(admin.listTopics().names().get());
            case "partition_count":
                return admin.describeTopics(topics).allTopicNames().get().get(topic).partitions().size();
            case "topic_id":
                return admin.describeTopics(topics).allTopicNames().get().get(topic).topicId().toString();
            case "add_partitions":
                admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(request.get("total").asInt()))).all().get();
                return null;
            case "topic_settings":
                Map<String, Object> settings = new TreeMap<>();
                for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
                    settings.put(entry.name(), entry.value());
                }
                return settings;
            case "alter_topic":
                Collection<AlterConfigOp> changes = new ArrayList<>();
                textsOf(request.get("settings")).forEach((name, value) -> changes.add(
                        new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
                admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
                return null;
            case "delete_records":
                RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before_offset").asLong());
                TopicPartition partition = partitionOf(request);
                return admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition).get().lowWatermark();
            case "offset_of_max_timestamp":
                TopicPartition asked = partitionOf(request);
                return admin.listOffsets(Map.of(asked, OffsetSpec.maxTimestamp())).partitionResult(asked).get().offset();
            case "producers":
                TopicPartition written = partitionOf(request);
                return admin.describeProducers(List.of(written)).partitionResult(written).get().activeProducers().size();
            case "producer_epoch":
                String id = request.get("transactional_id").asText();
                return admin.describeTransactions(List.of(id)).description(id).get().producerEpoch();
            case "node_count":
                return admin.describeCluster().nodes().get().size();
            case "cluster_id":
                return admin.describeCluster().clusterId().get();
            default:
                throw new IllegalArgumentException(operation);
        }
    }

    // ---- Kafka's own tools, called as their scripts call them

    private static final class Ended extends Error {
        Ended(int status) {
            super("exit " + status);
        }
    }

    private static Map<String, Object> tool(JsonNode request) throws Exception {
        List<String> arguments = new ArrayList<>();
        request.get("arguments").forEach(argument -> arguments.add(argument.asText()));
        List<Integer> statuses = new ArrayList<>();
        List<Runnable> hooks = new ArrayList<>();
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream error = System.err;
        InputStream in = System.in;
        // A script's process would be gone by now: what the tool says while it unwinds is not heard.
        Exit.Procedure end = (status, message) -> {
            statuses.add(status);
            System.setOut(new PrintStream(PrintStream.nullOutputStream()));
            System.setErr(new PrintStream(PrintStream.nullOutputStream()));
            throw new Ended(status);
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        System.setOut(new PrintStream(printed, true));
        System.setErr(new PrintStream(printed, true));
        System.setIn(new ByteArrayInputStream(request.get("input").asText().getBytes(StandardCharsets.UTF_8)));
        try {
            Class<?> main = Class.forName(request.get("main").asText());
            main.getMethod("main", String[].class).invoke(null, (Object) arguments.toArray(new String[0]));
            statuses.add(0);
        } catch (java.lang.reflect.InvocationTargetException failure) {
            if (!(failure.getCause() instanceof Ended)) {
                failure.getCause().printStackTrace();
                statuses.add(1);
            }
        } finally {
            hooks.forEach(Runnable::run);
            System.setOut(out);
            System.setErr(error);
            System.setIn(in);
        }
        return mapOf("status", statuses.get(0), "output", printed.toString(StandardCharsets.UTF_8));
    }

    // ---- the words of the protocol

    private static Map<String, Object> refusal(Throwable cause) {
        return mapOf(
                "error", cause.getClass().getSimpleName(),
                "code", Errors.forException(cause).code(),
                "message", String.valueOf(cause.getMessage()));
    }

    private static String bootstrapOf(JsonNode request) {
        return request.get("bootstrap").asText();
    }

    static TopicPartition partitionOf(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    static Map<String, String> textsOf(JsonNode object) {
        Map<String, String> texts = new TreeMap<>();
        object.properties().forEach(entry -> texts.put(entry.getKey(), entry.getValue().asText()));
        return texts;
    }

    static byte[] bytesOf(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String textOf(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }

    private static Map<String, Object> mapOf(Object... pairs) {
        Map<String, Object> map = new TreeMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            map.put((String) pairs[index], pairs[index + 1]);
        }
        return map;
    }
}
