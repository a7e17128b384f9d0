import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileWriter;
import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * A processor in Java; exactly_once_settings.py tells what it does and writes.
 *
 * Its argument is JSON: consumer and producer (properties), name, source, target, page,
 * abort_every, aborted, keys and target_partitions. It ends when its standard input does.
 */
public final class ExactlyOnceProcessor {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration POLL = Duration.ofMillis(50);
    private static final Duration LEAVE = Duration.ofSeconds(5);
    private static volatile boolean stopping;

    private final JsonNode settings;
    private final Writer page;
    private final String life = UUID.randomUUID().toString().substring(0, 8);
    private KafkaConsumer<byte[], String> consumer;
    private KafkaProducer<byte[], String> producer;
    private long transactions;

    private ExactlyOnceProcessor(JsonNode settings) throws IOException {
        this.settings = settings;
        this.page = new FileWriter(settings.get("page").asText(), StandardCharsets.UTF_8, true);
        this.consumer = newConsumer();
        this.producer = newProducer();
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
        new ExactlyOnceProcessor(JSON.readTree(arguments[0])).run();
    }

    private Properties properties(String client) {
        Properties properties = new Properties();
        settings.get(client).properties()
            .forEach(entry -> properties.put(entry.getKey(), entry.getValue().asText()));
        return properties;
    }

    private void run() throws IOException {
        while (!stopping) {
            try {
                ConsumerRecords<byte[], String> records = read();
                if (!records.isEmpty()) {
                    process(records);
                }
            } catch (KafkaException lost) { // its group does not know it any more, for example
                say("failed", Map.of("reason", "consumer: " + lost));
                consumer.close(CloseOptions.timeout(LEAVE));
                consumer = newConsumer();
            }
        }
        producer.close();
        consumer.close();
    }

    /** It begins with what is committed. */
    private KafkaConsumer<byte[], String> newConsumer() {
        KafkaConsumer<byte[], String> created = new KafkaConsumer<>(properties("consumer"));
        created.subscribe(List.of(settings.get("source").asText()));
        return created;
    }

    /** A consumer that finds no committed offset for too long says so, and is asked again. */
    private ConsumerRecords<byte[], String> read() throws IOException {
        try {
            return consumer.poll(POLL);
        } catch (RetriableException late) {
            say("failed", Map.of("reason", "poll: " + late));
            return ConsumerRecords.empty();
        }
    }

    /** Whatever another producer of this name had begun is aborted. */
    private KafkaProducer<byte[], String> newProducer() throws IOException {
        while (true) {
            KafkaProducer<byte[], String> created = new KafkaProducer<>(properties("producer"));
            try {
                created.initTransactions();
                return created;
            } catch (KafkaException failure) {
                say("failed", Map.of("reason", failure.toString()));
                created.close(Duration.ZERO);
            }
        }
    }

    private void process(ConsumerRecords<byte[], String> records) throws IOException {
        String transaction =
            settings.get("name").asText() + "-" + life + "-" + transactions;
        try {
            transact(transaction, records);
        } catch (ApplicationRecoverableException | OutOfOrderSequenceException
                | AuthorizationException fatal) { // a fenced producer is among the first (KIP-1050)
            recreate(fatal);
        } catch (KafkaException failure) {
            abort(transaction, failure);
        }
        transactions++;
    }

    private void transact(String transaction, ConsumerRecords<byte[], String> records)
            throws IOException {
        boolean aborts =
            transactions % settings.get("abort_every").asInt() == settings.get("aborted").asInt();
        String mark = (aborts ? "abort " : "commit ") + transaction + " " + records.count();
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], String> record : records) {
            long number = Long.parseLong(record.value());
            int partition = (int) (number % settings.get("keys").asInt()
                % settings.get("target_partitions").asInt());
            ProducerRecord<byte[], String> copy = new ProducerRecord<>(
                settings.get("target").asText(), partition, record.key(), record.value());
            copy.headers().add("transaction", mark.getBytes(StandardCharsets.UTF_8));
            producer.send(copy);
            offsets.put(
                new TopicPartition(record.topic(), record.partition()),
                new OffsetAndMetadata(record.offset() + 1));
        }
        if (aborts) {
            producer.flush(); // else the client drops what it has not sent
            producer.abortTransaction();
            say("aborted", Map.of("transaction", transaction, "reason", ""));
            rewind();
            return;
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        commit();
        say("committed", Map.of("transaction", transaction, "records", records.count()));
    }

    /** A commit that took too long has to be asked for again; it cannot be aborted. */
    private void commit() {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException late) {
                continue;
            }
        }
    }

    private void abort(String transaction, KafkaException cause) throws IOException {
        try {
            producer.abortTransaction();
        } catch (KafkaException failure) {
            recreate(failure);
            return;
        }
        say("aborted", Map.of("transaction", transaction, "reason", cause.toString()));
        rewind();
    }

    private void recreate(KafkaException cause) throws IOException {
        say("failed", Map.of("reason", cause.toString()));
        producer.close(Duration.ZERO);
        producer = newProducer();
        rewind();
    }

    /** Goes back to what is committed. */
    private void rewind() throws IOException {
        Map<TopicPartition, OffsetAndMetadata> committed = committed();
        for (TopicPartition place : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(place);
            consumer.seek(place, offset == null ? 0 : offset.offset());
        }
    }

    private Map<TopicPartition, OffsetAndMetadata> committed() throws IOException {
        while (true) {
            try {
                return consumer.committed(consumer.assignment());
            } catch (RetriableException late) {
                say("failed", Map.of("reason", "committed offsets: " + late));
            }
        }
    }

    private void say(String event, Map<String, Object> fields) throws IOException {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("at_s", System.nanoTime() / 1e9);
        line.putAll(fields);
        page.write(JSON.writeValueAsString(line) + "\n");
        page.flush();
    }
}
