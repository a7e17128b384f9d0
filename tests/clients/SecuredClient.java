import java.io.FileReader;
import java.io.IOException;
import java.io.Reader;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Does one thing with the clients of Apache Kafka, and tells what came of it.
 *
 * Its arguments are a properties file, an action, and what that is about. It prints what it read, a
 * record a line; then "done", or "refused" and the simple names of the classes of the exception and of
 * its causes. It fails if records do not come in time or in order.
 */
public final class SecuredClient {
    private static final long PATIENCE_MS = 120_000;
    private static final String[] ALLOWED = {
        "org.apache.kafka.sasl.oauthbearer.allowed.urls", "org.apache.kafka.sasl.oauthbearer.allowed.files"};
    private static final Set<String> URLS = new HashSet<>();

    private SecuredClient() {}

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Properties properties = new Properties();
        try (Reader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        allow(properties.getProperty("sasl.oauthbearer.token.endpoint.url"));
        try {
            act(properties, arguments[1], List.of(arguments).subList(2, arguments.length));
            System.out.println("done");
        } catch (ExecutionException | TimeoutException | RuntimeException refused) {
            System.out.println("refused\t" + names(refused));
        }
    }

    /** Lets clients of this JVM have tokens from there; they take them from nowhere else. */
    private static synchronized void allow(String url) {
        if (url != null && URLS.add(url)) {
            for (String property : ALLOWED) {
                System.setProperty(property, String.join(",", URLS));
            }
        }
    }

    private static void act(Properties properties, String action, List<String> about)
            throws ExecutionException, InterruptedException, TimeoutException {
        switch (action) {
            case "connect" -> connect(properties);
            case "create" -> create(properties, about.get(0));
            case "send" -> send(properties, about.get(0), about.subList(1, about.size()));
            case "send-until-refused" -> sendUntilRefused(properties, about.get(0));
            case "read" -> read(properties, about.get(0), about.get(1), Integer.parseInt(about.get(2)));
            case "transact" -> transact(properties, about.get(0), about.get(1));
            case "transact-until-refused" -> transactUntilRefused(properties, about.get(0), about.get(1));
            case "load" -> load(properties, about.get(0), about.get(1), Integer.parseInt(about.get(2)));
            default -> throw new IllegalArgumentException(action);
        }
    }

    private static void connect(Properties properties)
            throws ExecutionException, InterruptedException, TimeoutException {
        try (Admin admin = Admin.create(properties)) {
            admin.describeCluster().nodes().get(PATIENCE_MS, TimeUnit.MILLISECONDS);
        }
    }

    private static void create(Properties properties, String topic)
            throws ExecutionException, InterruptedException, TimeoutException {
        try (Admin admin = Admin.create(properties)) {
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all()
                .get(PATIENCE_MS, TimeUnit.MILLISECONDS);
        }
    }

    private static void send(Properties properties, String topic, List<String> values)
            throws ExecutionException, InterruptedException, TimeoutException {
        try (KafkaProducer<String, String> producer = producer(properties)) {
            for (String value : values) {
                sendOne(producer, topic, value);
            }
        }
    }

    private static void sendUntilRefused(Properties properties, String topic)
            throws ExecutionException, InterruptedException, TimeoutException {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaProducer<String, String> producer = producer(properties)) {
            while (System.currentTimeMillis() < deadline) {
                sendOne(producer, topic, "again");
            }
        }
    }

    private static void read(Properties properties, String topic, String group, int count) {
        int read = 0;
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaConsumer<String, String> consumer = consumer(properties, group)) {
            consumer.subscribe(List.of(topic));
            while (read < count) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    System.out.println(record.value());
                    read++;
                }
                consumer.commitSync();
                if (System.currentTimeMillis() > deadline) {
                    throw new AssertionError(read + " records when the time was over");
                }
            }
        }
    }

    private static void transact(Properties properties, String topic, String transactionalId)
            throws ExecutionException, InterruptedException, TimeoutException {
        properties.setProperty("transactional.id", transactionalId);
        try (KafkaProducer<String, String> producer = producer(properties)) {
            producer.initTransactions();
            producer.beginTransaction();
            sendOne(producer, topic, "transacted");
            producer.commitTransaction();
        }
    }

    private static void transactUntilRefused(Properties properties, String topic, String transactionalId)
            throws ExecutionException, InterruptedException, TimeoutException {
        properties.setProperty("transactional.id", transactionalId);
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaProducer<String, String> producer = producer(properties)) {
            producer.initTransactions();
            while (System.currentTimeMillis() < deadline) {
                producer.beginTransaction();
                sendOne(producer, topic, "transacted");
                producer.commitTransaction();
            }
        }
    }

    /** Sends and reads numbers until both sides have authenticated again that often. */
    private static void load(Properties properties, String topic, String group, int times)
            throws ExecutionException, InterruptedException, TimeoutException {
        long sent = 0;
        long read = 0;
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaProducer<String, String> producer = producer(properties);
                KafkaConsumer<String, String> consumer = consumer(properties, group)) {
            consumer.subscribe(List.of(topic));
            boolean sending = true;
            while (sending || read < sent) {
                sending = again(producer.metrics().values()) < times
                    || again(consumer.metrics().values()) < times;
                for (int one = 0; sending && one < 10; one++) {
                    sendOne(producer, topic, Long.toString(sent++));
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    if (!record.value().equals(Long.toString(read++))) {
                        throw new AssertionError(record.value() + " came where another belongs");
                    }
                }
                if (System.currentTimeMillis() > deadline) {
                    throw new AssertionError(read + " of " + sent + " when the time was over");
                }
            }
        }
        System.out.println(sent);
    }

    private static double again(Iterable<? extends Metric> metrics) {
        double total = 0;
        for (Metric metric : metrics) {
            MetricName name = metric.metricName();
            if (name.name().equals("successful-reauthentication-total") && !name.tags().containsKey("node-id")) {
                total += (Double) metric.metricValue();
            }
        }
        return total;
    }

    private static void sendOne(KafkaProducer<String, String> producer, String topic, String value)
            throws ExecutionException, InterruptedException, TimeoutException {
        producer.send(new ProducerRecord<>(topic, value)).get(PATIENCE_MS, TimeUnit.MILLISECONDS);
    }

    private static KafkaProducer<String, String> producer(Properties properties) {
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Properties properties, String group) {
        Properties all = new Properties();
        all.putAll(properties);
        all.setProperty("group.id", group);
        all.setProperty("auto.offset.reset", "earliest");
        all.setProperty("enable.auto.commit", "false");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private static String names(Throwable refused) {
        StringBuilder names = new StringBuilder();
        for (Throwable one = refused; one != null; one = one.getCause()) {
            names.append(names.length() == 0 ? "" : " ").append(one.getClass().getSimpleName());
        }
        return names.toString();
    }
}
