package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import com.rabbitmq.jms.admin.RMQConnectionFactory;
import com.rabbitmq.jms.admin.RMQDestination;
import hareline.jms.Broker;
import hareline.jms.Observer;
import hareline.jms.Patience;
import jakarta.jms.Connection;
import jakarta.jms.Destination;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/**
 * What every case of RabbitMQ's JMS client starts from: the shared broker, an observer, a started
 * connection and a session with automatic acknowledgement.
 *
 * <p>Invariants: connections opened through {@link #open} are closed and queues made through {@link
 * #queue} are deleted when the case ends; that nothing arrives is shown by an answer of the broker
 * or by what arrives after it, never by a wait.
 */
abstract class RabbitCase {
  static final long PATIENCE_MS = Patience.PATIENCE_MS;

  /** Session mode of this client alone: acknowledging a message acknowledges that one only. */
  static final int INDIVIDUAL_ACKNOWLEDGE = 4;

  protected final Broker broker = Broker.shared();
  protected Observer observer;
  protected Connection connection;
  protected Session session;
  private final List<Connection> opened = new ArrayList<>();
  private final List<String> queues = new ArrayList<>();

  @BeforeEach
  void openTheUsual() throws Exception {
    observer = new Observer(broker);
    connection = open();
    session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
  }

  @AfterEach
  void closeWhatWasOpened() throws Exception {
    for (Connection each : opened) {
      each.close();
    }
    if (observer != null) {
      for (String each : queues) {
        observer.delete(each);
      }
      observer.close();
    }
  }

  /** Skip a case about what RabbitMQ does not have, or has in a plugin that it comes without. */
  static void onlyHareline() {
    assumeFalse(Broker.isForeign(), "only Hareline has this");
  }

  static RMQConnectionFactory factory(Broker broker) {
    RMQConnectionFactory factory = new RMQConnectionFactory();
    factory.setHost(broker.host);
    factory.setPort(broker.port);
    factory.setUsername(broker.username);
    factory.setPassword(broker.password);
    factory.setVirtualHost(broker.vhost);
    return factory;
  }

  RMQConnectionFactory factory() {
    return factory(broker);
  }

  Connection open() throws JMSException {
    return open(factory());
  }

  /** A started connection that is closed when the case ends. */
  Connection open(RMQConnectionFactory factory) throws JMSException {
    Connection made = factory.createConnection();
    opened.add(made);
    made.start();
    return made;
  }

  /** A session of the usual connection. */
  Session session(int mode) throws JMSException {
    return connection.createSession(mode);
  }

  Session transacted() throws JMSException {
    return connection.createSession(true, Session.SESSION_TRANSACTED);
  }

  static String uniqueName(String prefix) {
    return Observer.uniqueName(prefix);
  }

  /** An empty durable queue as the client makes it. */
  Queue queue() throws JMSException {
    Queue made = session.createQueue(uniqueName("rabbitmq"));
    queues.add(made.getQueueName());
    return made;
  }

  /** A durable queue declared with these arguments; the client binds it to its own exchange. */
  Queue queue(Map<String, Object> arguments) throws Exception {
    String name = uniqueName("rabbitmq");
    observer.declare(name, arguments);
    queues.add(name);
    return new RMQDestination(name, true, false, arguments);
  }

  /** See to it that a queue, such as that of a durable subscription, goes when the case ends. */
  void deleteAtTheEnd(String queue) {
    queues.add(queue);
  }

  Topic topic() throws JMSException {
    return session.createTopic(uniqueName("topic"));
  }

  /** Send texts by the usual session, and wait until the broker has taken them. */
  void send(Destination destination, String... texts) throws Exception {
    send(session, destination, texts);
  }

  static void send(Session session, Destination destination, String... texts) throws Exception {
    MessageProducer producer = session.createProducer(destination);
    for (String text : texts) {
      producer.send(session.createTextMessage(text));
    }
    producer.close();
    settle(session);
  }

  /** A round trip on the session's channel: what it sent before has been routed afterwards. */
  static void settle(Session session) throws JMSException {
    session.createTopic("settled");
  }

  /** Send texts and wait until that many messages are ready. */
  void fill(Queue queue, String... texts) throws Exception {
    long before = observer.ready(queue.getQueueName());
    send(queue, texts);
    observer.awaitReady(queue.getQueueName(), before + texts.length);
  }

  static String[] numbers(int from, int to) {
    String[] texts = new String[to - from];
    for (int i = from; i < to; i++) {
      texts[i - from] = Integer.toString(i);
    }
    return texts;
  }

  /** The next message, which must come. */
  static Message take(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(PATIENCE_MS);
    assertNotNull(message, "waited " + PATIENCE_MS + " ms for a message");
    return message;
  }

  static String text(Message message) throws JMSException {
    return ((TextMessage) message).getText();
  }

  static String takeText(MessageConsumer consumer) throws JMSException {
    return text(take(consumer));
  }

  static List<String> takeTexts(MessageConsumer consumer, int count) throws JMSException {
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      texts.add(takeText(consumer));
    }
    return texts;
  }

  /** The broker must answer that nothing is ready; use {@link #settle} on the sender before. */
  static void assertNothing(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receiveNoWait();
    assertNull(message, () -> "unexpected: " + message);
  }

  /** What a consumer of a session with automatic acknowledgement has waiting now. */
  static List<String> drainTexts(MessageConsumer consumer) throws JMSException {
    List<String> texts = new ArrayList<>();
    for (Message each = consumer.receiveNoWait(); each != null; each = consumer.receiveNoWait()) {
      texts.add(text(each));
    }
    return texts;
  }

  /** What is in the queue, in its order, taken by a session of its own. */
  List<String> drained(Queue queue, int count) throws Exception {
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    List<String> texts = takeTexts(own.createConsumer(queue), count);
    own.close();
    assertEquals(0, observer.ready(queue.getQueueName()), "there is more in the queue");
    return texts;
  }

  static List<String> texts(Enumeration<?> messages) throws JMSException {
    List<String> texts = new ArrayList<>();
    while (messages.hasMoreElements()) {
      texts.add(text((Message) messages.nextElement()));
    }
    return texts;
  }

  /** The messages of one listener, in the order they came. */
  static final class Inbox {
    private final BlockingQueue<Message> messages = new LinkedBlockingQueue<>();

    Inbox(MessageConsumer consumer) throws JMSException {
      consumer.setMessageListener(messages::add);
    }

    Message take() throws InterruptedException {
      Message message = messages.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
      if (message == null) {
        fail("waited " + PATIENCE_MS + " ms for a message to the listener");
      }
      return message;
    }

    List<String> takeTexts(int count) throws Exception {
      List<String> texts = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        texts.add(text(take()));
      }
      return texts;
    }

    int size() {
      return messages.size();
    }
  }
}
