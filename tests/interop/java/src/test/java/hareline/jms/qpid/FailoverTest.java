package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import hareline.jms.Daemon;
import hareline.jms.Observer;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import javax.jms.TransactionRolledBackException;
import org.apache.qpid.client.AMQConnection;
import org.apache.qpid.jms.ConnectionListener;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A broker that is killed or restarted under its clients, which find it again. */
@Timeout(60)
class FailoverTest extends QpidCase {

  /** The client goes on trying for a minute, twenty times a second. */
  private static Url patient(Daemon daemon) {
    return new Url(daemon)
        .clientId(name("client"))
        .brokerOption("retries", 1200)
        .brokerOption("connectdelay", 50)
        .option("failover", "singlebroker")
        .option("sync_publish", "all");
  }

  /** Told by the client when it has found the broker again. */
  private static final class FoundAgain implements ConnectionListener {
    private final CountDownLatch latch;

    FoundAgain(CountDownLatch latch) {
      this.latch = latch;
    }

    @Override
    public void bytesSent(long count) {}

    @Override
    public void bytesReceived(long count) {}

    @Override
    public boolean preFailover(boolean isRedirect) {
      return true;
    }

    @Override
    public boolean preResubscribe() {
      return true;
    }

    @Override
    public void failoverComplete() {
      latch.countDown();
    }
  }

  private Connection connectTo(Daemon daemon, Syntax syntax) throws JMSException {
    Connection connection = open(syntax.version, patient(daemon));
    connection.start();
    return connection;
  }

  private static void killAndStart(Daemon daemon) throws Exception {
    daemon.kill();
    daemon.startAgain();
  }

