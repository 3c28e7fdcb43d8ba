package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import hareline.jms.Broker;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidSelectorException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Topic subscribers with selectors: an exchange of type x-jms-topic behind the topic's exchange.
 *
 * <p>The client compiles a selector to a term, and the broker decides by the headers. A RabbitMQ
 * without its plugin for that type skips these.
 */
class SelectorTest extends RabbitCase {
  @BeforeEach
  void needTheExchangeType() throws Exception {
    if (!Broker.isForeign()) {
      return;
    }
    String name = uniqueName("probe");
    try (com.rabbitmq.client.Connection raw = rawConnection()) {
      Channel channel = raw.createChannel();
      channel.exchangeDeclare(name, "x-jms-topic", false, true, null);
      channel.exchangeDelete(name);
    } catch (IOException | AlreadyClosedException refused) {
      assumeTrue(false, "the broker has no exchange type x-jms-topic");
    }
  }

  private com.rabbitmq.client.Connection rawConnection() throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(broker.host);
    factory.setPort(broker.port);
    factory.setUsername(broker.username);
    factory.setPassword(broker.password);
    factory.setVirtualHost(broker.vhost);
    return factory.newConnection();
  }

  /** Five messages that differ in what selectors look at. */
  private void sendSamples(Topic topic) throws Exception {
    MessageProducer producer = session.createProducer(topic);
    Message one = session.createTextMessage("one");
    one.setIntProperty("n", 1);
    one.setStringProperty("s", "a");
    one.setBooleanProperty("boolProp", true);
    one.setDoubleProperty("d", 1.5);
    one.setStringProperty("a.b", "x_y");
    one.setJMSType("kind");
    one.setJMSCorrelationID("c-1");
    producer.send(one, DeliveryMode.PERSISTENT, 5, 0);
    Message two = session.createTextMessage("two");
    two.setIntProperty("n", 2);
    two.setStringProperty("s", "b");
    two.setBooleanProperty("boolProp", false);
    two.setDoubleProperty("d", 2.5);
    two.setStringProperty("a.b", "xyz");
    producer.send(two, DeliveryMode.NON_PERSISTENT, 3, 0);
    Message three = session.createTextMessage("three");
    three.setIntProperty("n", 3);
    three.setStringProperty("s", "it's");
    three.setBooleanProperty("boolProp", true);
    three.setStringProperty("p", "there");
    producer.send(three);
    Message four = session.createTextMessage("four");
    four.setLongProperty("n", 4);
    four.setStringProperty("s", "100%");
    producer.send(four);
    producer.send(session.createTextMessage("none"));
    settle(session);
  }

  /** Subscribe by each selector, in one session, and hold each to the samples it must get. */
  private void assertSelects(Map<String, List<String>> expected) throws Exception {
    Topic topic = topic();
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    Map<String, MessageConsumer> subscribers = new HashMap<>();
    for (String selector : expected.keySet()) {
      subscribers.put(selector, own.createConsumer(topic, selector));
    }
    MessageConsumer everything = own.createConsumer(topic);
    sendSamples(topic);
    takeTexts(everything, 5);
    for (Map.Entry<String, List<String>> each : expected.entrySet()) {
      List<String> got = new ArrayList<>();
      for (int i = 0; i < each.getValue().size(); i++) {
        Message next = subscribers.get(each.getKey()).receive(PATIENCE_MS);
        got.add(next == null ? "nothing" : text(next));
      }
      got.addAll(drainTexts(subscribers.get(each.getKey())));
      assertEquals(each.getValue(), got, each.getKey());
    }
  }

  @Tag("M17")
  @Test
  void comparisons() throws Exception {
    assertSelects(
        Map.of(
            "boolProp AND JMSPriority > 3", List.of("one", "three"),
            "n = 2", List.of("two"),
            "n <> 2", List.of("one", "three", "four"),
            "n < 2", List.of("one"),
            "n <= 2", List.of("one", "two"),
            "n >= 3", List.of("three", "four"),
            "s = 'it''s'", List.of("three"),
            "s <> 'a' AND n > 0", List.of("two", "three", "four"),
            "boolProp = TRUE", List.of("one", "three"),
            "absent <> 'x'", List.of()));
  }

  @Tag("M17")
  @Test
  void betweenAndIn() throws Exception {
    assertSelects(
        Map.of(
            "n BETWEEN 1 AND 3", List.of("one", "two", "three"),
            "n NOT BETWEEN 2 AND 3", List.of("one", "four"),
            "d BETWEEN 1.5 AND 2", List.of("one"),
            "s IN ('a', '100%')", List.of("one", "four"),
            "s NOT IN ('a')", List.of("two", "three", "four"),
            "absent IN ('a')", List.of(),
            "absent NOT BETWEEN 1 AND 2", List.of()));
  }

  @Tag("M17")
  @Test
  void like() throws Exception {
    assertSelects(
        Map.of(
            "a.b LIKE 'x!_%' ESCAPE '!'", List.of("one"),
            "a.b LIKE 'x_%'", List.of("one", "two"),
            "a.b LIKE 'x%z'", List.of("two"),
            "a.b LIKE 'x'", List.of(),
            "s LIKE '_'", List.of("one", "two"),
            "s NOT LIKE '_'", List.of("three", "four"),
            "s LIKE '100!%' ESCAPE '!'", List.of("four"),
            "s LIKE 'it''%'", List.of("three"),
            "a.b NOT LIKE 'x!_%' ESCAPE '!'", List.of("two"),
            "absent NOT LIKE 'x'", List.of()));
  }

  @Tag("M17")
  @Test
  void nullTests() throws Exception {
    assertSelects(
        Map.of(
            "p IS NULL", List.of("one", "two", "four", "none"),
            "p IS NOT NULL", List.of("three"),
            "JMSType IS NULL", List.of("two", "three", "four", "none"),
            "nothing IS NULL AND JMSPriority > 12-9", List.of("one", "three", "four", "none")));
  }

  @Tag("M17")
  @Test
  void logicHasThreeValues() throws Exception {
    assertSelects(
        Map.of(
            "NOT boolProp", List.of("two"),
            "NOT (n > 2)", List.of("one", "two"),
            "n > 2 OR boolProp", List.of("one", "three", "four"),
            "n = 1 OR absent = 2", List.of("one"),
            "n = 1 AND absent = 2", List.of(),
            "NOT (n = 1 AND absent = 2)", List.of("two", "three", "four"),
            "NOT absent = 2", List.of(),
            "TRUE", List.of("one", "two", "three", "four", "none"),
            "boolProp AND NOT (s = 'a' OR n = 2)", List.of("three")));
  }

  @Tag("M17")
  @Test
  void arithmetic() throws Exception {
    assertSelects(
        Map.of(
            "n + 1 > 3", List.of("three", "four"),
            "n * 2 = 4", List.of("two"),
            "n / 2 = 1.5", List.of("three"),
            "-n < -2", List.of("three", "four"),
            "n - 1 = 0", List.of("one"),
            "(n + 1) * 2 = 6", List.of("two"),
            "n * 3 = 12-4-1", List.of("three"), // the client's parser takes 4-1 first
            "n = 1.0", List.of("one"),
            "d > 1.5E0", List.of("two"),
            "absent + 1 > 0", List.of()));
  }

  @Tag("M17")
  @Test
  void headersThatHaveNames() throws Exception {
    List<String> all = List.of("one", "two", "three", "four", "none");
    assertSelects(
        Map.of(
            "JMSPriority >= 5", List.of("one"),
            "JMSPriority = 4", List.of("three", "four", "none"),
            "JMSDeliveryMode = 'NON_PERSISTENT'", List.of("two"),
            "JMSType = 'kind'", List.of("one"),
            "JMSCorrelationID = 'c-1'", List.of("one"),
            "JMSMessageID LIKE 'ID:%'", all,
            "JMSTimestamp > 0", all));
  }

  @Tag("M17")
  @Test
  void propertiesOfEveryType() throws Exception {
    Topic topic = topic();
    MessageConsumer consumer =
        session.createConsumer(
            topic,
            "b = 7 AND sh = -8 AND i = 9 AND l = 9000000000 AND f = 1.5 AND d = -0.25"
                + " AND t AND NOT u AND text = 'x'");
    Message message = session.createTextMessage("all of them");
    message.setByteProperty("b", (byte) 7);
    message.setShortProperty("sh", (short) -8);
    message.setIntProperty("i", 9);
    message.setLongProperty("l", 9_000_000_000L);
    message.setFloatProperty("f", 1.5f);
    message.setDoubleProperty("d", -0.25);
    message.setBooleanProperty("t", true);
    message.setBooleanProperty("u", false);
    message.setStringProperty("text", "x");
    session.createProducer(topic).send(message);
    assertEquals("all of them", takeText(consumer));
  }

  @Tag("M17")
  @Test
  void textsOfOtherAlphabets() throws Exception {
    // differs: jms-utf8
    onlyHareline(); // RabbitMQ 3.10 reads the term as Latin 1
    Topic topic = topic();
    MessageConsumer equal = session.createConsumer(topic, "s = 'grün €'");
    MessageConsumer like = session.createConsumer(topic, "s LIKE 'gr_n%'");
    for (String value : List.of("gruen", "grün €")) {
      Message message = session.createTextMessage(value);
      message.setStringProperty("s", value);
      session.createProducer(topic).send(message);
    }
    assertEquals("grün €", takeText(equal));
    assertEquals("grün €", takeText(like));
    settle(session);
    assertNothing(equal);
    assertNothing(like);
  }

  @Tag("M17")
  @Test
  void aListenerGetsWhatItSelects() throws Exception {
    Topic topic = topic();
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    Inbox inbox = new Inbox(own.createConsumer(topic, "n > 2"));
    sendSamples(topic);
    assertEquals(List.of("three", "four"), inbox.takeTexts(2));
  }

  @Tag("M17")
  @Test
  void aBadSelectorIsRefused() throws Exception {
    Topic topic = topic();
    for (String bad : List.of("n >", "n = 'x' AND", "JMSPriority = 'high'", "n LIKE 3")) {
      assertThrows(
          InvalidSelectorException.class,
          () -> session(Session.AUTO_ACKNOWLEDGE).createConsumer(topic, bad),
          bad);
    }
  }

  @Tag("M17")
  @Test
  void aDurableSubscriptionKeepsItsSelectorOverReconnects() throws Exception {
    Topic topic = topic();
    String name = uniqueName("selecting");
    deleteAtTheEnd(name);
    Connection first = open();
    first
        .createSession(Session.AUTO_ACKNOWLEDGE)
        .createDurableConsumer(topic, name, "n > 2", false);
    first.close();
    sendSamples(topic);
    Connection second = open();
    MessageConsumer again =
        second
            .createSession(Session.AUTO_ACKNOWLEDGE)
            .createDurableConsumer(topic, name, "n > 2", false);
    assertEquals(List.of("three", "four"), takeTexts(again, 2));
    sendSamples(topic);
    assertEquals(List.of("three", "four"), takeTexts(again, 2)); // once, though bound twice
    assertNothing(again);
  }

  @Tag("M17")
  @Test
  void aDurableSubscriptionMayChangeItsSelector() throws Exception {
    Topic topic = topic();
    String name = uniqueName("changing");
    deleteAtTheEnd(name);
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    own.createDurableConsumer(topic, name, "n = 1", false).close();
    MessageConsumer changed = own.createDurableConsumer(topic, name, "n = 2", false);
    sendSamples(topic);
    assertEquals("two", takeText(changed));
    assertNothing(changed);
  }

  @Tag("M17")
  @Test
  void aSharedDurableSubscriptionSelects() throws Exception {
    Topic topic = topic();
    String name = uniqueName("sharing");
    deleteAtTheEnd(name);
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    MessageConsumer one = own.createSharedDurableConsumer(topic, name, "n >= 3");
    MessageConsumer two = own.createSharedDurableConsumer(topic, name, "n >= 3");
    sendSamples(topic);
    assertEquals("three", takeText(one));
    assertEquals("four", takeText(two));
    assertNothing(one);
  }

  /** In two sessions: the selectors of one share an exchange, and that does not look at keys. */
  @Tag("M18")
  @Test
  void theKeyOfTheTopicCountsBeforeTheSelector() throws Exception {
    Topic topic = topic();
    Topic other = topic();
    MessageConsumer consumer =
        session(Session.AUTO_ACKNOWLEDGE).createConsumer(topic, "n = 1");
    MessageConsumer ofOther =
        session(Session.AUTO_ACKNOWLEDGE).createConsumer(other, "n = 2");
    sendSamples(other);
    assertEquals("two", takeText(ofOther));
    assertNothing(consumer);
    sendSamples(topic);
    assertEquals("one", takeText(consumer));
    assertNothing(consumer);
    assertNothing(ofOther);
  }

  @Tag("M18")
  @Test
  void aPatternOfTopicsSelects() throws Exception {
    String root = uniqueName("root");
    MessageConsumer consumer = session.createConsumer(session.createTopic(root + ".#"), "n = 2");
    sendSamples(session.createTopic(root + ".a"));
    sendSamples(session.createTopic(root + ".b.c"));
    sendSamples(session.createTopic("not-" + root + ".a"));
    assertEquals(List.of("two", "two"), takeTexts(consumer, 2));
    assertNothing(consumer);
  }

  @Tag("M18")
  @Test
  void theExchangeOfASelectorGoesWithItsSubscribers() throws Exception {
    Topic topic = topic();
    String name = uniqueName("ending");
    Session own = session(Session.AUTO_ACKNOWLEDGE);
    own.createDurableConsumer(topic, name, "n = 1", false).close();
    own.unsubscribe(name);
    assertEquals(false, observer.exists(name));
    // A new subscription of the session uses the same exchange name, so it is declared again.
    MessageConsumer again = own.createDurableConsumer(topic, name, "n = 2", false);
    deleteAtTheEnd(name);
    sendSamples(topic);
    assertEquals("two", takeText(again));
  }

  @Tag("M17")
  @Test
  void aQueueReceiverCannotSelect() throws Exception {
    Queue queue = queue();
    assertThrows(
        UnsupportedOperationException.class, () -> session.createConsumer(queue, "n = 1"));
  }
}
