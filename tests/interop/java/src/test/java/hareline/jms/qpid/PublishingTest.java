package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import hareline.jms.Patience;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.InvalidDestinationException;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.qpid.client.AMQDestination;
import org.apache.qpid.client.AMQNoConsumersException;
import org.apache.qpid.client.AMQNoRouteException;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Sending: confirms, user ids, queues that are full, depths, and what a producer declares. */
class PublishingTest extends QpidCase {

  @Tag("S8")
  @Test
  void synchronousSendsAreConfirmed() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Session session = autoSession(connect(url().option("sync_publish", "all")));
      String name = name("confirms");
      observer.declare(name, Map.of());
      Queue queue = session.createQueue(syntax.queue(name));
      sendNumbers(session, queue, 20);
      // No wait: a send that returned has been confirmed.
      assertEquals(20, observer.ready(name), "" + syntax);
      assertEquals(numbers(0, 20), receiveTexts(session.createConsumer(queue), 20));
    }
  }

  @Tag("S8")
  @Test
  void synchronousSendsOfATransactionAreThereAtCommit() throws Exception {
    Session session = transacted(connect(url().option("sync_publish", "all")));
    String name = name("confirms-tx");
    Queue queue = queue(session, name);
    sendNumbers(session, queue, 3);
    session.commit();
    assertEquals(3, observer.ready(name));
  }

  @Tag("S8")
  @Test
  void aRefusedMessageFailsItsSend() throws Exception {
    onlyHareline();
    Session session = autoSession(connect(url().option("sync_publish", "all")));
    Queue queue =
        queue(session, name("full"), Map.of("x-max-length", 1, "x-overflow", "reject-publish"));
    MessageProducer producer = session.createProducer(queue);
    producer.send(session.createTextMessage("fits"));
    assertThrows(
        JMSException.class, () -> producer.send(session.createTextMessage("does not fit")));
    assertEquals("fits", receiveText(session.createConsumer(queue)));
  }

  @Test
  void anUnroutableMessageFailsItsSendAndComesBack() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Session session = autoSession(connect(url().option("sync_publish", "all")));
      String name = name("confirm-unroutable");
      Queue queue = session.createQueue(syntax.queue(name));
      MessageProducer producer = session.createProducer(queue);
      if (syntax == Syntax.ADDR) {
        observer.delete(name);
      }
      assertThrows(
          JMSException.class, () -> producer.send(session.createTextMessage("nobody")));
      JMSException failure = take(raised, "the returned message");
      Object back = cause(failure, AMQNoRouteException.class).getUndeliveredMessage();
      assertEquals("nobody", text((Message) back), "" + syntax);
      observer.declare(name, Map.of());
      producer.send(session.createTextMessage("somebody"));
      assertEquals(1, observer.ready(name), "" + syntax);
    }
  }

  @Test
  void anImmediateMessageForNobodyFailsItsSend() throws Exception {
    Session session = autoSession(connect(url().option("sync_publish", "all")));
    Queue queue = queue(session, name("confirm-immediate"));
    MessageProducer producer = qpid(session).createProducer(queue, false, true);
    assertThrows(JMSException.class, () -> producer.send(session.createTextMessage("nobody")));
    cause(take(raised, "the returned message"), AMQNoConsumersException.class);
  }

  @Test
  void anUnroutableMessageWithoutTheFlagIsConfirmed() throws Exception {
    Session session = autoSession(connect(url().option("sync_publish", "all")));
    Queue queue = session.createQueue(Syntax.BURL.queue(name("confirm-dropped")));
    qpid(session).createProducer(queue, false, false).send(session.createTextMessage("nobody"));
    assertTrue(raised.isEmpty(), raised::toString);
  }

  @Tag("S8")
  @Test
  void theUserIdIsTheLoginOrAbsent() throws Exception {
    for (boolean isPopulated : new boolean[] {true, false}) {
      Session session = autoSession(connect(url().option("populateJMSXUserID", isPopulated)));
      Queue queue = queue(session, name("user-id"));
      send(session, queue, "x");
      Message received = receive(session.createConsumer(queue));
      assertEquals(
          isPopulated ? broker.username : null, received.getStringProperty("JMSXUserID"));
    }
  }

  @Tag("M5")
  @Test
  void verifyQueueOnSendRefusesAnUnknownQueue() throws Exception {
    Session session = autoSession(connect(url().option("verifyQueueOnSend", true)));
    String name = name("verified");
    Queue known = session.createQueue(Syntax.BURL.queue(name));
    MessageConsumer consumer = session.createConsumer(known);
    assertNextIs("there", session, known, consumer);
    Queue unknown = session.createQueue(Syntax.BURL.queue(name("unverified")));
    MessageProducer producer = session.createProducer(unknown);
    assertThrows(
        InvalidDestinationException.class,
        () -> producer.send(session.createTextMessage("nowhere")));
  }

  @Tag("M5")
  @Test
  void depthsAreReported() throws Exception {
    Connection connection = connect();
    Session session = autoSession(connection);
    String name = name("depth");
    Queue queue = session.createQueue(Syntax.BURL.queue(name));
    session.createConsumer(queue).close();
    AMQDestination destination = (AMQDestination) queue;
    assertEquals(0, qpid(session).getQueueDepth(destination, true));
    sendNumbers(session, queue, 7);
    Patience.until(() -> qpid(session).getQueueDepth(destination, true) == 7, "all are there");
    Queue absent = session.createQueue(Syntax.BURL.queue(name("no-depth")));
    assertEquals(0, qpid(session).getQueueDepth((AMQDestination) absent, true));
  }

  @Tag("M14")
  @Test
  void aFullQueueStopsItsProducersByChannelFlow() throws Exception {
    // The client obeys channel.flow and never answers it; nothing may wait for an answer.
    onlyHareline();
    Connection connection = connect();
    Session sending = autoSession(connection);
    Queue queue =
        queue(sending, name("stopping"), Map.of("x-max-length", 5, "x-overflow", "flow-control"));
    Thread producer =
        new Thread(
            () -> {
              try {
                for (int i = 0; i < 100; i++) {
                  send(sending, queue, "" + i);
                }
              } catch (JMSException failure) {
                raised.add(failure);
              }
            });
    producer.start();
    MessageConsumer consumer = autoSession(connect()).createConsumer(queue);
    assertEquals(numbers(0, 100), receiveTexts(consumer, 100));
    producer.join(PATIENCE_MS);
    assertTrue(!producer.isAlive() && raised.isEmpty(), raised::toString);
  }

  @Test
  void anonymousProducersSendAnywhere() throws Exception {
    Session session = autoSession(connect());
    MessageProducer anonymous = session.createProducer(null);
    List<Queue> queues =
        List.of(queue(session, name("anywhere")), queue(session, name("anywhere")));
    for (Queue queue : queues) {
      anonymous.send(queue, session.createTextMessage("x"));
      assertEquals("x", receiveText(session.createConsumer(queue)));
    }
  }
}
