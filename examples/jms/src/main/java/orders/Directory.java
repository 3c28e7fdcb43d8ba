package orders;

import com.rabbitmq.jms.admin.RMQObjectFactory;
import java.io.IOException;
import java.io.InputStream;
import java.util.Hashtable;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.naming.CompositeName;

/**
 * Objects of RabbitMQ's JMS client by name, from a file, without a container. A container has its own
 * JNDI for this, which passes the same keys to the same factory.
 */
final class Directory {
    private static final Pattern VARIABLE = Pattern.compile("\\$\\{(\\w+)}");

    private final Properties entries = new Properties();

    Directory(String file) throws IOException {
        try (InputStream stream = Directory.class.getResourceAsStream("/" + file)) {
            entries.load(stream);
        }
    }

    /** A new object from the keys "name.*". */
    <T> T find(String name, Class<T> type) throws Exception {
        Hashtable<String, String> description = new Hashtable<>();
        for (String key : entries.stringPropertyNames()) {
            if (key.startsWith(name + ".")) {
                description.put(key.substring(name.length() + 1), expand(entries.getProperty(key)));
            }
        }
        Object found = new RMQObjectFactory()
                .getObjectInstance(name, new CompositeName(name), null, description);
        return type.cast(found);
    }

    private static String expand(String text) {
        return VARIABLE.matcher(text).replaceAll(
                variable -> Matcher.quoteReplacement(System.getenv(variable.group(1))));
    }
}
