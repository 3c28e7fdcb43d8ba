package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import org.junit.jupiter.api.Test;

/** Session.recover(), which the client sends as basic.recover with requeue=0. */
abstract class RecoverCases extends QpidCase {

  @Test
  void m7_recoverRedeliversWhatIsUnacknowledgedInOrder() throws Exception {
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

  @Test
  void m7_recoverOfAnEmptySessionChangesNothing() throws Exception {
    Session session = connect().createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = queue(session, name("recover-nothing"));
    MessageConsumer consumer = session.createConsumer(queue);
    session.recover();
    assertNextIs("only", session, queue, consumer);
  }

  @Test
  void m7_recoverInAListenerRedelivers() throws Exception {
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

  @Test
  void m7_aFailingListenerGetsItsMessageAgain() throws Exception {
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

  @Test
  void m7_recoverIsForTheSessionAndNoOther() throws Exception {
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
