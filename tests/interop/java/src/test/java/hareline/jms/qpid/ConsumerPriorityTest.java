package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.junit.jupiter.api.Test;

/**
 * The consumer argument x-priority, which this client can send as text only.
 *
 * <p>A consumer without it has the highest priority there is, so whoever asks for one is served
 * when no ordinary consumer can be.
 */
class ConsumerPriorityTest extends QpidCase {
  private final BlockingQueue<String> received = new LinkedBlockingQueue<>();

  private static String burl(String name, Object priority) {
    return "BURL:direct://amq.direct/" + name + "/" + name + "?x-priority='" + priority + "'";
  }

  private static String addr(String name, Object priority) {
    return "ADDR:"
        + name
        + "; {create: always, node: {type: queue, durable: true}, link: {x-subscribe:"
        + (" {arguments: {x-priority: '" + priority + "'}}}}");
  }

  /** A consumer whose messages are recorded as "label text" and acknowledged by nobody. */
  private MessageConsumer record(String label, Url url, String destination, String selector)
      throws JMSException {
    Session session = connect(url).createSession(false, Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer =
        session.createConsumer(session.createQueue(destination), selector);
    consumer.setMessageListener(
        message -> {
          try {
            received.add(label + " " + text(message));
          } catch (JMSException failure) {
            received.add(failure.toString());
          }
        });
    return consumer;
  }

  private List<String> nextThree() throws InterruptedException {
    return List.of(
        take(received, "a message"), take(received, "a message"), take(received, "a message"));
  }

  @Test
  void aConsumerOfLowPriorityGetsMessagesWhenItIsAlone() throws Exception {
    for (boolean isBurl : new boolean[] {true, false}) {
      String name = name("alone");
      observer.declare(name, Map.of());
      Session session = autoSession(connect());
      String address = isBurl ? burl(name, 10) : addr(name, 10);
      MessageConsumer consumer = session.createConsumer(session.createQueue(address));
      assertNextIs("x", session, session.createQueue("ADDR:" + name), consumer);
    }
  }

  @Test
  void aConsumerWithoutAPriorityIsServedFirst() throws Exception {
    for (boolean isBurl : new boolean[] {true, false}) {
      String name = name("behind");
      observer.declare(name, Map.of());
      record("low", url(), isBurl ? burl(name, 10) : addr(name, 10), null);
      record("usual", url(), "ADDR:" + name, null);
      Session session = autoSession(connect());
      sendNumbers(session, session.createQueue("ADDR:" + name), 3);
      assertEquals(List.of("usual 0", "usual 1", "usual 2"), nextThree());
    }
  }

  @Test
  void prioritiesAreInOrderAmongThemselves() throws Exception {
    String name = name("order");
    observer.declare(name, Map.of());
    record("low", url(), burl(name, -1), null);
    record("high", url(), addr(name, 100), null);
    record("middle", url(), burl(name, 99), null);
    Session session = autoSession(connect());
    sendNumbers(session, session.createQueue("ADDR:" + name), 3);
    assertEquals(List.of("high 0", "high 1", "high 2"), nextThree());
  }

  @Test
  void aConsumerOfLowPriorityGetsWhatTheOthersHaveNoCreditFor() throws Exception {
    String name = name("credit");
    observer.declare(name, Map.of());
    record("low", url(), burl(name, 10), null);
    record("usual", url().option("maxprefetch", 2), "ADDR:" + name, null);
    Session session = autoSession(connect());
    Queue queue = session.createQueue("ADDR:" + name);
    sendNumbers(session, queue, 2);
    assertEquals("usual 0", take(received, "a message"));
    assertEquals("usual 1", take(received, "a message"));
    send(session, queue, "2");
    assertEquals("low 2", take(received, "a message"));
  }

  @Test
  void aConsumerOfLowPriorityGetsWhatTheOthersDoNotSelect() throws Exception {
    String name = name("selector");
    observer.declare(name, Map.of());
    record("low", url(), addr(name, 10), null);
    record("usual", url(), "ADDR:" + name, "n <> 1");
    Session session = autoSession(connect());
    MessageProducer producer = session.createProducer(session.createQueue("ADDR:" + name));
    for (int i = 0; i < 3; i++) {
      TextMessage message = session.createTextMessage("" + i);
      message.setIntProperty("n", i);
      producer.send(message);
    }
    assertEquals(Set.of("low 1", "usual 0", "usual 2"), Set.copyOf(nextThree()));
  }

  @Test
  void aPriorityThatIsNoNumberIsRefused() throws Exception {
    onlyHareline(); // Broker-J takes it for none
    String name = name("nan");
    observer.declare(name, Map.of());
    Session session = autoSession(connect());
    Queue queue = session.createQueue(addr(name, "high"));
    JMSException refused =
        assertThrows(JMSException.class, () -> session.createConsumer(queue));
    String text = String.valueOf(refused.getLinkedException());
    assertTrue(text.contains("expected integer, got 'high'"), text);
  }
}
