import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Java producers and consumers, told what to do by lines of JSON on standard input.
 *
 * A line names an operation ("do") and whose it is ("name"); each gets one line in answer: {"ok":
 * result} or {"error": class, "message": text}. It ends with its standard input.
 */
public final class TransactionsClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final Duration PATIENCE = Duration.ofSeconds(90);
    private static final Duration AT_ONCE = Duration.ZERO;

    private final Map<String, KafkaProducer<byte[], String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<byte[], String>> members = new HashMap<>();
    private final Map<String, ConsumerGroupMetadata> metadata = new HashMap<>();

    private TransactionsClient() {}

    public static void main(String[] arguments) throws IOException {
        TransactionsClient client = new TransactionsClient();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("ok", client.perform(JSON.readTree(line)));
            } catch (ExecutionException failure) {
                tell(answer, failure.getCause());
            } catch (InterruptedException | RuntimeException failure) {
                tell(answer, failure);
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
        client.producers.values().forEach(producer -> producer.close(AT_ONCE));
    }

    private static void tell(Map<String, Object> answer, Throwable failure) {
        answer.put("error", failure.getClass().getSimpleName());
        answer.put("message", String.valueOf(failure.getMessage()));
    }

    private Object perform(JsonNode order) throws ExecutionException, InterruptedException {
        String name = order.get("name").asText();
        switch (order.get("do").asText()) {
            case "open" -> producers.put(name, new KafkaProducer<>(properties(order)));
            case "init" -> producers.get(name).initTransactions();
            case "begin" -> producers.get(name).beginTransaction();
            case "send" -> send(producers.get(name), order);
            case "offsets" -> sendOffsets(producers.get(name), order);
            case "commit" -> producers.get(name).commitTransaction();
            case "abort" -> producers.get(name).abortTransaction();
            case "close" -> producers.remove(name).close(AT_ONCE);
            case "join" -> join(name, order);
            case "leave" -> members.remove(name).close();
            case "read" -> {
                return read(order);
            }
            default -> throw new IllegalArgumentException(order.toString());
        }
        return "";
    }

    private static Properties properties(JsonNode order) {
        Properties properties = new Properties();
        order.get("properties").properties()
            .forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        return properties;
    }

    private static void send(KafkaProducer<byte[], String> producer, JsonNode order)
            throws ExecutionException, InterruptedException {
        String topic = order.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : order.get("records")) {
            int partition = record.get(0).asInt();
            String value = record.get(1).asText();
            sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
        }
        for (Future<RecordMetadata> one : sent) {
            one.get();
        }
    }

    private void sendOffsets(KafkaProducer<byte[], String> producer, JsonNode order) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        String topic = order.get("topic").asText();
        for (JsonNode one : order.get("offsets")) {
            offsets.put(
                new TopicPartition(topic, one.get(0).asInt()),
                new OffsetAndMetadata(one.get(1).asLong()));
        }
        producer.sendOffsetsToTransaction(offsets, metadata.get(order.get("member").asText()));
    }

    /** Joins a group, reads some records and keeps the metadata of the group as it is then. */
    private void join(String name, JsonNode order) {
        KafkaConsumer<byte[], String> consumer = new KafkaConsumer<>(properties(order));
        members.put(name, consumer);
        consumer.subscribe(List.of(order.get("topic").asText()));
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        for (int missing = order.get("count").asInt(); missing > 0;) {
            missing -= consumer.poll(POLL).count();
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(missing + " records did not come");
            }
        }
        metadata.put(name, consumer.groupMetadata());
    }

    private static List<List<Object>> read(JsonNode order) {
        List<List<Object>> found = new ArrayList<>();
        try (KafkaConsumer<byte[], String> consumer = new KafkaConsumer<>(properties(order))) {
            List<TopicPartition> partitions = consumer.partitionsFor(order.get("topic").asText())
                .stream()
                .map(one -> new TopicPartition(one.topic(), one.partition()))
                .toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (partitions.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<byte[], String> record : consumer.poll(POLL)) {
                    if (record.offset() < ends.get(new TopicPartition(
                            record.topic(), record.partition()))) {
                        found.add(List.of(record.partition(), record.offset(), record.value()));
                    }
                }
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("the end did not come: " + ends);
                }
            }
        }
        return found;
    }
}
