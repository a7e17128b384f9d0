import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Transactional producers, told what to do by lines of JSON; each has a thread of its own.
 *
 * A line has the number of the order, what to do, and the name of the producer. It is answered by a
 * line with that number and the error, or "". A crash happens at once, whatever the producer is at.
 */
public final class DelayedEndClient {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, DelayedEndClient> CLIENTS = new ConcurrentHashMap<>();

    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private volatile KafkaProducer<String, String> producer;

    private DelayedEndClient() {}

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode order = JSON.readTree(line);
            String name = order.get("name").asText();
            if (order.get("do").asText().equals("crash")) {
                DelayedEndClient crashed = CLIENTS.remove(name);
                crashed.producer.close(Duration.ZERO);
                crashed.thread.shutdown();
                answer(order, "");
            } else {
                DelayedEndClient client =
                    CLIENTS.computeIfAbsent(name, none -> new DelayedEndClient());
                client.thread.execute(() -> answer(order, client.error(order)));
            }
        }
        System.exit(0);
    }

    private static void answer(JsonNode order, String error) {
        String line = JSON.createObjectNode()
            .put("order", order.get("order").asInt())
            .put("error", error)
            .toString();
        System.out.println(line);
    }

    private String error(JsonNode order) {
        try {
            perform(order);
            return "";
        } catch (ExecutionException failure) {
            return failure.getCause().toString();
        } catch (InterruptedException | RuntimeException failure) {
            return failure.toString();
        }
    }

    private void perform(JsonNode order) throws ExecutionException, InterruptedException {
        switch (order.get("do").asText()) {
            case "start" -> {
                Properties properties = new Properties();
                order.get("properties").fields().forEachRemaining(
                    entry -> properties.put(entry.getKey(), entry.getValue().asText()));
                producer = new KafkaProducer<>(properties);
                producer.initTransactions();
            }
            case "begin" -> producer.beginTransaction();
            case "send" -> producer.send(new ProducerRecord<>(
                order.get("topic").asText(), order.get("partition").asInt(), null,
                order.get("value").asText())).get();
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(order.toString());
        }
    }
}
