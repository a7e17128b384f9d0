import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Leaves a transaction open, with one record in it: --bootstrap-server HOST:PORT TOPIC TRANSACTIONAL_ID. */
public final class OpenTransaction {
    private OpenTransaction() {}

    public static void main(String[] arguments) throws ExecutionException, InterruptedException {
        List<String> words = List.of(arguments);
        Map<String, Object> properties = Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, words.get(1),
            ProducerConfig.TRANSACTIONAL_ID_CONFIG, words.get(3),
            ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, 600_000);
        StringSerializer text = new StringSerializer();
        KafkaProducer<String, String> producer = new KafkaProducer<>(properties, text, text);
        try {
            producer.initTransactions();
            producer.beginTransaction();
            long offset = producer.send(new ProducerRecord<>(words.get(2), "open")).get().offset();
            System.out.println("open at " + offset);
        } finally {
            producer.close(Duration.ZERO); // with time to wait, it would abort the transaction
        }
    }
}
