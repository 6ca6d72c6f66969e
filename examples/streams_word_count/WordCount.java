import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Pattern;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * How often has each word been said? Lines of text in, the new count of each of their words out, exactly once.
 *
 * <pre>
 * lines ─▶ split into words ─▶ [repartition] ─▶ count, in a local store ─▶ counts: word, how often so far
 *                                                      └─▶ [changelog], from which a lost store is made again
 * </pre>
 *
 * What was read, the store's changes and the counts go out in one transaction. Killed at any moment, with its
 * store lost or not, the program goes on so that readers of what is committed see each count once: 1, 2, 3, ...
 */
public final class WordCount {
    private static final Pattern BETWEEN_WORDS = Pattern.compile("\\W+");

    private WordCount() {}

    /** BOOTSTRAP LINES_TOPIC COUNTS_TOPIC STATE_FOLDER [SETTING=VALUE ...], settings being those of Kafka Streams. */
    public static void main(String[] arguments) throws InterruptedException {
        List<String> given = List.of(arguments);
        Topology words = counting(given.get(1), given.get(2));
        Properties settings = exactlyOnce(given.get(0), Path.of(given.get(3)));
        for (String setting : given.subList(4, given.size())) {
            settings.setProperty(setting.substring(0, setting.indexOf('=')), setting.substring(setting.indexOf('=') + 1));
        }
        CountDownLatch ended = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(words, settings)) {
            streams.setStateListener((now, before) -> {
                System.out.println(now);
                if (now == KafkaStreams.State.ERROR) {
                    ended.countDown();
                }
            });
            streams.setUncaughtExceptionHandler(trouble -> {
                trouble.printStackTrace();
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
            streams.start();
            ended.await();
        }
    }

    private static Topology counting(String lines, String counts) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(lines, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(BETWEEN_WORDS.split(line.toLowerCase(Locale.ROOT))))
                .filterNot((key, word) -> word.isEmpty())
                .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.as("counts"))
                .toStream()
                .mapValues(count -> Long.toString(count))
                .to(counts, Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static Properties exactlyOnce(String bootstrap, Path state) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        // Every count is told, instead of the last one of each commit.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        return settings;
    }
}
