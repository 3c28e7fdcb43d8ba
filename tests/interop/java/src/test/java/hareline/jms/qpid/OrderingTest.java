package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import hareline.jms.Patience;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What comes first: priorities, message groups, and messages that are not valid yet. */
class OrderingTest extends QpidCase {

  @Test
  void higherPrioritiesComeFirst() throws Exception {
    onlyHareline();
    List<Map<String, Object>> kinds =
        List.of(Map.of("x-max-priority", 9), Map.of("x-qpid-priorities", 10));
    for (Map<String, Object> arguments : kinds) {
      Session session = autoSession(connect(url().option("maxprefetch", 1)));
      Queue queue = queue(session, name("priority"), arguments);
      MessageProducer producer = session.createProducer(queue);
      for (int priority : new int[] {0, 9, 4, 5, 9, 1}) {
        TextMessage message = session.createTextMessage("p" + priority);
        producer.send(message, DeliveryMode.PERSISTENT, priority, 0);
      }
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(
          List.of("p9", "p9", "p5", "p4", "p1", "p0"), receiveTexts(consumer, 6), "" + arguments);
    }
  }

  @Tag("M16")
  @Test
  void anAddressDeclaresAPriorityQueue() throws Exception {
    onlyHareline();
    Session session = autoSession(connect(url().option("maxprefetch", 1)));
    Queue queue =
        session.createQueue(
            "ADDR:"
                + name("priority-address")
                + "; {create: always, node: {type: queue, durable: true,"
                + " x-declare: {arguments: {'x-max-priority': 5}}}}");
    MessageProducer producer = session.createProducer(queue);
    producer.send(session.createTextMessage("low"), DeliveryMode.PERSISTENT, 1, 0);
    producer.send(session.createTextMessage("high"), DeliveryMode.PERSISTENT, 5, 0);
    assertEquals(List.of("high", "low"), receiveTexts(session.createConsumer(queue), 2));
  }

  @Test
  void aGroupStaysWithOneConsumer() throws Exception {
    onlyHareline();
    for (String key : new String[] {"JMSXGroupID", "customer"}) {
      Connection connection = connect();
      Session session = autoSession(connection);
      Map<String, Object> arguments =
          Map.of("x-message-group-key", key, "x-message-group-type", "shared");
      Queue queue = queue(session, name("groups"), arguments);
      // Nothing is acknowledged, so no group may move.
      java.util.Queue<String> received = new ConcurrentLinkedQueue<>();
      for (int i = 0; i < 3; i++) {
        String consumer = "c" + i + " ";
        connection
            .createSession(false, Session.CLIENT_ACKNOWLEDGE)
            .createConsumer(queue)
            .setMessageListener(
                message -> {
                  try {
                    received.add(consumer + text(message));
                  } catch (JMSException failure) {
                    received.add(failure.toString());
                  }
                });
      }
      MessageProducer producer = session.createProducer(queue);
      for (int i = 0; i < 30; i++) {
        TextMessage message = session.createTextMessage("g" + i % 3);
        message.setStringProperty(key, "g" + i % 3);
        message.setIntProperty("JMSXGroupSeq", i / 3 + 1);
        producer.send(message);
      }
      Patience.until(() -> received.size() == 30, "all are received");
      Set<String> pairs = new HashSet<>(received);
      assertEquals(3, pairs.size(), () -> "each group is with one consumer: " + pairs);
    }
  }

  @Test
  void aDelayedMessageComesWhenItIsValid() throws Exception {
    onlyHareline();
    Connection connection = connect();
    Session session = autoSession(connection);
    Queue queue = queue(session, name("delay"), Map.of("x-hold-on-publish", true));
    delayed(session, queue);
  }

  @Test
  void anAddressDeclaresAQueueThatHoldsMessages() throws Exception {
    onlyHareline();
    // In an address True is a flag and true a text, which Qpid's names for arguments take too.
    String[] arguments = {"'x-hold-on-publish': True", "holdOnPublishEnabled: true"};
    for (String argument : arguments) {
      Session session = autoSession(connect());
      Queue queue =
          session.createQueue(
              "ADDR:"
                  + name("delay-address")
                  + "; {create: always, node: {type: queue, durable: true,"
                  + (" x-declare: {arguments: {" + argument + "}}}}"));
      delayed(session, queue);
    }
  }

  private static void delayed(Session session, Queue queue) throws Exception {
    org.apache.qpid.jms.MessageProducer producer =
        (org.apache.qpid.jms.MessageProducer) session.createProducer(queue);
    producer.setDeliveryDelay(1_000);
    long sentMs = System.currentTimeMillis();
    producer.send(session.createTextMessage("later"));
    producer.setDeliveryDelay(0);
    producer.send(session.createTextMessage("at once"));
    MessageConsumer consumer = session.createConsumer(queue);
    assertEquals(List.of("at once", "later"), receiveTexts(consumer, 2));
    assertTrue(System.currentTimeMillis() - sentMs >= 1_000, "it came before its time");
  }

  @Test
  void topicsKeepTheOrderOfEachProducer() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    String name = name("order");
    Topic topic = topic(session, name);
    MessageConsumer one = session.createConsumer(topic);
    MessageConsumer two = autoSession(connection).createConsumer(topic(session, name));
    sendNumbers(session, topic, 200);
    assertEquals(numbers(0, 200), receiveTexts(one, 200));
    assertEquals(numbers(0, 200), receiveTexts(two, 200));
  }
}
