import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupResult;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Whole scenarios with Java's AdminClient and its consumer of the consumer protocol (KIP-848). Each returns what the
 * client saw, without what differs between two brokers, so that a test can compare them.
 */
final class ClientScenarios {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PATIENCE_NANOS = Duration.ofSeconds(60).toNanos();
    private static final String SESSION = "consumer.session.timeout.ms";

    private final String bootstrap;
    private final String name;

    private ClientScenarios(JsonNode request) {
        bootstrap = request.get("bootstrap").asText();
        name = request.get("name").asText();
    }

    static Object perform(String operation, JsonNode request) throws Exception {
        ClientScenarios scenario = new ClientScenarios(request);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", scenario.bootstrap))) {
            switch (operation) {
                case "scenario_topics_by_id":
                    return scenario.topicsById(admin);
                case "scenario_pattern":
                    return scenario.pattern(admin);
                case "scenario_removal":
                    return scenario.removal(admin);
                case "scenario_listed_configs":
                    return scenario.listedConfigs(admin);
                case "scenario_config_sources":
                    return scenario.configSources(admin);
                default:
                    throw new IllegalArgumentException(operation);
            }
        }
    }

    /** Topics are described and deleted by their ids, and an id that no topic has is unknown. */
    private List<String> topicsById(Admin admin) throws Exception {
        List<String> seen = new ArrayList<>();
        Uuid id = create(admin, name, 2);
        Uuid unknown = Uuid.randomUuid();
        // A broker may hear of a new topic a moment after the controller has answered.
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (!outcome(byId(admin, List.of(id)).get(id)).equals("ok")) {
            check(System.nanoTime() < deadline);
        }
        Map<Uuid, KafkaFuture<TopicDescription>> described = byId(admin, List.of(id, unknown));
        TopicDescription found = described.get(id).get();
        seen.add(found.name() + " has " + found.partitions().size() + ", same id " + found.topicId().equals(id));
        seen.add("unknown: " + outcome(described.get(unknown)));
        seen.add("deleted: " + outcome(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()));
        seen.add("deleted again: " + outcome(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()));
        return seen;
    }

    /** A consumer that subscribes by a pattern reads a topic that is there, and one that appears later. */
    private List<String> pattern(Admin admin) throws Exception {
        List<String> seen = new ArrayList<>();
        create(admin, name + "-first", 1);
        produce(name + "-first");
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(null)) {
            consumer.subscribe(new SubscriptionPattern(name + "-.*"));
            pollUntil(consumer, seen, () -> seen.size() == 1);
            create(admin, name + "-second", 1);
            produce(name + "-second");
            pollUntil(consumer, seen, () -> seen.size() == 2);
        }
        return seen;
    }

    /** An administrator removes static members: one that is unknown, one that is away, and one at work. */
    private List<String> removal(Admin admin) throws Exception {
        create(admin, name, 1);
        List<String> seen = new ArrayList<>();
        int[] assigned = {0};
        int[] lost = {0};
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                assigned[0] += partitions.size();
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {}

            @Override
            public void onPartitionsLost(Collection<TopicPartition> partitions) {
                lost[0] += partitions.size();
            }
        };
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("i1")) {
            consumer.subscribe(List.of(name), listener);
            pollUntil(consumer, seen, () -> assigned[0] == 1);
            // A consumer that is put out while it asks for its offsets throws what it is answered.
            consumer.position(new TopicPartition(name, 0));
            seen.add("of another name: " + remove(admin, "i2"));
            seen.add("at work: " + remove(admin, "i1"));
            pollUntil(consumer, seen, () -> lost[0] == 1 && assigned[0] == 2);
            seen.add("was put out and joined again");
        }
        seen.add("away: " + describe(admin));
        seen.add("removed: " + remove(admin, "i1"));
        seen.add("then: " + describe(admin));
        seen.add("removed again: " + remove(admin, "i1"));
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("i1")) {
            consumer.subscribe(List.of(name), listener);
            pollUntil(consumer, seen, () -> assigned[0] == 3);
        }
        seen.add("all: " + removeAll(admin));
        seen.add("then: " + describe(admin));
        return seen;
    }

    /** Groups with settings of their own, topics and brokers are listed as owners of a configuration. */
    private List<String> listedConfigs(Admin admin) throws Exception {
        create(admin, name, 1);
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name + "-group");
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(SESSION, "50000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(group, List.of(change))).all().get();
        List<String> seen = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (!listed(admin, Set.of(ConfigResource.Type.GROUP)).contains(group)) {
            check(System.nanoTime() < deadline);
        }
        // Topics and groups of other tests are listed too.
        Set<String> expected = Set.of(name, group.name(), "1");
        for (ConfigResource.Type type : List.of(
                ConfigResource.Type.GROUP,
                ConfigResource.Type.TOPIC,
                ConfigResource.Type.BROKER,
                ConfigResource.Type.CLIENT_METRICS)) {
            for (ConfigResource resource : listed(admin, Set.of(type))) {
                if (expected.contains(resource.name())) {
                    seen.add(resource.type() + " " + resource.name());
                }
            }
        }
        Collection<ConfigResource> all = listed(admin, Set.of());
        seen.add("all have the group " + all.contains(group));
        for (ConfigEntry entry : admin.describeConfigs(List.of(group)).all().get().get(group).entries()) {
            if (entry.name().equals(SESSION)) {
                seen.add(entry.value() + " by " + entry.source());
            }
        }
        AlterConfigOp undo = new AlterConfigOp(new ConfigEntry(SESSION, ""), AlterConfigOp.OpType.DELETE);
        admin.incrementalAlterConfigs(Map.of(group, List.of(undo))).all().get();
        return seen;
    }

    /** Where each setting of the broker comes from. */
    private Map<String, String> configSources(Admin admin) throws Exception {
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        Map<String, String> sources = new TreeMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(broker)).all().get().get(broker).entries()) {
            sources.put(entry.name(), entry.source().toString());
        }
        return sources;
    }

    // ---- steps

    private static Uuid create(Admin admin, String topic, int partitions) throws Exception {
        NewTopic wanted = new NewTopic(topic, Optional.of(partitions), Optional.empty());
        return admin.createTopics(List.of(wanted)).topicId(topic).get();
    }

    private static Map<Uuid, KafkaFuture<TopicDescription>> byId(Admin admin, List<Uuid> ids) {
        return admin.describeTopics(TopicCollection.ofTopicIds(ids)).topicIdValues();
    }

    private void produce(String topic) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            producer.send(new ProducerRecord<>(topic, new byte[] {1})).get();
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer(String instance) {
        Map<String, Object> settings = new TreeMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", name + "-group");
        settings.put("group.protocol", "consumer");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (instance != null) {
            settings.put("group.instance.id", instance);
        }
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void pollUntil(KafkaConsumer<byte[], byte[]> consumer, List<String> seen, BooleanSupplier done) {
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (!done.getAsBoolean()) {
            check(System.nanoTime() < deadline);
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                seen.add("read from " + record.topic());
            }
        }
    }

    private String remove(Admin admin, String instance) throws Exception {
        MemberToRemove member = new MemberToRemove(instance);
        RemoveMembersFromConsumerGroupResult result = admin.removeMembersFromConsumerGroup(
                name + "-group", new RemoveMembersFromConsumerGroupOptions(List.of(member)));
        return outcome(result.memberResult(member));
    }

    private String removeAll(Admin admin) throws Exception {
        return outcome(admin.removeMembersFromConsumerGroup(
                        name + "-group", new RemoveMembersFromConsumerGroupOptions())
                .all());
    }

    private String describe(Admin admin) throws Exception {
        ConsumerGroupDescription group =
                admin.describeConsumerGroups(List.of(name + "-group")).all().get().get(name + "-group");
        List<String> instances = new ArrayList<>();
        for (MemberDescription member : group.members()) {
            instances.add(member.groupInstanceId().orElse("-"));
        }
        return group.type() + " group, members " + instances;
    }

    private static Collection<ConfigResource> listed(Admin admin, Set<ConfigResource.Type> types) throws Exception {
        return admin.listConfigResources(types, new ListConfigResourcesOptions()).all().get();
    }

    private static String outcome(KafkaFuture<?> future) throws InterruptedException {
        try {
            future.get();
            return "ok";
        } catch (ExecutionException failure) {
            Throwable cause = failure.getCause();
            return (cause.getCause() == null ? cause : cause.getCause()).getClass().getSimpleName();
        }
    }

    private static void check(boolean inTime) {
        if (!inTime) {
            throw new IllegalStateException("nothing more came within a minute");
        }
    }
}
