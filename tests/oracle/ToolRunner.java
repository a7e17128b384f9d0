import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of command-line tools, many in one JVM and some at the same time, each as if it
 * had a process of its own: standard streams, exit code, shutdown hooks and what the tools keep in
 * static fields belong to the call.
 *
 * Its arguments are the jars of the tools; what they need is on the class path, without them.
 * Each line of its input is a JSON object; each is answered by one line, when it is done:
 * {id, main, arguments, stdin, timeout_ms[, ready]} runs a tool to its end, or, with ready, until its
 * output matches that expression; then {id, stop: true} ends it as SIGTERM would. The answer holds id,
 * code (absent if the time was over or the tool goes on), stdout and stderr.
 */
public final class ToolRunner {
    private static final long CLOSING_MS = 5_000;
    private static final long HOOK_MS = 60_000; // what a hook has not printed by then is missed
    private static final long GLANCE_MS = 5;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final InheritableThreadLocal<Call> CURRENT = new InheritableThreadLocal<>();
    private static final Map<Long, Call> RUNNING = new ConcurrentHashMap<>();
    private static final PrintStream ANSWERS = System.out;
    private static final PrintStream COMPLAINTS = System.err;
    private static final List<URL> TOOLS = new ArrayList<>();

    private ToolRunner() {}

