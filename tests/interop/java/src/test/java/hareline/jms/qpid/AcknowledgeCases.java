package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import org.junit.jupiter.api.Test;

/** Every acknowledge mode, by receive and by listener, with a prefetch of 0, 1 and 500. */
abstract class AcknowledgeCases extends QpidCase {
  private static final int[] PREFETCHES = {0, 1, 500};
  private static final int NO_ACKNOWLEDGE = org.apache.qpid.jms.Session.NO_ACKNOWLEDGE;
  private static final int PRE_ACKNOWLEDGE = org.apache.qpid.jms.Session.PRE_ACKNOWLEDGE;

  @Test
  void autoAcknowledgedMessagesAreGone() throws Exception {
    receivedOnesAreGone(Session.AUTO_ACKNOWLEDGE);
  }

  @Test
  void dupsOkAcknowledgedMessagesAreGone() throws Exception {
    receivedOnesAreGone(Session.DUPS_OK_ACKNOWLEDGE);
  }

  @Test
  void preAcknowledgedMessagesAreGone() throws Exception {
    receivedOnesAreGone(PRE_ACKNOWLEDGE);
  }

  /** Five of six are received; the sixth is there for the next consumer. */
  private void receivedOnesAreGone(int mode) throws Exception {
    for (int prefetch : PREFETCHES) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = connection.createSession(false, mode);
      Queue queue = queue(session, name("ack"));
      sendNumbers(session, queue, 6);
      assertEquals(numbers(0, 5), receiveTexts(session.createConsumer(queue), 5), "" + prefetch);
      connection.close();

      Session next = autoSession(connect());
      // PRE_ACKNOWLEDGE has settled what was prefetched, so there the rest may be gone too.
      MessageConsumer consumer = next.createConsumer(queue);
      if (mode != PRE_ACKNOWLEDGE) {
        assertEquals("5", receiveText(consumer), "prefetch " + prefetch);
        assertNextIs("last", next, queue, consumer);
      } else {
        send(next, queue, "last");
        List<String> allowed = List.of("5", "last");
        assertTrue(allowed.contains(receiveText(consumer)), "prefetch " + prefetch);
      }
    }
  }

  @Test
  void clientAcknowledgeIsForAllThatTheSessionHasReceived() throws Exception {
    for (int prefetch : PREFETCHES) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = queue(session, name("client-ack"));
      sendNumbers(session, queue, 6);
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 2), receiveTexts(consumer, 2), "prefetch " + prefetch);
      receive(consumer).acknowledge();
      assertEquals("3", receiveText(consumer), "prefetch " + prefetch);
      connection.close();

      Session next = autoSession(connect());
      MessageConsumer other = next.createConsumer(queue);
      Message third = receive(other);
      assertEquals("3", text(third), "prefetch " + prefetch);
      assertTrue(third.getJMSRedelivered(), "it was with a consumer before");
      assertEquals(numbers(4, 6), receiveTexts(other, 2), "prefetch " + prefetch);
      assertNextIs("last", next, queue, other);
    }
  }

  @Test
  void unacknowledgedMessagesComeBackWhenTheSessionCloses() throws Exception {
    Connection connection = connect();
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = queue(session, name("unacked"));
    sendNumbers(session, queue, 4);
    assertEquals(numbers(0, 2), receiveTexts(session.createConsumer(queue), 2));
    session.close();

    MessageConsumer next = autoSession(connection).createConsumer(queue);
    assertEquals(numbers(0, 4), receiveTexts(next, 4));
  }

  @Test
  void unacknowledgedMessagesStayWithASessionWhoseConsumerHasClosed() throws Exception {
    Connection connection = connect();
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    String name = name("closed-consumer");
    Queue queue = queue(session, name);
    sendNumbers(session, queue, 3);
    MessageConsumer first = session.createConsumer(queue);
    Message message = receive(first);
    first.close();
    MessageConsumer next = autoSession(connection).createConsumer(queue);
    // The client's dispatcher may give one of the two back later than the other.
    assertEquals(Set.of("1", "2"), Set.copyOf(receiveTexts(next, 2)));
    message.acknowledge();
    session.close();
    assertNextIs("last", autoSession(connection), queue, next);
    assertEquals(0, observer.ready(name));
  }

  @Test
  void whatNoAcknowledgeHandsOverIsGoneAtOnce() throws Exception {
    for (int prefetch : new int[] {1, 500}) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = connection.createSession(false, NO_ACKNOWLEDGE);
      String name = name("no-ack");
      Queue queue = queue(session, name);
      sendNumbers(session, queue, 4);
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 4), receiveTexts(consumer, 4), "prefetch " + prefetch);
      connection.close();
      assertEquals(0, observer.ready(name), "prefetch " + prefetch);
    }
  }

  @Test
  void noAcknowledgeGoesOnBeyondTheClientsBuffer() throws Exception {
    // The client stops and resumes the channel's flow as its buffer passes its marks.
    Connection connection = connect(url().option("maxprefetch", 10));
    Session session = connection.createSession(false, NO_ACKNOWLEDGE);
    Queue queue = queue(session, name("no-ack-many"));
    sendNumbers(session, queue, 200);
    assertEquals(numbers(0, 200), receiveTexts(session.createConsumer(queue), 200));
  }

  @Test
  void listenersReceiveInOrderInEveryMode() throws Exception {
    int[] modes = {
      Session.AUTO_ACKNOWLEDGE,
      Session.CLIENT_ACKNOWLEDGE,
      Session.DUPS_OK_ACKNOWLEDGE,
      NO_ACKNOWLEDGE,
      PRE_ACKNOWLEDGE
    };
    for (int mode : modes) {
      for (int prefetch : PREFETCHES) {
        Connection connection = connect(url().option("maxprefetch", prefetch));
        Session session = connection.createSession(false, mode);
        Session sender = autoSession(connection);
        String name = name("listener");
        Queue queue = queue(session, name);
        BlockingQueue<String> received = new LinkedBlockingQueue<>();
        session
            .createConsumer(queue)
            .setMessageListener(
                message -> {
                  try {
                    message.acknowledge();
                    received.add(text(message));
                  } catch (javax.jms.JMSException failure) {
                    received.add(failure.toString());
                  }
                });
        sendNumbers(sender, queue, 20);
        for (int i = 0; i < 20; i++) {
          assertEquals("" + i, take(received, "a message"), "mode " + mode + ", " + prefetch);
        }
        connection.close();
        assertEquals(0, observer.ready(name), "mode " + mode + ", prefetch " + prefetch);
      }
    }
  }

  @Test
  void oneSessionServesTwoConsumersAndAcknowledgesBoth() throws Exception {
    Connection connection = connect();
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    String left = name("left");
    String right = name("right");
    Queue first = queue(session, left);
    Queue second = queue(session, right);
    sendNumbers(session, first, 2);
    sendNumbers(session, second, 2);
    MessageConsumer one = session.createConsumer(first);
    MessageConsumer two = session.createConsumer(second);
    receiveTexts(one, 2);
    Message last = null;
    for (int i = 0; i < 2; i++) {
      last = receive(two);
      assertFalse(last.getJMSRedelivered(), "it was with nobody before");
    }
    last.acknowledge();
    connection.close();
    assertEquals(0, observer.ready(left));
    assertEquals(0, observer.ready(right));
  }
}
