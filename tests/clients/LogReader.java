import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads partition 0 of topics from a place to the end, as those do that load a topic when they start.
 *
 * Its argument is HOST:PORT. Each line of its input is a topic, an isolation level, and an offset or @
 * and a timestamp, separated by tabs. It answers with a line for each record (offset, timestamp, key,
 * value; the latter in base64, - for null), then with "end" and its position; or with "failed".
 */
public final class LogReader {
    private static final long PATIENCE_NS = 90_000_000_000L;

    private LogReader() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t");
            try {
                System.out.println("end\t" + read(arguments[0], words[0], words[1], words[2]));
            } catch (RuntimeException failure) {
                System.out.println("failed\t" + failure);
            }
            System.out.flush();
        }
    }

    private static long read(String bootstrap, String topic, String isolation, String start) {
        Map<String, Object> properties = Map.of(
            "bootstrap.servers", bootstrap, "isolation.level", isolation, "auto.offset.reset", "none");
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, bytes, bytes)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            List<TopicPartition> partitions = List.of(partition);
            consumer.assign(partitions);
            long end = consumer.endOffsets(partitions).get(partition);
            consumer.seek(partition, offset(consumer, partition, start, end));
            long deadline = System.nanoTime() + PATIENCE_NS;
            while (consumer.position(partition) < end) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(
                        "at " + consumer.position(partition) + " of " + end + " when its time was over");
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.offset() + "\t" + record.timestamp()
                        + "\t" + text(record.key()) + "\t" + text(record.value()));
                }
            }
            return consumer.position(partition);
        }
    }

    private static long offset(
            KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, String start, long end) {
        if (!start.startsWith("@")) {
            return Long.parseLong(start);
        }
        Map<TopicPartition, Long> times = Map.of(partition, Long.parseLong(start.substring(1)));
        OffsetAndTimestamp found = consumer.offsetsForTimes(times).get(partition);
        return found == null ? end : found.offset();
    }

    private static String text(byte[] data) {
        return data == null ? "-" : Base64.getEncoder().encodeToString(data);
    }
}
