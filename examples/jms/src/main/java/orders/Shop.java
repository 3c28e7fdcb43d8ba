package orders;

import static java.util.concurrent.TimeUnit.SECONDS;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSConsumer;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.Queue;
import jakarta.jms.TextMessage;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** Sells. Speaks JMS 3.0 by RabbitMQ's JMS client. */
final class Shop implements AutoCloseable {
    private static final int PATIENCE_S = 10;

    private final Directory directory = new Directory("shop.properties");
    private final JMSContext context;
    private final BlockingQueue<Message> answers = new LinkedBlockingQueue<>();
    private long remindAtNs;

    Shop() throws Exception {
        RMQConnectionFactory factory = directory.find("broker", RMQConnectionFactory.class);
        // Tells other clients which bodies are text; this client itself uses a header.
        factory.setAmqpPropertiesCustomiser((properties, message) ->
                message instanceof TextMessage ? properties.contentType("text/plain") : properties);
        context = ((ConnectionFactory) factory).createContext();
        context.createConsumer(directory.find("answers", RMQDestination.class))
                .setMessageListener(answers::add);
    }

    /** Publishes an order to all subscribers. */
    void place(String what, int total) throws Exception {
        context.createProducer()
                .setProperty("total", total)
                .send(directory.find("orders", RMQDestination.class), what);
        Story.tell("shop", "ordered " + what + " for " + total);
    }

    /** Asks the warehouse and waits for its answer, which comes by direct reply-to. */
    void ask(String item) throws Exception {
        context.createProducer()
                .setJMSReplyTo(directory.find("answers", RMQDestination.class))
                .setTimeToLive(PATIENCE_S * 1000L)
                .send(directory.find("stock", RMQDestination.class), item);
        Message answer = answers.poll(PATIENCE_S, SECONDS);
        if (answer == null) {
            throw new IllegalStateException("no answer about " + item);
        }
        // Properties of messages from elsewhere are texts; JMS converts them.
        Story.tell("shop", item + " in stock: " + answer.getIntProperty("count"));
    }

    /** Sends itself a message that the broker holds back for this long. */
    void remindMe(String of, Duration delay) throws Exception {
        remindAtNs = System.nanoTime() + delay.toNanos();
        context.createProducer()
                .setDeliveryDelay(delay.toMillis())
                .send(directory.find("reminders", Queue.class), of);
    }

    void awaitReminder() throws Exception {
        // A separate session: the other one delivers to a listener, so it cannot call receive().
        try (JMSContext own = context.createContext(JMSContext.AUTO_ACKNOWLEDGE)) {
            JMSConsumer reminders = own.createConsumer(directory.find("reminders", Queue.class));
            String text = reminders.receiveBody(String.class, PATIENCE_S * 1000L);
            if (System.nanoTime() - remindAtNs < 0) {
                throw new IllegalStateException("too early: " + text);
            }
            Story.tell("shop", "reminder: " + text);
        }
    }

    @Override
    public void close() throws JMSException {
        context.close();
    }
}