    public static void main(String[] jars) throws IOException {
        for (String jar : jars) {
            TOOLS.add(Path.of(jar).toUri().toURL());
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setIn(new InputOfCall());
        System.setOut(new PrintStream(new OutputOfCall(false), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new OutputOfCall(true), true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> CURRENT.get().exit(code));
        Exit.setHaltProcedure((code, message) -> CURRENT.get().exit(code));
        Exit.setShutdownHookAdder((name, work) -> CURRENT.get().hooks.add(new Thread(work, name)));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode request = JSON.readTree(line);
            new Thread(() -> answer(request)).start();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(JsonNode request) {
        long id = request.get("id").asLong();
        Call call = RUNNING.computeIfAbsent(id, ignored -> new Call());
        ObjectNode answer = JSON.createObjectNode().put("id", id);
        try {
            if (!request.has("stop")) {
                call.start(request);
                long timeoutMs = request.get("timeout_ms").asLong();
                Integer code = call.code(timeoutMs, request.path("ready").asText(""));
                if (code != null) {
                    answer.put("code", code);
                }
            }
            if (!request.has("ready")) {
                call.close();
                RUNNING.remove(id);
            }
        } catch (InterruptedException | ReflectiveOperationException failure) {
            failure.printStackTrace(COMPLAINTS);
            Runtime.getRuntime().halt(1);
        }
        answer.put("stdout", call.text(false)).put("stderr", call.text(true));
        synchronized (ANSWERS) {
            ANSWERS.println(answer);
            ANSWERS.flush();
        }
    }

    /** Unwinds the thread in which a tool exits. */
    private static final class Exited extends Error {
        private static final long serialVersionUID = 1;

        private Exited() {
            super(null, null, false, false);
        }
    }

    /** One run of a tool. Its threads know it, and so do those that they start. */
    private static final class Call {
        private final ByteArrayOutputStream stdout = new ByteArrayOutputStream();
        private final ByteArrayOutputStream stderr = new ByteArrayOutputStream();
        private final CompletableFuture<Integer> ended = new CompletableFuture<>();
        private final List<Thread> hooks = new CopyOnWriteArrayList<>();
        private final ThreadGroup group = new ThreadGroup("call");
        private InputStream stdin = InputStream.nullInputStream();
        private Thread thread;

        private void start(JsonNode request) throws ReflectiveOperationException {
            stdin = new ByteArrayInputStream(request.get("stdin").asText().getBytes(StandardCharsets.UTF_8));
            URLClassLoader loader = new URLClassLoader(TOOLS.toArray(URL[]::new));
            Class<?> owner = Class.forName(request.get("main").asText(), true, loader);
            Method tool = owner.getMethod("main", String[].class);
            String[] arguments = JSON.convertValue(request.get("arguments"), String[].class);
            boolean goesOn = request.has("ready");
            thread = new Thread(group, () -> {
                CURRENT.set(this);
                int code = run(tool, arguments);
                if (code != 0 || !goesOn) {
                    ended.complete(code);
                }
            }, "main");
            thread.setContextClassLoader(loader);
            thread.start();
        }

        private static int run(Method tool, String[] arguments) {
            try {
                tool.invoke(null, (Object) arguments);
                return 0;
            } catch (InvocationTargetException raised) {
                if (!(raised.getCause() instanceof Exited)) {
                    System.err.print("Exception in thread \"main\" ");
                    raised.getCause().printStackTrace();
                }
                return 1;
            } catch (IllegalAccessException failure) {
                throw new IllegalStateException(failure);
            }
        }

        /** The first exit is the one that counts: in a process of its own, nothing comes after it. */
        private void exit(int code) {
            ended.complete(code);
            throw new Exited();
        }

        /** Returns null if the tool goes on: its time is over, or it has printed what `ready` matches. */
        private Integer code(long timeoutMs, String ready) throws InterruptedException {
            Pattern awaited = Pattern.compile(ready, Pattern.MULTILINE);
            long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs);
            while (System.nanoTime() < deadline) {
                try {
                    return ended.get(GLANCE_MS, TimeUnit.MILLISECONDS);
                } catch (TimeoutException goesOn) {
                    if (!ready.isEmpty() && awaited.matcher(text(false) + text(true)).find()) {
                        return null;
                    }
                } catch (ExecutionException impossible) {
                    throw new IllegalStateException(impossible);
                }
            }
            return null;
        }

        /** Runs the hooks, as the end of a process does, and leaves no thread of the tool behind. */
        private void close() throws InterruptedException, ReflectiveOperationException {
            hooks.addAll(takeRuntimeHooks(group));
            hooks.forEach(Thread::start);
            for (Thread hook : hooks) {
                hook.join(HOOK_MS);
            }
            thread.join(ended.isDone() || !hooks.isEmpty() ? CLOSING_MS : 1);
            if (thread.isAlive()) {
                group.interrupt();
                thread.join(CLOSING_MS);
            }
        }

        private boolean isHeard(Thread writer) {
            return !ended.isDone() || hooks.contains(writer);
        }

        private synchronized void write(boolean error, byte[] bytes, int offset, int length) {
            if (isHeard(Thread.currentThread())) {
                (error ? stderr : stdout).write(bytes, offset, length);
            }
        }

        private synchronized String text(boolean error) {
            return (error ? stderr : stdout).toString(StandardCharsets.UTF_8);
        }
    }

    /** Takes those hooks from the JVM's own list whose threads were made in a group. */
    private static List<Thread> takeRuntimeHooks(ThreadGroup group) throws ReflectiveOperationException {
        Class<?> owner = Class.forName("java.lang.ApplicationShutdownHooks");
        Field field = owner.getDeclaredField("hooks");
        field.setAccessible(true);
        List<Thread> taken = new ArrayList<>();
        synchronized (owner) {
            for (Object hook : ((Map<?, ?>) field.get(null)).keySet()) {
                if (((Thread) hook).getThreadGroup() == group) {
                    taken.add((Thread) hook);
                }
            }
        }
        taken.forEach(Runtime.getRuntime()::removeShutdownHook);
        return taken;
    }

    /** System.out or System.err: what a thread writes goes to its call. */
    private static final class OutputOfCall extends OutputStream {
        private final boolean error;

        private OutputOfCall(boolean error) {
            this.error = error;
        }

        @Override
        public void write(int octet) {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            Call call = CURRENT.get();
            if (call == null) {
                COMPLAINTS.write(bytes, offset, length);
            } else {
                call.write(error, bytes, offset, length);
            }
        }
    }

    /** System.in: each call has its own. */
    private static final class InputOfCall extends InputStream {
        @Override
        public int read() throws IOException {
            return CURRENT.get().stdin.read();
        }

        @Override
        public int read(byte[] bytes, int offset, int length) throws IOException {
            return CURRENT.get().stdin.read(bytes, offset, length);
        }
    }
}
