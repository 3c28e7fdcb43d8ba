package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.client.AMQSession;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What the client declares, binds and asks for, in both syntaxes. */
class TopologyTest extends QpidCase {

  @Tag("M5")
  @Test
  void boundQueuesAreFound() throws Exception {
    Session session = autoSession(connect());
    AMQSession<?, ?> qpid = qpid(session);
    String name = name("bound");
    queue(session, name);
    assertTrue(qpid.isQueueBound("amq.direct", name, name));
    assertTrue(qpid.isQueueBound("amq.direct", name, null));
    assertTrue(qpid.isQueueBound("amq.direct", null, name));
    assertTrue(qpid.isQueueBound(null, name, null), "any queue by the default exchange");
    assertFalse(qpid.isQueueBound("amq.direct", name, "other-key"));
    assertFalse(qpid.isQueueBound("amq.topic", name, null));
    assertFalse(qpid.isQueueBound("amq.direct", name("absent"), null));
    assertFalse(qpid.isQueueBound(name("no-exchange"), name, null));
    assertFalse(qpid.isQueueBound(null, name("absent"), null));
  }

  @Tag("M6")
  @Test
  void aPlainNameIsResolvedByAskingTheBroker() throws Exception {
    Session session = autoSession(connect());
    String name = name("plain");
    assertThrows(
        JMSException.class, () -> session.createConsumer(session.createQueue(name)), "unknown");
    observer.declare(name, Map.of());
    MessageConsumer consumer = session.createConsumer(session.createQueue(name));
    assertNextIs("there", session, session.createQueue(name), consumer);
    Topic topic = session.createTopic(name("plain-topic"));
    assertNextIs("a topic too", session, topic, session.createConsumer(topic));
  }

  @Tag("M6")
  @Test
  void anExchangeIsResolvedToATopic() throws Exception {
    Session session = autoSession(connect());
    for (String exchange : new String[] {"amq.fanout", "amq.direct", "amq.topic"}) {
      Destination there = session.createTopic("ADDR:" + exchange + "/" + name("subject"));
      MessageConsumer consumer = session.createConsumer(there);
      assertNextIs("by " + exchange, session, there, consumer);
      consumer.close();
    }
  }

  @Tag("M6")
  @Test
  void nodesAreCreatedAssertedAndDeleted() throws Exception {
    Session session = autoSession(connect());
    String name = name("node");
    Queue queue =
        session.createQueue(
            "ADDR:" + name + "; {create: always, delete: receiver, node: {type: queue}}");
    MessageConsumer consumer = session.createConsumer(queue);
    assertNextIs("x", session, queue, consumer);
    assertTrue(observer.exists(name));
    consumer.close();
    assertFalse(observer.exists(name), "its receiver deletes it");
    assertThrows(
        JMSException.class,
        () -> session.createProducer(session.createQueue("ADDR:" + name + "; {assert: always}")));
    Topic exchange =
        session.createTopic(
            "ADDR:"
                + name
                + "; {create: always, node: {type: topic, x-declare: {type: fanout}}}");
    MessageConsumer subscriber = session.createConsumer(exchange);
    assertNextIs("by the new exchange", session, exchange, subscriber);
    subscriber.close();
    qpid(session).deleteExchange(name);
    Session other = autoSession(connect());
    assertThrows(
        JMSException.class, () -> other.createConsumer(other.createQueue("ADDR:" + name)));
  }

  @Tag("M6")
  @Test
  void bindingsOfAnAddressAreMade() throws Exception {
    Session session = autoSession(connect());
    String name = name("x-bindings");
    Queue queue =
        session.createQueue(
            "ADDR:"
                + name
                + "; {create: always, node: {type: queue, x-bindings:"
                + " [{exchange: 'amq.topic', key: '"
                + name
                + ".#'}, {exchange: 'amq.match', key: 'm', arguments: {'x-match': all, a: b}}]}}");
    MessageConsumer consumer = session.createConsumer(queue);
    send(session, session.createTopic("ADDR:amq.topic/" + name + ".one.two"), "by topic");
    assertEquals("by topic", receiveText(consumer));
    Topic match = session.createTopic("ADDR:amq.match/m");
    MessageProducer producer = session.createProducer(match);
    TextMessage other = session.createTextMessage("not this");
    other.setStringProperty("a", "c");
    producer.send(other);
    TextMessage message = session.createTextMessage("by headers");
    message.setStringProperty("a", "b");
    producer.send(message);
    assertEquals("by headers", receiveText(consumer));
  }