  @Test
  void durableMessagesOutliveAKilledBroker() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      try (Daemon daemon = Daemon.start()) {
        Connection connection = connectTo(daemon, syntax);
        Session session = autoSession(connection);
        Queue queue = session.createQueue(syntax.queue(name("durable")));
        session.createConsumer(queue).close();
        sendNumbers(session, queue, 50);
        killAndStart(daemon);
        // The same objects, on a connection that the client has made anew.
        assertEquals(
            numbers(0, 50), receiveTexts(session.createConsumer(queue), 50), "" + syntax);
        connection.close();
      }
    }
  }

  @Test
  void consumersAndProducersGoOnAfterAKilledBroker() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      try (Daemon daemon = Daemon.start()) {
        Connection connection = connectTo(daemon, syntax);
        Session sending = autoSession(connection);
        Queue queue = sending.createQueue(syntax.queue(name("going-on")));
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        autoSession(connection)
            .createConsumer(queue)
            .setMessageListener(
                message -> {
                  try {
                    received.add(text(message));
                  } catch (JMSException failure) {
                    received.add(failure.toString());
                  }
                });
        Set<String> before = new HashSet<>();
        for (int life = 0; life < 4; life++) {
          String text = "life " + life;
          send(sending, queue, text);
          String next = take(received, "a message");
          // Acknowledgements of those before may have died with the broker.
          while (before.contains(next)) {
            next = take(received, "a message");
          }
          assertEquals(text, next, "" + syntax);
          before.add(text);
          killAndStart(daemon);
        }
        connection.close();
      }
    }
  }

  @Tag("M11")
  @Test
  void durableSubscriptionsOutliveAKilledBroker() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      try (Daemon daemon = Daemon.start()) {
        Url url = patient(daemon);
        Connection connection = open(syntax.version, url);
        connection.start();
        Session session = autoSession(connection);
        Topic topic = session.createTopic(syntax.topic(name("durable-topic")));
        session.createDurableSubscriber(topic, "sub", "n > 0", false).close();
        sendNumbers(session, topic, 3);
        connection.close();
        killAndStart(daemon);

        Connection again = open(syntax.version, url);
        again.start();
        Session next = autoSession(again);
        MessageConsumer subscriber = next.createDurableSubscriber(topic, "sub", "n > 0", false);
        sendNumbers(next, topic, 2);
        assertEquals(List.of("1", "2", "1"), receiveTexts(subscriber, 3), "" + syntax);
        subscriber.close();
        next.unsubscribe("sub");
        again.close();
      }
    }
  }

  @Test
  void unacknowledgedMessagesComeBackAfterAKilledBroker() throws Exception {
    try (Daemon daemon = Daemon.start()) {
      Connection connection = connectTo(daemon, Syntax.ADDR);
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue(Syntax.ADDR.queue(name("unacked")));
      sendNumbers(session, queue, 5);
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 2), receiveTexts(consumer, 2));
      killAndStart(daemon);
      List<String> received = new ArrayList<>();
      while (!received.contains("4")) {
        received.add(receiveText(consumer));
      }
      assertTrue(received.containsAll(numbers(2, 5)), received::toString);
      connection.close();
    }
  }

  @Test
  void aTransactionOfAKilledBrokerIsRolledBack() throws Exception {
    try (Daemon daemon = Daemon.start()) {
      Connection connection = connectTo(daemon, Syntax.BURL);
      Session session = transacted(connection);
      Queue queue = session.createQueue(Syntax.BURL.queue(name("tx")));
      session.createConsumer(queue).close();
      sendNumbers(session, queue, 3);
      session.commit();
      send(session, queue, "lost with the transaction");
      // The client does not hold commit back while it connects anew.
      CountDownLatch foundAgain = new CountDownLatch(1);
      ((AMQConnection) connection).setConnectionListener(new FoundAgain(foundAgain));
      killAndStart(daemon);
      assertTrue(foundAgain.await(PATIENCE_MS, TimeUnit.MILLISECONDS), "found again");
      assertThrows(TransactionRolledBackException.class, session::commit);
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 3), receiveTexts(consumer, 3));
      session.commit();
      send(session, queue, "next");
      session.commit();
      assertEquals("next", receiveText(consumer));
      session.commit();
      connection.close();
    }
  }

  @Test
  void anIdleConnectionSurvivesARestart() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      try (Daemon daemon = Daemon.start()) {
        Connection connection = connectTo(daemon, syntax);
        Session session = autoSession(connection);
        Queue queue = session.createQueue(syntax.queue(name("idle")));
        MessageConsumer consumer = session.createConsumer(queue);
        assertNextIs("before", session, queue, consumer);
        // A round trip: the acknowledgement has reached the broker.
        session.createBrowser(queue).close();
        CountDownLatch foundAgain = new CountDownLatch(1);
        ((AMQConnection) connection).setConnectionListener(new FoundAgain(foundAgain));
        daemon.stop();
        daemon.startAgain();
        assertTrue(foundAgain.await(PATIENCE_MS, TimeUnit.MILLISECONDS), "found again");
        assertNextIs("after " + syntax, session, queue, consumer);
        connection.close();
      }
    }
  }

  @Test
  void temporaryQueuesAreMadeAgain() throws Exception {
    try (Daemon daemon = Daemon.start()) {
      Connection connection = connectTo(daemon, Syntax.ADDR);
      Session session = autoSession(connection);
      javax.jms.TemporaryQueue queue = session.createTemporaryQueue();
      MessageConsumer consumer = session.createConsumer(queue);
      assertNextIs("before", session, queue, consumer);
      killAndStart(daemon);
      assertNextIs("after", session, queue, consumer);
      connection.close();
    }
  }

  @Tag("M6")
  @Test
  void theProductIsRememberedOverARestart() throws Exception {
    // The client probes once and never again, so after a restart its address must still be known.
    try (Daemon daemon = Daemon.start()) {
      Connection connection = connectTo(daemon, Syntax.ADDR);
      Session session = autoSession(connection);
      String name = name("remembered");
      try (Observer own = new Observer(daemon)) {
        own.declare(name, Map.of());
      }
      send(session, session.createQueue(name), "before");
      killAndStart(daemon);
      MessageConsumer consumer = session.createConsumer(session.createQueue(name));
      assertEquals("before", receiveText(consumer));
      connection.close();

      Connection direct = open("0-9-1", patient(daemon));
      direct.start();
      Session another = autoSession(direct);
      Queue queue = another.createQueue(name);
      assertNextIs("direct", another, queue, another.createConsumer(queue));
      direct.close();
    }
  }
}
