package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Transacted sessions: commit, rollback, redelivery, and prefetches smaller than a transaction. */
abstract class TransactionCases extends QpidCase {

  @Test
  void whatIsSentIsThereAtCommitAndNotBefore() throws Exception {
    Session session = transacted(connect());
    String name = name("tx-send");
    Queue queue = queue(session, name);
    sendNumbers(session, queue, 3);
    // A round trip on the same channel: the three have reached the broker.
    session.createBrowser(queue).close();
    assertEquals(0, observer.ready(name));
    session.commit();
    assertEquals(3, observer.ready(name));
  }

  @Test
  void whatIsSentIsForgottenAtRollback() throws Exception {
    Session session = transacted(connect());
    String name = name("tx-forget");
    Queue queue = queue(session, name);
    send(session, queue, "forgotten");
    session.rollback();
    send(session, queue, "kept");
    session.commit();
    assertEquals("kept", receiveText(session.createConsumer(queue)));
    session.commit();
    assertEquals(0, observer.ready(name));
  }

  @Test
  void whatIsReceivedIsGoneAtCommit() throws Exception {
    for (int prefetch : new int[] {0, 1, 500}) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = transacted(connection);
      String name = name("tx-receive");
      Queue queue = queue(session, name);
      sendNumbers(session, queue, 5);
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 3), receiveTexts(consumer, 3), "prefetch " + prefetch);
      session.commit();
      connection.close();
      assertEquals(2, observer.ready(name), "prefetch " + prefetch);
    }
  }

  @Tag("M8")
  @Test
  void rollbackRedeliversInOrder() throws Exception {
    for (int prefetch : new int[] {0, 1, 2, 500}) {
      Session session = transacted(connect(url().option("maxprefetch", prefetch)));
      Queue queue = queue(session, name("tx-rollback"));
      sendNumbers(session, queue, 6);
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 3), receiveTexts(consumer, 3), "prefetch " + prefetch);
      session.rollback();
      for (int i = 0; i < 3; i++) {
        Message again = receive(consumer);
        assertEquals("" + i, text(again), "prefetch " + prefetch);
        assertTrue(again.getJMSRedelivered(), "prefetch " + prefetch);
      }
      assertEquals(numbers(3, 6), receiveTexts(consumer, 3), "prefetch " + prefetch);
      session.commit();
      assertNextCommitted("last", session, queue, consumer);
    }
  }

  private static void assertNextCommitted(
      String text, Session session, Queue queue, MessageConsumer consumer) throws JMSException {
    send(session, queue, text);
    session.commit();
    assertEquals(text, receiveText(consumer));
    session.commit();
  }

  @Tag("M8")
  @Test
  void rollbackGivesMessagesToOtherConsumersToo() throws Exception {
    Session session = transacted(connect());
    String name = name("tx-others");
    Queue queue = queue(session, name);
    sendNumbers(session, queue, 4);
    session.commit();
    MessageConsumer consumer = session.createConsumer(queue);
    assertEquals(numbers(0, 2), receiveTexts(consumer, 2));
    session.rollback();
    consumer.close();
    session.rollback();
    observer.awaitReady(name, 4);
    assertEquals(numbers(0, 4), receiveTexts(autoSession(connect()).createConsumer(queue), 4));
  }

  @Tag("M8")
  @Test
  void rollbackInAListenerRedelivers() throws Exception {
    Connection connection = connect();
    Session session = transacted(connection);
    Queue queue = queue(session, name("tx-listener"));
    BlockingQueue<String> received = new LinkedBlockingQueue<>();
    session
        .createConsumer(queue)
        .setMessageListener(
            message -> {
              try {
                received.add(text(message) + " " + message.getJMSRedelivered());
                if (text(message).equals("1") && !message.getJMSRedelivered()) {
                  session.rollback();
                } else {
                  session.commit();
                }
              } catch (JMSException failure) {
                received.add(failure.toString());
              }
            });
    sendNumbers(autoSession(connection), queue, 3);
    assertEquals("0 false", take(received, "a message"));
    assertEquals("1 false", take(received, "a message"));
    assertEquals("1 true", take(received, "a message"));
    assertTrue(take(received, "a message").startsWith("2 "));
  }

  @Tag("M8")
  @Test
  void closingASessionRollsItBack() throws Exception {
    Connection connection = connect();
    Session session = transacted(connection);
    String name = name("tx-close");
    Queue queue = queue(session, name);
    sendNumbers(session, queue, 3);
    session.commit();
    assertEquals(numbers(0, 2), receiveTexts(session.createConsumer(queue), 2));
    send(session, queue, "forgotten");
    session.close();
    observer.awaitReady(name, 3);
    assertEquals(numbers(0, 3), receiveTexts(autoSession(connection).createConsumer(queue), 3));
    assertEquals(0, observer.ready(name));
  }

  @Tag("M13")
  @Test
  void aTransactionMayBeLargerThanThePrefetch() throws Exception {
    for (int prefetch : new int[] {0, 1, 3}) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = transacted(connection);
      String name = name("tx-large");
      Queue queue = queue(session, name);
      sendNumbers(session, queue, 20);
      session.commit();
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 10), receiveTexts(consumer, 10), "prefetch " + prefetch);
      session.commit();
      assertEquals(numbers(10, 20), receiveTexts(consumer, 10), "prefetch " + prefetch);
      session.commit();
      connection.close();
      assertEquals(0, observer.ready(name), "prefetch " + prefetch);
    }
  }

  @Tag("M13")
  @Test
  void clientAcknowledgeMayWaitLongerThanThePrefetch() throws Exception {
    for (int prefetch : new int[] {0, 1, 3}) {
      Connection connection = connect(url().option("maxprefetch", prefetch));
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      String name = name("client-large");
      Queue queue = queue(session, name);
      sendNumbers(session, queue, 20);
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 9), receiveTexts(consumer, 9), "prefetch " + prefetch);
      receive(consumer).acknowledge();
      assertEquals(numbers(10, 19), receiveTexts(consumer, 9), "prefetch " + prefetch);
      receive(consumer).acknowledge();
      connection.close();
      assertEquals(0, observer.ready(name), "prefetch " + prefetch);
    }
  }

  @Test
  void topicsAreTransactedToo() throws Exception {
    Connection connection = connect();
    Session session = transacted(connection);
    Topic topic = topic(session, name("tx-topic"));
    MessageConsumer subscriber = autoSession(connection).createConsumer(topic);
    send(session, topic, "forgotten");
    session.rollback();
    send(session, topic, "kept");
    session.commit();
    Message message = receive(subscriber);
    assertEquals("kept", text(message));
    assertFalse(message.getJMSRedelivered());
  }

  @Test
  void whatIsReceivedAndSentOnIsOneTransaction() throws Exception {
    Session session = transacted(connect());
    String from = name("tx-from");
    String to = name("tx-to");
    Queue source = queue(session, from);
    Queue target = queue(session, to);
    sendNumbers(session, source, 2);
    session.commit();
    MessageConsumer consumer = session.createConsumer(source);
    send(session, target, receiveText(consumer));
    session.rollback();
    assertEquals(0, observer.ready(to));
    send(session, target, receiveText(consumer));
    session.commit();
    assertEquals(1, observer.ready(to));
    assertEquals("1", receiveText(consumer));
    session.commit();
    assertEquals(0, observer.ready(from));
  }
}
