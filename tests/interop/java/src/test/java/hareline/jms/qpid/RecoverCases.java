package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Session.recover(), which the client sends as basic.recover with requeue=0. */
abstract class RecoverCases extends QpidCase {

  @Tag("M7")
  @Test
  void recoverRedeliversWhatIsUnacknowledgedInOrder() throws Exception {
    for (int prefetch : new int[] {0, 1, 500}) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = queue(session, name("recover"));
      sendNumbers(session, queue, 6);
      MessageConsumer consumer = session.createConsumer(queue);
      receive(consumer).acknowledge();
      assertEquals(numbers(1, 4), receiveTexts(consumer, 3), "prefetch " + prefetch);
      session.recover();
      for (int i = 1; i < 4; i++) {
        Message again = receive(consumer);
        assertEquals("" + i, text(again), "prefetch " + prefetch);
        assertTrue(again.getJMSRedelivered(), "prefetch " + prefetch);
      }
      assertEquals("4", receiveText(consumer), "prefetch " + prefetch);
      Message last = receive(consumer);
      assertEquals("5", text(last), "prefetch " + prefetch);
      last.acknowledge();
      send(session, queue, "last");
      Message end = receive(consumer);
      assertEquals("last", text(end), "prefetch " + prefetch);
      end.acknowledge();
    }
  }

  /** JMS goes on with the oldest message that is not acknowledged, whatever comes first by rank. */
  @Test
  void recoverBeginsWithTheOldestMessageOfAQueueWithAnotherOrder() throws Exception {
    onlyHareline();
    List<Map<String, Object>> kinds =
        List.of(Map.of("x-max-priority", 9), Map.of("qpid.queue_sort_key", "key"));
    for (Map<String, Object> arguments : kinds) {
      for (int prefetch : new int[] {0, 1, 500}) {
        String which = arguments + ", prefetch " + prefetch;
        Session session =
            connect(url().option("maxprefetch", prefetch))
                .createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Session sending = autoSession(connect(url().option("sync_publish", "all")));
        Queue queue = queue(sending, name("recover-ordered"), arguments);
        MessageConsumer consumer = session.createConsumer(queue);
        sendRanked(sending, queue, 3);
        assertEquals("3", receiveText(consumer), which);
        for (int rank : new int[] {7, 5, 9}) {
          sendRanked(sending, queue, rank);
        }
        session.recover();
        Message again = receive(consumer);
        assertEquals("3", text(again), which);
        assertTrue(again.getJMSRedelivered(), which);
        again.acknowledge();
        // What was delivered ahead has left the order of its queue.
        List<String> rest = prefetch == 500 ? List.of("7", "5", "9") : List.of("9", "7", "5");
        for (String next : rest) {
          Message message = receive(consumer);
          assertEquals(next, text(message), which);
          message.acknowledge();
        }
      }
    }
  }

  /** A message that a priority and a sorted queue put before those of lower ranks. */
  private static void sendRanked(Session session, Queue queue, int rank) throws JMSException {
    TextMessage message = session.createTextMessage("" + rank);
    message.setStringProperty("key", "" + (9 - rank));
    session.createProducer(queue).send(message, DeliveryMode.PERSISTENT, rank, 0);
  }

  @Test
  void recoverKeepsTheOrderOfTheDeliveries() throws Exception {
    onlyHareline();
    Session session =
        connect(url().option("maxprefetch", 1)).createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Session sending = autoSession(connect(url().option("sync_publish", "all")));
    Queue queue = queue(sending, name("recover-order"), Map.of("x-max-priority", 9));
    MessageConsumer consumer = session.createConsumer(queue);
    for (int rank : new int[] {2, 8, 4}) {
      sendRanked(sending, queue, rank);
      assertEquals("" + rank, receiveText(consumer));
    }
    session.recover();
    assertEquals(List.of("2", "8", "4"), receiveTexts(consumer, 3));
  }

  @Tag("M7")
  @Test
  void recoverOfAnEmptySessionChangesNothing() throws Exception {
    Session session = connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = queue(session, name("recover-nothing"));
    MessageConsumer consumer = session.createConsumer(queue);
    session.recover();
    assertNextIs("only", session, queue, consumer);
  }

  @Tag("M7")
  @Test
  void recoverInAListenerRedelivers() throws Exception {
    Connection connection = connect();
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = queue(session, name("recover-listener"));
    BlockingQueue<String> received = new LinkedBlockingQueue<>();
    session
        .createConsumer(queue)
        .setMessageListener(
            message -> {
              try {
                received.add(text(message) + " " + message.getJMSRedelivered());
                if (message.getJMSRedelivered()) {
                  message.acknowledge();
                } else {
                  session.recover();
                }
              } catch (JMSException failure) {
                received.add(failure.toString());
              }
            });
    send(autoSession(connection), queue, "x");
    assertEquals("x false", take(received, "a message"));
    assertEquals("x true", take(received, "a message"));
  }

  @Tag("M7")
  @Test
  void aFailingListenerGetsItsMessageAgain() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    Queue queue = queue(session, name("recover-auto"));
    BlockingQueue<String> received = new LinkedBlockingQueue<>();
    session
        .createConsumer(queue)
        .setMessageListener(
            message -> {
              try {
                received.add(text(message) + " " + message.getJMSRedelivered());
                if (!message.getJMSRedelivered()) {
                  session.recover();
                }
              } catch (JMSException failure) {
                received.add(failure.toString());
              }
            });
    send(autoSession(connection), queue, "x");
    assertEquals("x false", take(received, "a message"));
    assertEquals("x true", take(received, "a message"));
  }

  @Tag("M7")
  @Test
  void recoverIsForTheSessionAndNoOther() throws Exception {
    Connection connection = connect(url().option("maxprefetch", 1));
    Session one = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Session two = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    String name = name("recover-other");
    Queue queue = queue(one, name);
    sendNumbers(one, queue, 2);
    MessageConsumer first = one.createConsumer(queue);
    assertEquals("0", receiveText(first));
    MessageConsumer second = two.createConsumer(queue);
    Message other = receive(second);
    assertEquals("1", text(other));
    one.recover();
    Message again = receive(first);
    assertEquals("0", text(again));
    assertTrue(again.getJMSRedelivered());
    other.acknowledge();
    again.acknowledge();
    connection.close();
    assertEquals(0, observer.ready(name));
  }
}
