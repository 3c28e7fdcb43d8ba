package orders;

import java.util.Map;
import java.util.Properties;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.naming.Context;
import javax.naming.InitialContext;

/** Sends goods. Speaks JMS 1.1 by Apache Qpid's JMS client. */
final class Warehouse implements AutoCloseable {
    private static final Map<String, Integer> STOCK = Map.of("hares", 120, "tortoises", 200);
    private static final String LARGE_ORDERS = "total >= 100";
    private static final int LAST_ORDER_MS = 1000;

    private final Context directory;
    private final Connection connection;

    Warehouse() throws Exception {
        Properties environment = new Properties();
        environment.load(Warehouse.class.getResourceAsStream("/warehouse.properties"));
        environment.put(
                Context.PROVIDER_URL, Warehouse.class.getResource("/warehouse.properties").toString());
        directory = new InitialContext(environment);
        connection = ((ConnectionFactory) directory.lookup("broker")).createConnection();
        connection.start();
    }

    /** Subscribes durably: the broker keeps large orders for the warehouse, also while it is away. */
    void subscribe() throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        subscription(session).close();
        Story.tell("warehouse", "subscribed to orders with " + LARGE_ORDERS);
    }

    /** Answers questions at the address that each question brings. */
    void answerQuestions() throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer anywhere = session.createProducer(null);
        session.createConsumer((Destination) directory.lookup("stock")).setMessageListener(question -> {
            try {
                Message answer = session.createMessage();
                answer.setIntProperty("count", STOCK.getOrDefault(((TextMessage) question).getText(), 0));
                anywhere.send(question.getJMSReplyTo(), answer);
            } catch (JMSException failure) {
                throw new IllegalStateException(failure);
            }
        });
    }

    /** Takes the orders that have arrived; each order and its note of dispatch are one transaction. */
    void dispatchOrders() throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer notes = session.createProducer((Destination) directory.lookup("dispatched"));
        MessageConsumer orders = subscription(session);
        boolean isFirst = true;
        for (Message order; (order = orders.receive(LAST_ORDER_MS)) != null; ) {
            String what = ((TextMessage) order).getText();
            TextMessage note = session.createTextMessage(what);
            note.setIntProperty("total", order.getIntProperty("total"));
            notes.send(note);
            if (isFirst) {
                isFirst = false;
                session.rollback();
                Story.tell("warehouse", "dropped " + what + ", and starts again");
            } else {
                session.commit();
                Story.tell("warehouse", "dispatched " + what);
            }
        }
    }

    private MessageConsumer subscription(Session session) throws Exception {
        Topic orders = (Topic) directory.lookup("orders");
        return session.createDurableSubscriber(orders, "large-orders", LARGE_ORDERS, false);
    }

    @Override
    public void close() throws JMSException {
        connection.close();
    }
}
