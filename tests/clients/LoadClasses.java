import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Loads what programs with Kafka's clients use, and the classes named by its arguments. */
final class LoadClasses {
    private static final Map<String, Object> NOWHERE = Map.of("bootstrap.servers", "127.0.0.1:1");
    private static final int GIVE_UP_MS = 200;

    public static void main(String[] names) throws ClassNotFoundException, InterruptedException {
        for (String name : names) {
            Class.forName(name);
        }
        for (ApiMessageType type : ApiMessageType.values()) {
            if (type.highestSupportedVersion(true) >= 0) {
                type.newRequest();
                type.newResponse();
            }
        }
        new KafkaProducer<>(NOWHERE, new ByteArraySerializer(), new ByteArraySerializer())
                .close(Duration.ZERO);
        consume("classic");
        consume("consumer");
        try (Admin admin = Admin.create(NOWHERE)) {
            DescribeClusterOptions options = new DescribeClusterOptions().timeoutMs(GIVE_UP_MS);
            admin.describeCluster(options).nodes().get();
        } catch (ExecutionException nobodyAnswers) {
            return;
        }
        throw new IllegalStateException("a broker answers on port 1");
    }

    private static void consume(String protocol) {
        Map<String, Object> settings =
                Map.of(
                        "bootstrap.servers", "127.0.0.1:1",
                        "group.id", "none",
                        "group.protocol", protocol);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.poll(Duration.ofMillis(GIVE_UP_MS));
        } catch (IllegalStateException noSubscription) {
            return;
        }
        throw new IllegalStateException("polled without a subscription");
    }
}
