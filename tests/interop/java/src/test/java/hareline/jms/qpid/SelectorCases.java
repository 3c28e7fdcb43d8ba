package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.InvalidSelectorException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.client.AMQQueue;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** JMS selectors on queues, topics and durable subscriptions. */
abstract class SelectorCases extends QpidCase {

  @Tag("M10")
  @Test
  void aQueueGivesEachConsumerWhatItSelects() throws Exception {
    for (int prefetch : new int[] {0, 1, 500}) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = autoSession(connection);
      String name = name("select");
      Queue queue = queue(session, name);
      sendNumbers(session, queue, 10);
      Session high = autoSession(connection);
      assertEquals(
          numbers(7, 10), receiveTexts(high.createConsumer(queue, "n >= 7"), 3), "" + prefetch);
      Session low = autoSession(connection);
      assertEquals(
          numbers(0, 3), receiveTexts(low.createConsumer(queue, "n < 3"), 3), "" + prefetch);
      connection.close();
      assertEquals(4, observer.ready(name), "prefetch " + prefetch);
      assertEquals(numbers(3, 7), receiveTexts(autoSession(connect()).createConsumer(queue), 4));
    }
  }

  @Tag("M10")
  @Test
  void aMessageThatComesLaterIsSelectedToo() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    String name = name("select-later");
    Queue queue = queue(session, name);
    MessageConsumer even = autoSession(connection).createConsumer(queue, "n % 2 = 0");
    sendNumbers(session, queue, 6);
    assertEquals(List.of("0", "2", "4"), receiveTexts(even, 3));
    even.close();
    observer.awaitReady(name, 3);
  }

  @Tag("M10")
  @Test
  void everyKindOfPropertyIsSelectedBy() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("select-types"));
    List<String> selectors =
        List.of(
            "b",
            "NOT absentb IS NOT NULL",
            "y = 7",
            "s > 299 AND s < 301",
            "i BETWEEN 69999 AND 70001",
            "l = 5000000000",
            "f > 1.4 AND f < 1.6",
            "d = 2.25",
            "t = 'it''s'",
            "t IN ('a', 'it''s')",
            "t LIKE 'it%'",
            "t LIKE '__''s'",
            "t NOT LIKE 'x!_%' ESCAPE '!'",
            "t IS NOT NULL AND absent IS NULL",
            "i + 1 = 70001 AND i * 2 > 139999 AND -i < 0",
            "JMSPriority = 7",
            "JMSType = 'kind'",
            "JMSCorrelationID = 'corr'",
            "JMSDeliveryMode = 'NON_PERSISTENT'",
            "JMSTimestamp > 1000000000000",
            "JMSMessageID LIKE 'ID:%'",
            "JMSXGroupID = 'g'");
    for (String selector : selectors) {
      MessageProducer producer = session.createProducer(queue);
      producer.send(session.createTextMessage("other"));
      TextMessage message = session.createTextMessage(selector);
      message.setBooleanProperty("b", true);
      message.setByteProperty("y", (byte) 7);
      message.setShortProperty("s", (short) 300);
      message.setIntProperty("i", 70_000);
      message.setLongProperty("l", 5_000_000_000L);
      message.setFloatProperty("f", 1.5f);
      message.setDoubleProperty("d", 2.25);
      message.setStringProperty("t", "it's");
      message.setStringProperty("JMSXGroupID", "g");
      message.setJMSType("kind");
      message.setJMSCorrelationID("corr");
      producer.send(message, DeliveryMode.NON_PERSISTENT, 7, 0);
      producer.close();
      MessageConsumer consumer = session.createConsumer(queue, "b AND (" + selector + ")");
      assertEquals(selector, receiveText(consumer));
      consumer.close();
    }
  }

  @Tag("M10")
  @Test
  void whatIsUnknownIsNotSelected() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("select-unknown"));
    MessageConsumer consumer =
        session.createConsumer(queue, "absent > 5 OR absent = 'x' OR t > 3 OR n = 3");
    sendNumbers(session, queue, 4);
    assertEquals("3", receiveText(consumer));
  }

  @Tag("M10")
  @Test
  void topicsSelect() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    Topic topic = topic(session, name("select-topic"));
    MessageConsumer odd = session.createConsumer(topic, "n % 2 = 1");
    MessageConsumer all = session.createConsumer(topic);
    sendNumbers(session, topic, 6);
    assertEquals(List.of("1", "3", "5"), receiveTexts(odd, 3));
    assertEquals(numbers(0, 6), receiveTexts(all, 6));
    assertNextSelected(session, topic, odd, 7);
  }

  private static void assertNextSelected(
      Session session, Destination topic, MessageConsumer consumer, int n) throws JMSException {
    MessageProducer producer = session.createProducer(topic);
    TextMessage message = session.createTextMessage("n=" + n);
    message.setIntProperty("n", n);
    producer.send(message);
    producer.close();
    assertEquals("n=" + n, receiveText(consumer));
  }

  @Tag("M10")
  @Test
  void durableSubscriptionsKeepWhatTheySelect() throws Exception {
    Url url = url();
    Connection connection = connect(url);
    Session session = autoSession(connection);
    Topic topic = topic(session, name("select-durable"));
    session.createDurableSubscriber(topic, "sub", "n > 3", false).close();
    sendNumbers(session, topic, 6);
    connection.close();

    Session again = autoSession(connect(url));
    MessageConsumer subscriber = again.createDurableSubscriber(topic, "sub", "n > 3", false);
    assertEquals(numbers(4, 6), receiveTexts(subscriber, 2));
    assertNextSelected(again, topic, subscriber, 9);
    subscriber.close();
    again.unsubscribe("sub");
  }

  @Tag("S1")
  @Test
  void anotherSelectorReplacesTheOneBefore() throws Exception {
    Url url = url();
    Connection connection = connect(url);
    Session session = autoSession(connection);
    Topic topic = topic(session, name("select-changed"));
    session.createDurableSubscriber(topic, "sub", "n < 3", false).close();
    connection.close();

    Session again = autoSession(connect(url));
    MessageConsumer subscriber = again.createDurableSubscriber(topic, "sub", "n > 3", false);
    sendNumbers(again, topic, 6);
    assertEquals(numbers(4, 6), receiveTexts(subscriber, 2));
    assertNextSelected(again, topic, subscriber, 8);
    subscriber.close();
    // Without the consumer's own filter the queue shows what its binding lets in.
    sendNumbers(again, topic, 6);
    assertEquals(2, depthOf(again, "sub"));
    again.unsubscribe("sub");
  }

  private long depthOf(Session session, String subscription) throws Exception {
    String clientId = qpid(session).getAMQConnection().getClientID();
    return qpid(session).getQueueDepth(new AMQQueue("amq.topic", clientId + ":" + subscription));
  }

  @Tag("S1")
  @Test
  void aSelectorMayBeAddedAndRemoved() throws Exception {
    Session session = autoSession(connect());
    Topic topic = topic(session, name("select-removed"));
    session.createDurableSubscriber(topic, "sub").close();
    MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub", "n = 1", false);
    sendNumbers(session, topic, 3);
    assertEquals("1", receiveText(subscriber));
    subscriber.close();
    MessageConsumer all = session.createDurableSubscriber(topic, "sub");
    List<String> received = new ArrayList<>();
    sendNumbers(session, topic, 3);
    while (received.isEmpty() || !received.get(received.size() - 1).equals("2")) {
      received.add(receiveText(all));
    }
    assertEquals(numbers(0, 3), received);
    all.close();
    session.unsubscribe("sub");
  }

  @Tag("S7")
  @Test
  void theClientRefusesASelectorThatIsNone() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("select-wrong"));
    assertThrows(
        InvalidSelectorException.class, () -> session.createConsumer(queue, "a = = b"));
    MessageConsumer consumer = session.createConsumer(queue);
    assertNextIs("the session lives", session, queue, consumer);
  }

  @Tag("M10")
  @Test
  void whatARolledBackSelectionTookIsSelectedAgain() throws Exception {
    Session session = transacted(connect());
    Queue queue = queue(session, name("select-tx"));
    sendNumbers(session, queue, 6);
    session.commit();
    MessageConsumer consumer = session.createConsumer(queue, "n > 2");
    assertEquals(numbers(3, 5), receiveTexts(consumer, 2));
    session.rollback();
    Message again = receive(consumer);
    assertEquals("3", text(again));
    assertEquals(numbers(4, 6), receiveTexts(consumer, 2));
    session.commit();
  }
}
