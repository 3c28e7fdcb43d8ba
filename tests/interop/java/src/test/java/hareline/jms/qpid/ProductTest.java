package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import hareline.jms.Broker;
import hareline.jms.Daemon;
import hareline.jms.Observer;
import hareline.jms.Patience;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.Topic;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** The product name, on which the client's use of exchange.bound depends; memory alarms. */
class ProductTest extends QpidCase {
  private static final String ALARM =
      "[memory]\nwatermark = \"1MiB\"\ncheck_interval_s = 0.05\n";

  private Connection started(String version, Url url) throws JMSException {
    Connection connection = open(version, url);
    connection.start();
    return connection;
  }

  @Tag("M6")
  @Test
  void withoutAProbeBindingUrlsWorkAndAddressesDoNot() throws Exception {
    try (Daemon daemon = Daemon.start()) {
      Url url = new Url(daemon).clientId(name("client"));
      Connection connection = started("0-9-1", url);
      Session session = autoSession(connection);
      String name = name("rabbitmq");
      Queue queue = session.createQueue(Syntax.BURL.queue(name));
      MessageConsumer consumer = session.createConsumer(queue);
      assertNextIs("queue", session, queue, consumer);
      Topic topic = session.createTopic(Syntax.BURL.topic(name));
      assertNextIs("topic", session, topic, session.createConsumer(topic));
      MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
      assertNextIs("durable", session, topic, subscriber);
      subscriber.close();
      session.unsubscribe("sub");
      TemporaryQueue temporary = session.createTemporaryQueue();
      assertNextIs("temporary", session, temporary, session.createConsumer(temporary));
      consumer.close();
      sendNumbers(session, queue, 3);
      assertEquals(numbers(0, 3), browse(session.createBrowser(queue)));
      Session transacted = transacted(connection);
      MessageConsumer other = transacted.createConsumer(queue);
      assertEquals(numbers(0, 2), receiveTexts(other, 2));
      transacted.rollback();
      assertEquals(numbers(0, 3), receiveTexts(other, 3));
      transacted.commit();
      assertThrows(
          JMSException.class, () -> session.createConsumer(session.createQueue("ADDR:" + name)));
      connection.close();
    }
  }

  @Tag("M6")
  @Test
  void aListenerMaySayTheProductToAll() throws Exception {
    String toml = "[[listeners]]\nport = 0\nproduct = \"qpid\"\n";
    try (Daemon daemon = Daemon.configured(toml)) {
      Broker listener = daemon.listener(1);
      String name = name("listener");
      try (Observer own = new Observer(listener)) {
        own.declare(name, Map.of());
      }
      Connection direct = started("0-9-1", new Url(listener).clientId(name("client")));
      Session session = autoSession(direct);
      Queue queue = session.createQueue(name);
      assertNextIs("by address", session, queue, session.createConsumer(queue));
      direct.close();
      // Nobody has probed, so on the first port the product is RabbitMQ's.
      Connection first = started("0-9-1", new Url(daemon).clientId(name("client")));
      Session other = autoSession(first);
      assertThrows(
          JMSException.class, () -> other.createConsumer(other.createQueue(name)));
      first.close();
    }
  }

  @Tag("M14")
  @Test
  void aMemoryAlarmHoldsProducersBackWithoutAWord() throws Exception {
    try (Daemon daemon = Daemon.configured(ALARM.replace("\"1MiB\"", "1.0"))) {
      Connection sending = started("0-10", new Url(daemon).clientId(name("client")));
      Session sender = autoSession(sending);
      String name = name("alarm");
      Queue queue = sender.createQueue(Syntax.ADDR.queue(name));
      sendNumbers(sender, queue, 20);
      Connection receiving = started("0-10", new Url(daemon).clientId(name("client")));
      Session receiver = autoSession(receiving);
      MessageConsumer consumer = receiver.createConsumer(queue);
      assertEquals(numbers(0, 10), receiveTexts(consumer, 10));

      try (Observer own = new Observer(daemon)) {
        daemon.reload(ALARM);
        // connection.blocked would end these connections; consumers go on under the alarm.
        assertEquals(numbers(10, 20), receiveTexts(consumer, 10));
        Patience.until(() -> daemon.hasLogged("MEM-1001"), "the alarm is on");
        send(sender, queue, "held back", "and this");
        assertEquals(List.of(), browse(receiver.createBrowser(queue)));
        daemon.reload(ALARM.replace("\"1MiB\"", "1.0"));
        assertEquals(List.of("held back", "and this"), receiveTexts(consumer, 2));
        assertEquals(0, own.ready(name));
      }
      assertTrue(raised.isEmpty(), raised::toString);
      sending.close();
      receiving.close();
    }
  }

  @Tag("M6")
  @Test
  void theSharedBrokerKnowsThisAddress() throws Exception {
    Session session = autoSession(started("0-9-1", url()));
    assertFalse(qpid(session).isQueueBound(null, name("absent"), null));
    String name = name("known");
    observer.declare(name, Map.of());
    Queue queue = session.createQueue(name);
    assertNextIs("by address", session, queue, session.createConsumer(queue));
  }
}
