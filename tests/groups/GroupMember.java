import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * One Java consumer of a group, as a program; telling.py has its events.
 *
 * Its argument is JSON: properties, topic, metadata, auto_commit, commit_ms and assigned as in
 * settings.py. It closes when its standard input ends.
 */
public final class GroupMember implements ConsumerRebalanceListener {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static volatile boolean stopping;

    private final JsonNode settings;
    private final String topic;
    private final KafkaConsumer<byte[], String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> uncommitted = new HashMap<>();

    private GroupMember(JsonNode settings) {
        this.settings = settings;
        this.topic = settings.get("topic").asText();
        Properties properties = new Properties();
        settings.get("properties").fields()
            .forEachRemaining(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        this.consumer = new KafkaConsumer<>(properties);
    }

    public static void main(String[] arguments) throws IOException {
        Thread listener = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (IOException ended) {
                // a broken pipe is the end of the parent, too
            }
            stopping = true;
        });
        listener.setDaemon(true);
        listener.start();
        GroupMember member = new GroupMember(JSON.readTree(arguments[0]));
        try {
            member.run();
        } catch (KafkaException failure) {
            member.say("error", Map.of("error", failure.toString()));
        }
    }

    private void run() {
        begin();
        long commitMs = settings.get("commit_ms").asLong();
        long due = System.currentTimeMillis() + commitMs;
        while (!stopping) {
            read();
            if (System.currentTimeMillis() >= due) {
                commit();
                due = System.currentTimeMillis() + commitMs;
            }
        }
        commit();
        say("leaving", Map.of());
        long began = System.nanoTime();
        consumer.close();
        say("closed", Map.of("took_s", (System.nanoTime() - began) / 1e9));
    }

    private void begin() {
        if (settings.get("assigned").isEmpty()) {
            consumer.subscribe(List.of(topic), this);
            return;
        }
        List<TopicPartition> partitions = new ArrayList<>();
        settings.get("assigned")
            .forEach(number -> partitions.add(new TopicPartition(topic, number.asInt())));
        Map<Integer, Object> found = new TreeMap<>();
        consumer.committed(new HashSet<>(partitions)).forEach((place, offset) ->
            found.put(place.partition(),
                offset == null ? null : List.of(offset.offset(), offset.metadata())));
        say("found", Map.of("offsets", found));
        consumer.assign(partitions);
        say("assigned", Map.of("partitions", numbers(partitions)));
    }

    private void read() {
        var records = consumer.poll(POLL);
        for (TopicPartition place : records.partitions()) {
            List<Long> offsets = new ArrayList<>();
            List<String> values = new ArrayList<>();
            for (ConsumerRecord<byte[], String> record : records.records(place)) {
                offsets.add(record.offset());
                values.add(record.value());
            }
            say("records", Map.of(
                "partition", place.partition(), "offsets", offsets, "values", values));
            long next = offsets.get(offsets.size() - 1) + 1;
            uncommitted.put(
                place, new OffsetAndMetadata(next, settings.get("metadata").asText()));
        }
    }

    private void commit() {
        if (uncommitted.isEmpty() || settings.get("auto_commit").asBoolean()) {
            return;
        }
        try {
            consumer.commitSync(uncommitted);
        } catch (KafkaException refused) {
            say("refused", Map.of("error", refused.toString()));
            return;
        }
        Map<Integer, Long> offsets = new TreeMap<>();
        uncommitted.forEach((place, offset) -> offsets.put(place.partition(), offset.offset()));
        uncommitted.clear();
        say("committed", Map.of("offsets", offsets));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        say("assigned", Map.of("partitions", numbers(partitions)));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        commit();
        gone("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        gone("lost", partitions);
    }

    private void gone(String event, Collection<TopicPartition> partitions) {
        say(event, Map.of("partitions", numbers(partitions)));
        uncommitted.keySet().removeAll(partitions);
    }

    private static List<Integer> numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted().toList();
    }

    private void say(String event, Map<String, Object> fields) {
        Instant now = Instant.now();
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("at_s", now.getEpochSecond() + now.getNano() / 1e9);
        line.putAll(fields);
        if (!event.equals("closed")) { // a closed consumer knows nothing of its group
            line.put("generation", consumer.groupMetadata().generationId());
            line.put("member_id", consumer.groupMetadata().memberId());
        }
        try {
            System.out.println(JSON.writeValueAsString(line));
        } catch (IOException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
