package hareline.jms.bench;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * What to run: one line of <code>name=value</code> words, values percent-encoded. A name that is
 * missing, unknown or wrong is an IllegalArgumentException that names it.
 */
final class Job {

    final String client;
    final String host;
    final int port;
    final String user;
    final String password;
    final String vhost;
    final String queue;
    final boolean isTransacted;
    final boolean isListening;
    final boolean isPersistent;
    final boolean isText;
    /** Messages per transaction; 1 where nothing is transacted. */
    final int batch;
    /** Octets, or characters of a text. */
    final int size;
    /** How many messages the sender may be ahead of the receiver. */
    final int window;
    /** How many messages the sending phase leaves in the queue at most. */
    final long limit;
    final long warmNanos;
    final long measureNanos;

    private final Map<String, String> words = new HashMap<>();

    Job(String line) {
        for (String word : line.trim().split(" ")) {
            int equals = word.indexOf('=');
            if (equals < 0) {
                throw new IllegalArgumentException("'" + word + "' is not name=value");
            }
            words.put(
                    word.substring(0, equals),
                    URLDecoder.decode(word.substring(equals + 1), StandardCharsets.UTF_8));
        }
        client = oneOf("client", "rabbitmq", "qpid");
        host = text("host");
        port = (int) number("port", 1, 65535);
        user = text("user");
        password = text("password");
        vhost = text("vhost");
        queue = text("queue");
        isTransacted = oneOf("acknowledge", "auto", "transacted").equals("transacted");
        isListening = oneOf("take", "listener", "receive").equals("listener");
        isPersistent = oneOf("mode", "persistent", "nonpersistent").equals("persistent");
        isText = oneOf("body", "bytes", "text").equals("text");
        batch = (int) number("batch", 1, 10_000);
        size = (int) number("size", 16, 1 << 20);
        window = (int) number("window", batch, 1_000_000);
        limit = number("limit", window, 100_000_000);
        warmNanos = number("warm_ms", 1, 600_000) * 1_000_000;
        measureNanos = number("measure_ms", 1, 600_000) * 1_000_000;
        if (!words.isEmpty()) {
            throw new IllegalArgumentException("nothing is called " + words.keySet());
        }
        if (!isTransacted && batch != 1) {
            throw new IllegalArgumentException("batch=" + batch + " without transactions");
        }
    }

    private String text(String name) {
        String found = words.remove(name);
        if (found == null || found.isEmpty()) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return found;
    }

    private String oneOf(String name, String one, String other) {
        String found = text(name);
        if (!found.equals(one) && !found.equals(other)) {
            throw new IllegalArgumentException(
                    name + " is " + one + " or " + other + ", not " + found);
        }
        return found;
    }

    private long number(String name, long least, long most) {
        String found = text(name);
        long value;
        try {
            value = Long.parseLong(found);
        } catch (NumberFormatException error) {
            throw new IllegalArgumentException(name + " is no number: " + found, error);
        }
        if (value < least || value > most) {
            throw new IllegalArgumentException(
                    name + " is from " + least + " to " + most + ", not " + value);
        }
        return value;
    }
}
