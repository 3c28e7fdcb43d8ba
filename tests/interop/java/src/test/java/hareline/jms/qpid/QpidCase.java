package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.fail;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import hareline.jms.Broker;
import hareline.jms.Observer;
import hareline.jms.Patience;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.client.AMQConnectionFactory;
import org.apache.qpid.client.AMQSession;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/**
 * What every case of the Qpid client starts from: the shared broker, an observer, connections.
 *
 * <p>Invariants: connections opened through {@link #open} are closed when the case ends; that
 * nothing arrives is shown by what arrives after it, never by a wait; the broker has seen a probe
 * for AMQP 0-10 from here before the first case, so that its product name does not depend on the
 * order of the cases.
 */
abstract class QpidCase {
  static final long PATIENCE_MS = Patience.PATIENCE_MS;
  private static final String VERSION_PROPERTY = "qpid.amqp.version";
  private static boolean hasProbed;

  protected final Broker broker = Broker.shared();

  /** What came to the exception listeners of the connections. */
  protected final BlockingQueue<JMSException> raised = new LinkedBlockingQueue<>();

  protected Observer observer;
  private final List<Connection> opened = new ArrayList<>();

  /** The syntax in which the cases of a class name their destinations. */
  protected Syntax syntax() {
    return Syntax.ADDR;
  }

  @BeforeEach
  void startObserving() throws Exception {
    if (!hasProbed) {
      open("0-10", new Url(broker)).close();
      hasProbed = true;
    }
    observer = new Observer(broker);
  }

  @AfterEach
  void closeWhatWasOpened() throws Exception {
    for (Connection each : opened) {
      each.close();
    }
    observer.close();
  }

  /** Skip a case about what only Hareline has, such as a queue argument. */
  static void onlyHareline() {
    assumeFalse(Broker.isForeign(), "only Hareline has this");
  }

  /** Connect, in the way that belongs to the syntax, and start. */
  protected Connection connect(Url url) throws JMSException {
    Connection made = open(syntax().version, url);
    made.start();
    return made;
  }

  protected Connection connect() throws JMSException {
    return connect(url());
  }

  protected Url url() {
    return new Url(broker).clientId(name("client"));
  }

  /** Connect with this value of qpid.amqp.version, and do not start. */
  protected Connection open(String version, Url url) throws JMSException {
    System.setProperty(VERSION_PROPERTY, version);
    try {
      Connection made = new AMQConnectionFactory(url.toString()).createConnection();
      opened.add(made);
      made.setExceptionListener(raised::add);
      return made;
    } catch (org.apache.qpid.url.URLSyntaxException mistake) {
      throw new IllegalArgumentException(url.toString(), mistake);
    } finally {
      System.clearProperty(VERSION_PROPERTY);
    }
  }

  protected Session autoSession(Connection connection) throws JMSException {
    return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
  }

  protected Session transacted(Connection connection) throws JMSException {
    return connection.createSession(true, Session.SESSION_TRANSACTED);
  }

  static String name(String prefix) {
    return Observer.uniqueName(prefix);
  }

  /** A durable queue that exists, empty, and its destination. */
  protected Queue queue(Session session, String name) throws Exception {
    return queue(session, name, Map.of());
  }

  protected Queue queue(Session session, String name, Map<String, Object> arguments)
      throws Exception {
    observer.declare(name, arguments);
    String text = syntax() == Syntax.BURL ? syntax().queue(name) : "ADDR:" + name;
    return session.createQueue(text);
  }

  protected Topic topic(Session session, String name) throws JMSException {
    return session.createTopic(syntax().topic(name));
  }

  static void send(Session session, Destination destination, String... texts) throws JMSException {
    MessageProducer producer = session.createProducer(destination);
    for (String text : texts) {
      producer.send(session.createTextMessage(text));
    }
    producer.close();
  }

  /** Send "0", "1", ..., the number also as the property n. */
  static void sendNumbers(Session session, Destination destination, int count)
      throws JMSException {
    MessageProducer producer = session.createProducer(destination);
    for (int i = 0; i < count; i++) {
      TextMessage message = session.createTextMessage(Integer.toString(i));
      message.setIntProperty("n", i);
      producer.send(message);
    }
    producer.close();
  }

  static List<String> numbers(int from, int to) {
    List<String> texts = new ArrayList<>();
    for (int i = from; i < to; i++) {
      texts.add(Integer.toString(i));
    }
    return texts;
  }

  static Message receive(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(PATIENCE_MS);
    assertNotNull(message, "no message within " + PATIENCE_MS + " ms");
    return message;
  }

  static String text(Message message) throws JMSException {
    return ((TextMessage) message).getText();
  }

  static String receiveText(MessageConsumer consumer) throws JMSException {
    return text(receive(consumer));
  }

  static List<String> receiveTexts(MessageConsumer consumer, int count) throws JMSException {
    List<String> texts = new ArrayList<>();
    while (texts.size() < count) {
      texts.add(receiveText(consumer));
    }
    return texts;
  }

  /** Nothing is left for this consumer: what is sent now is the next that it receives. */
  static void assertNextIs(String text, Session sender, Destination to, MessageConsumer consumer)
      throws JMSException {
    send(sender, to, text);
    assertEquals(text, receiveText(consumer));
  }

  static List<String> browse(QueueBrowser browser) throws JMSException {
    List<String> texts = new ArrayList<>();
    Enumeration<?> messages = browser.getEnumeration();
    while (messages.hasMoreElements()) {
      texts.add(text((Message) messages.nextElement()));
    }
    return texts;
  }

  static <T> T take(BlockingQueue<T> from, String what) throws InterruptedException {
    T taken = from.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
    if (taken == null) {
      fail("waited " + PATIENCE_MS + " ms for " + what);
    }
    return taken;
  }

  static AMQSession<?, ?> qpid(Session session) {
    return (AMQSession<?, ?>) session;
  }

  /** The chain of causes of an exception, linked ones of JMS among them. */
  static <T extends Throwable> T cause(Throwable failure, Class<T> wanted) {
    for (Throwable each = failure; each != null; each = next(each)) {
      if (wanted.isInstance(each)) {
        return wanted.cast(each);
      }
    }
    return fail("no " + wanted.getSimpleName() + " in " + failure, failure);
  }

  private static Throwable next(Throwable each) {
    if (each.getCause() == null && each instanceof JMSException) {
      return ((JMSException) each).getLinkedException();
    }
    return each.getCause();
  }
}
