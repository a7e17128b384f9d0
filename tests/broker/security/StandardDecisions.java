import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * What Kafka's own authorizer decides.
 *
 * Each line of the input is a JSON object {super_users, allow_everyone, acls, questions}, answered by a
 * line with an array of booleans: for each question whether that is allowed, and whether it is for any
 * resource of the type. Kinds are the protocol's numbers; an ACL is [resource type, pattern type, name,
 * principal, host, operation, permission], a question [user, host, operation, resource type, name].
 */
final class StandardDecisions {
    private static final ObjectMapper JSON = new ObjectMapper();

    private StandardDecisions() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static ArrayNode answer(JsonNode request) throws IOException {
        ArrayNode answers = JSON.createArrayNode();
        try (StandardAuthorizer authorizer = authorizer(request)) {
            for (JsonNode question : request.get("questions")) {
                AuthorizableRequestContext context =
                        new Context(question.get(0).asText(), InetAddress.getByName(question.get(1).asText()));
                AclOperation operation = AclOperation.fromCode((byte) question.get(2).asInt());
                ResourceType type = ResourceType.fromCode((byte) question.get(3).asInt());
                ResourcePattern resource = new ResourcePattern(type, question.get(4).asText(), PatternType.LITERAL);
                Action action = new Action(operation, resource, 1, false, false);
                answers.add(authorizer.authorize(context, List.of(action)).get(0) == AuthorizationResult.ALLOWED);
                answers.add(authorizer.authorizeByResourceType(context, operation, type) == AuthorizationResult.ALLOWED);
            }
        }
        return answers;
    }

    private static StandardAuthorizer authorizer(JsonNode request) {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.configure(Map.of(
                "super.users", request.get("super_users").asText(),
                "allow.everyone.if.no.acl.found", request.get("allow_everyone").asText(),
                "node.id", "0"));
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        Map<Uuid, StandardAcl> acls = new HashMap<>();
        for (JsonNode acl : request.get("acls")) {
            acls.put(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode((byte) acl.get(0).asInt()),
                    acl.get(2).asText(),
                    PatternType.fromCode((byte) acl.get(1).asInt()),
                    acl.get(3).asText(),
                    acl.get(4).asText(),
                    AclOperation.fromCode((byte) acl.get(5).asInt()),
                    AclPermissionType.fromCode((byte) acl.get(6).asInt())));
        }
        authorizer.loadSnapshot(acls);
        authorizer.completeInitialLoad();
        return authorizer;
    }

    /** Who asks. */
    private record Context(String user, InetAddress clientAddress) implements AuthorizableRequestContext {
        @Override
        public KafkaPrincipal principal() {
            return new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user);
        }

        @Override
        public String listenerName() {
            return "PLAINTEXT";
        }

        @Override
        public SecurityProtocol securityProtocol() {
            return SecurityProtocol.PLAINTEXT;
        }

        @Override
        public int requestType() {
            return 0;
        }

        @Override
        public int requestVersion() {
            return 0;
        }

        @Override
        public String clientId() {
            return "";
        }

        @Override
        public int correlationId() {
            return 0;
        }
    }
}
