package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import hareline.jms.Patience;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** channel.flow from the client: connections that are stopped, sessions that do not receive yet. */
class FlowTest extends QpidCase {

  @Tag("M4")
  @Test
  void nothingIsDeliveredBeforeTheConnectionStarts() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Connection connection = open(syntax.version, url());
      Session session = autoSession(connection);
      String name = name("unstarted");
      observer.declare(name, Map.of());
      Queue queue = session.createQueue(syntax.queue(name));
      MessageConsumer consumer = session.createConsumer(queue);
      sendNumbers(autoSession(connect()), queue, 3);
      observer.awaitReady(name, 3);
      connection.start();
      assertEquals(numbers(0, 3), receiveTexts(consumer, 3), "" + syntax);
    }
  }

  @Tag("M4")
  @Test
  void aStoppedConnectionPausesItsDeliveries() throws Exception {
    for (int prefetch : new int[] {1, 500}) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = autoSession(connection);
      String name = name("stopped");
      Queue queue = queue(session, name);
      MessageConsumer consumer = session.createConsumer(queue);
      Session sender = autoSession(connect());
      assertNextIs("before", sender, queue, consumer);
      for (int round = 0; round < 3; round++) {
        connection.stop();
        sendNumbers(sender, queue, 4);
        observer.awaitReady(name, 4);
        // What is published after them has not let them through.
        send(sender, queue, "4");
        observer.awaitReady(name, 5);
        connection.start();
        assertEquals(numbers(0, 5), receiveTexts(consumer, 5), "prefetch " + prefetch);
      }
    }
  }

  @Tag("M4")
  @Test
  void listenersPauseWithTheirConnection() throws Exception {
    Connection connection = connect();
    String name = name("stopped-listener");
    Queue queue = queue(autoSession(connection), name);
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
    Session sender = autoSession(connect());
    send(sender, queue, "before");
    assertEquals("before", take(received, "a message"));
    connection.stop();
    send(sender, queue, "while stopped");
    observer.awaitReady(name, 1);
    assertTrue(received.isEmpty());
    connection.start();
    assertEquals("while stopped", take(received, "a message"));
  }

  @Tag("M4")
  @Test
  void topicsKeepTheirMessagesWhileStopped() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    Topic topic = topic(session, name("stopped-topic"));
    MessageConsumer consumer = session.createConsumer(topic);
    Session sender = autoSession(connect());
    assertNextIs("before", sender, topic, consumer);
    connection.stop();
    sendNumbers(sender, topic, 20);
    connection.start();
    assertEquals(numbers(0, 20), receiveTexts(consumer, 20));
  }

  @Tag("M13")
  @Test
  void thePrefetchIsTheChannelsAndNotTheConsumers() throws Exception {
    onlyHareline(); // Broker-J counts messages that are with a consumer among those of a queue.
    // Two consumers of one session share the 4 of maxprefetch, whatever the bit "global" says.
    Connection connection = connect(url().option("maxprefetch", 4));
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    String left = name("prefetch-left");
    String right = name("prefetch-right");
    Queue first = queue(session, left);
    Queue second = queue(session, right);
    Session sender = autoSession(connect());
    sendNumbers(sender, first, 10);
    sendNumbers(sender, second, 10);
    observer.awaitReady(left, 10);
    observer.awaitReady(right, 10);
    MessageConsumer one = session.createConsumer(first);
    MessageConsumer two = session.createConsumer(second);
    assertEquals("0", receiveText(one));
    Patience.until(
        () -> observer.ready(left) + observer.ready(right) == 16, "4 of 20 are with the channel");
    assertEquals(numbers(1, 4), receiveTexts(one, 3));
    receive(one).acknowledge();
    one.close();
    assertEquals("0", receiveText(two));
  }

  @Tag("M13")
  @Test
  void aLargerPrefetchCountsAtOnce() throws Exception {
    Connection connection = connect(url().option("maxprefetch", 1));
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = queue(session, name("prefetch-grows"));
    sendNumbers(session, queue, 30);
    MessageConsumer consumer = session.createConsumer(queue);
    // For each of these the client sends basic.qos with one more, and waits for one message more.
    assertEquals(numbers(0, 29), receiveTexts(consumer, 29));
    receive(consumer).acknowledge();
    assertNextIs("and is as before then", session, queue, consumer);
  }

  @Tag("M14")
  @Test
  void aDeletedQueueClosesNothing() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    String name = name("deleted");
    Queue queue = queue(session, name);
    MessageConsumer consumer = session.createConsumer(queue);
    assertNextIs("before", session, queue, consumer);
    observer.delete(name);
    // A basic.cancel from the server would have ended the connection.
    Queue other = queue(session, name("not-deleted"));
    assertNextIs("the session lives", session, other, session.createConsumer(other));
    consumer.close();
    assertTrue(raised.isEmpty(), raised::toString);
  }
}