  @Tag("M15")
  @Test
  void producersOfThePredefinedExchangesDeclareThemPassively() throws Exception {
    Session session = autoSession(connect());
    String[] urls = {
      "direct://amq.direct//",
      "topic://amq.topic//",
      "fanout://amq.fanout//",
      "headers://amq.match//"
    };
    for (String url : urls) {
      String name = name("predefined");
      Destination there =
          org.apache.qpid.client.AMQDestination.createDestination(
              "BURL:" + url + name + "?routingkey='" + name + "'", false);
      MessageConsumer consumer = session.createConsumer(there);
      MessageProducer producer = session.createProducer(there);
      producer.send(session.createTextMessage(url));
      assertEquals(url, receiveText(consumer));
      consumer.close();
    }
  }

  @Tag("M16")
  @Test
  void unknownArgumentsAreAccepted() throws Exception {
    Session session = autoSession(connect());
    String name = name("unknown-arguments");
    Queue queue =
        session.createQueue(
            "ADDR:"
                + name
                + "; {create: always, node: {type: queue, x-declare: {arguments:"
                + " {'no-local': True, 'qpid.unheard_of': 1, alternateExchange: 'amq.fanout'}},"
                + " x-bindings: [{exchange: 'amq.direct', key: k, arguments: {unheard: of}}]},"
                + " link: {x-subscribe: {arguments: {'local-address': a, unheard: 7}}}}");
    MessageConsumer consumer = session.createConsumer(queue);
    assertNextIs("x", autoSession(connect()), queue, consumer);
  }

  @Test
  void anExchangeHasAnAlternate() throws Exception {
    onlyHareline();
    Session session = autoSession(connect());
    String rest = name("rest");
    MessageConsumer consumer = session.createConsumer(queue(session, rest));
    String[] declares = {
      "alternate-exchange: 'amq.direct'", "arguments: {alternateExchange: 'amq.direct'}"
    };
    for (String declare : declares) {
      String name = name("with-alternate");
      Destination unmatched =
          session.createTopic(
              "ADDR:"
                  + (name + "/" + rest + "; {create: always, node: {type: topic, durable: true,")
                  + (" x-declare: {type: direct, " + declare + "}}}"));
      send(session, unmatched, declare);
      assertEquals(declare, receiveText(consumer));
      // By binding URL a producer declares the exchange without arguments.
      Destination again =
          session.createQueue("BURL:direct://" + name + "//?routingkey='" + rest + "'");
      send(session, again, "again");
      assertEquals("again", receiveText(consumer));
    }
  }

  @Tag("S3")
  @Test
  void theDefaultExchangeMayBeDeclared() throws Exception {
    Session session = autoSession(connect());
    String name = name("default-exchange");
    observer.declare(name, Map.of());
    Destination there = session.createQueue("BURL:direct:////" + name + "?durable='true'");
    send(session, there, "by the default exchange");
    Queue queue = session.createQueue(Syntax.BURL.queue(name));
    assertEquals("by the default exchange", receiveText(session.createConsumer(queue)));
  }

  @Tag("S5")
  @Test
  void anotherDurabilityIsTolerated() throws Exception {
    Session session = autoSession(connect());
    String name = name("durability");
    Queue durable = session.createQueue(Syntax.BURL.queue(name));
    session.createConsumer(durable).close();
    Queue transientOne = session.createQueue("BURL:direct://amq.direct//" + name);
    MessageConsumer consumer = session.createConsumer(transientOne);
    assertNextIs("x", session, durable, consumer);
  }

  @Tag("S5")
  @Test
  void otherArgumentsAreTolerated() throws Exception {
    onlyHareline();
    Session session = autoSession(connect());
    String name = name("arguments");
    observer.declare(name, Map.of("x-max-length", 100));
    // By binding URL a consumer declares its queue without arguments, whatever it was made with.
    Queue queue = session.createQueue(Syntax.BURL.queue(name));
    assertNextIs("x", session, queue, session.createConsumer(queue));
  }

  @Tag("M22")
  @Test
  void aReceivedDestinationMayBeConsumedFrom() throws Exception {
    Session session = autoSession(connect());
    Queue queue = queue(session, name("received-from"));
    MessageConsumer consumer = session.createConsumer(queue);
    send(session, queue, "x");
    Message received = receive(consumer);
    consumer.close();
    MessageConsumer again = session.createConsumer(received.getJMSDestination());
    assertNextIs("again", session, queue, again);
  }

  @Tag("S5")
  @Test
  void anotherExclusivityIsNot() throws Exception {
    Session session = autoSession(connect());
    String name = name("exclusivity");
    observer.declare(name, Map.of());
    Queue exclusive =
        session.createQueue("BURL:direct://amq.direct//" + name + "?exclusive='true'");
    assertThrows(JMSException.class, () -> session.createConsumer(exclusive));
  }
}
